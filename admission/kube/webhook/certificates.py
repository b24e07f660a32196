"""The webhook's own certificates: made, and renewed in time, without a person's help.

A keyring holds the authorities that the API server shall believe (its ``caBundle``) and one serving certificate.
``renewed`` computes what a keyring becomes as time passes: a new authority joins the bundle well before the old one
ends, and signs only after the bundle had time to spread, so every certificate served is believed at every
moment. Nothing here does I/O or reads a clock; keys are random.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admission.kube.webhook.validity import Validity
from queues.errors import MusterError


class UnreadableKeyring(MusterError):
    """The stored certificates cannot be used: {reason}. New ones are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long certificates live. Each is replaced when two thirds of its life are over."""

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=60)
    #: From an authority's joining the bundle to its first signature: every replica and API server has seen it.
    settling: timedelta = timedelta(hours=1)
    #: Certificates are valid from a little before they are made: clocks differ.
    skew: timedelta = timedelta(minutes=5)


LIFETIMES: Final = Lifetimes()


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def parse(cls, certificate: bytes, key: bytes) -> Self:
        """From PEM. Raises UnreadableKeyring."""
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
            private, public = serialization.load_pem_private_key(key, None), parsed.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UnreadableKeyring(reason=error) from error
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != public:
            raise UnreadableKeyring(reason="a key does not belong to its certificate")
        return cls(parsed, private)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key, unencrypted."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def validity(self) -> Validity:
        """When the certificate is valid."""
        return validity_of(self.certificate)

    def worn(self, now: datetime) -> bool:
        """Two thirds of its life are over, or it was made by a clock that was wrong and is not valid yet."""
        begin, end = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return now < begin or now >= begin + (end - begin) * 2 / 3

    def over(self, now: datetime) -> bool:
        """Whether the authority has expired, or is not valid yet."""
        return not self.certificate.not_valid_before_utc <= now < self.certificate.not_valid_after_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """Everything that replicas share."""

    #: Oldest first.
    authorities: tuple[CertificatePair, ...]
    serving: CertificatePair

    @property
    def bundle(self) -> bytes:
        """What the API server shall believe, as PEM."""
        return b"".join(authority.certificate_pem for authority in self.authorities)

    def names(self) -> frozenset[str]:
        """Host names and addresses that the serving certificate is good for."""
        return names_of(self.serving.certificate)


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """Host names and addresses that a certificate is good for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset([*found.get_values_for_type(x509.DNSName), *map(str, addresses)])


def validity_of(certificate: x509.Certificate) -> Validity:
    """When a certificate is valid."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Validity(begins=begins.timestamp(), ends=ends.timestamp())


def renewed(
    keyring: Keyring | None, names: Iterable[str], now: datetime, lifetimes: Lifetimes = LIFETIMES
) -> Keyring:
    """The keyring as it should be now: itself while nothing is due.

    Names of other replicas stay in the certificate, so that replicas with other settings do not take turns.
    """
    wanted = frozenset(names)
    if keyring is None:
        authority = _authority(now, lifetimes)
        return Keyring(authorities=(authority,), serving=_serving(authority, wanted, now, lifetimes))
    authorities = tuple(one for one in keyring.authorities if not one.over(now))
    if not authorities:
        return renewed(None, wanted | keyring.names(), now, lifetimes)
    if authorities[-1].worn(now):
        authorities = (*authorities, _authority(now, lifetimes))
    keyring = replace(keyring, authorities=authorities) if authorities != keyring.authorities else keyring
    signer = _settled(authorities, now, lifetimes)
    known = keyring.names()
    serving = keyring.serving
    due = serving.worn(now) or serving.certificate.issuer != signer.certificate.subject or not wanted <= known
    return replace(keyring, serving=_serving(signer, wanted | known, now, lifetimes)) if due else keyring


def _settled(authorities: Sequence[CertificatePair], now: datetime, lifetimes: Lifetimes) -> CertificatePair:
    """The newest authority that every API server has by now; the oldest if none is so old."""
    for authority in reversed(authorities):
        if now >= authority.certificate.not_valid_before_utc + lifetimes.skew + lifetimes.settling:
            return authority
    return authorities[0]


def _authority(now: datetime, lifetimes: Lifetimes) -> CertificatePair:
    # A name of its own: a verifier must find the right one of several authorities.
    name = common_name(f"muster-webhook-ca-{x509.random_serial_number():x}"[:64])
    return signed_certificate(name, None, now, lifetimes.authority, skew=lifetimes.skew)


def _serving(
    authority: CertificatePair, names: frozenset[str], now: datetime, lifetimes: Lifetimes
) -> CertificatePair:
    # Never longer than the authority that signs it.
    life = min(lifetimes.serving, authority.certificate.not_valid_after_utc - now)
    uses = uses_of_server(sorted(names))
    return signed_certificate(
        common_name("muster-webhook"), authority, now, life, skew=lifetimes.skew, uses=uses
    )


def signed_certificate(
    subject: x509.Name,
    authority: CertificatePair | None,
    now: datetime,
    life: timedelta,
    *,
    skew: timedelta,
    uses: Iterable[x509.ExtensionType] = (),
) -> CertificatePair:
    """A certificate of a new key, valid from ``skew`` before ``now``. ``uses``: what it is good for.

    ``authority``: what signs it. None for an authority itself, which signs end certificates only.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    is_authority = authority is None
    issuer, signer = (subject, key) if authority is None else (authority.certificate.subject, authority.key)
    draft = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - skew)
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(_key_usage(signs_certificates=is_authority), critical=True)
        # Python 3.13 and newer accept no certificate without the two key identifiers.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    for use in uses:
        draft = draft.add_extension(use, critical=False)
    return CertificatePair(draft.sign(signer, hashes.SHA256()), key)


def uses_of_server(names: Iterable[str]) -> tuple[x509.ExtensionType, ...]:
    """What the certificate of a server is good for that is reached by these host names and addresses."""
    return (
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName([_general_name(name) for name in names]),
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The key usage of an authority, or of an end certificate."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def common_name(name: str) -> x509.Name:
    """A subject that has nothing but its name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    """A host name or an address as a subject alternative name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# -- as a Secret's fields -------------------------------------------------------------------------------------

#: The single PEM blocks of several in a row.
_BLOCK: Final = re.compile(rb"-----BEGIN.*?-----END[^\n]*\n?", re.DOTALL)


def encoded(keyring: Keyring) -> dict[str, bytes]:
    """The fields of a Secret."""
    return {
        "ca.crt": keyring.bundle,
        "ca.key": b"".join(authority.key_pem for authority in keyring.authorities),
        "tls.crt": keyring.serving.certificate_pem,
        "tls.key": keyring.serving.key_pem,
    }


def decoded(fields: dict[str, bytes]) -> Keyring:
    """From the fields of a Secret. Raises UnreadableKeyring."""
    missing = [name for name in ("ca.crt", "ca.key", "tls.crt", "tls.key") if not fields.get(name)]
    if missing:
        raise UnreadableKeyring(reason=f"{', '.join(missing)} missing")
    certificates, keys = _BLOCK.findall(fields["ca.crt"]), _BLOCK.findall(fields["ca.key"])
    if len(certificates) != len(keys):
        raise UnreadableKeyring(reason=f"{len(certificates)} authorities with {len(keys)} keys")
    return Keyring(
        authorities=tuple(CertificatePair.parse(*both) for both in zip(certificates, keys, strict=True)),
        serving=CertificatePair.parse(fields["tls.crt"], fields["tls.key"]),
    )
