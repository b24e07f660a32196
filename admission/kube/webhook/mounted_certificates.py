"""Certificates that others make and renew, such as cert-manager: read from a folder in which their Secret is mounted.

Nothing is written then: no Secret, and no bundle into the configurations that the API server reads. Who makes the
certificates does that too (``cert-manager.io/inject-ca-from``).
"""

import asyncio
import logging
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NoReturn

from cryptography import x509

from admission.kube.client.client import Client
from admission.kube.webhook.certificates import names_of, validity_of
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.keyring import KeyringStore, load, tls_context
from admission.kube.webhook.validity import CertificatesLoaded, Validity, tell_nobody
from queues.errors import MusterError

_log = logging.getLogger(__name__)

#: Seconds between two looks. The kubelet itself takes up to a minute to show a new version of a Secret.
LOOK_EVERY: Final = 10.0
#: Files of the folder, as a Secret of type kubernetes.io/tls has them.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"


class CertificatesUnusable(MusterError):
    """The certificates in {folder} cannot be used: {reason}. Expected tls.crt, tls.key and ca.crt in PEM, as a Secret
    has them that cert-manager writes."""


class MountedCertificates:
    """What ``KeyringStore`` is, for certificates of others. ``names``: what the server is reached by."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = frozenset(names)
        #: By name; empty before the first look.
        self._loaded: dict[str, bytes] = {}
        #: Of the serving certificate and of the newest authority.
        self._valid = (Validity(begins=0.0, ends=0.0), Validity(begins=0.0, ends=0.0))
        #: The last failure that was logged; "": none since the last success.
        self._failure = ""
        #: Called after each look.
        self.loaded: CertificatesLoaded = tell_nobody
        #: Serve with this one; new connections get a new certificate soon after it is mounted.
        self.tls = tls_context()

    async def run(self) -> NoReturn:
        """Keep the newest certificate, for ever. A failure is logged once: the one before serves on."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.keep()
            except CertificatesUnusable as error:
                if str(error) != self._failure:
                    self._failure = str(error)
                    _log.warning("the mounted certificates could not be loaded: %s", error)
            else:
                self._failure = ""

    async def keep(self) -> None:
        """One look. Raises CertificatesUnusable; what served before does so still."""
        files = await asyncio.to_thread(self._read)
        if files != self._loaded:
            self._take(files)
        self.loaded(*self._valid)

    def bundle(self) -> bytes:
        """The authorities that clients of any replica believe, as PEM; empty before the first look."""
        return self._loaded.get(AUTHORITIES, b"")

    def _read(self) -> dict[str, bytes]:
        found = {}
        for name in (CERTIFICATE, KEY, AUTHORITIES):
            try:
                found[name] = (self._folder / name).read_bytes()
            except OSError as error:
                raise self._unusable(f"{name}: {error.strerror or error}") from error
            if not found[name].strip():
                raise self._unusable(f"{name} is empty")
        return found

    def _take(self, files: dict[str, bytes]) -> None:
        """Serve with these. All is read before anything changes: a file may be of an older version than the others."""
        serving, authorities = self._parsed(CERTIFICATE, files), self._parsed(AUTHORITIES, files)
        pair = files[CERTIFICATE] + b"\n" + files[KEY]
        try:
            # In a context that serves no client: a key of another certificate must not end what is served now.
            load(tls_context(), pair)
            load(self.tls, pair)
        except (ssl.SSLError, ValueError) as error:
            raise self._unusable(f"{KEY} does not belong to {CERTIFICATE}, or is none: {error}") from error
        if missing := sorted(self._names - names_of(serving[0])):
            _log.warning("the certificate is not good for %s: callers refuse it", ", ".join(missing))
        newest = max(authorities, key=lambda each: each.not_valid_after_utc)
        self._valid = (validity_of(serving[0]), validity_of(newest))
        self._loaded = files
        _log.info(
            "serving certificate loaded", extra={"valid_until": serving[0].not_valid_after_utc.isoformat()}
        )

    def _parsed(self, name: str, files: dict[str, bytes]) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(files[name])
        except ValueError as error:
            raise self._unusable(f"{name} has no certificate: {error}") from error

    def _unusable(self, reason: str) -> CertificatesUnusable:
        return CertificatesUnusable(folder=self._folder, reason=reason)


def serving_certificates(
    client: Client, callee: Callee, folder: Path | None
) -> KeyringStore | MountedCertificates:
    """The certificates of a server. ``folder``: with those that others make. If None, Muster makes them."""
    if folder is not None:
        return MountedCertificates(folder, callee.names())
    return KeyringStore(client, namespace=callee.namespace, names=callee.names())
