"""When certificates are valid: what is reported of them to a process that loads none itself."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The period in which a certificate is valid, in seconds since the epoch."""

    begins: float
    ends: float


#: Called with the validity of the serving certificate and of the newest authority.
CertificatesLoaded = Callable[[Validity, Validity], None]


def tell_nobody(_serving: Validity, _authority: Validity) -> None:
    """Certificates were loaded, and no process counts them."""
