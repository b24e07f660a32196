"""The certificates of a local control plane: an authority of its own, and an identity for whoever asks.

Kubernetes reads the user from a client certificate's common name and the groups from its organizations.
"""

import base64
import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: A local cluster is thrown away long before.
LIFETIME = datetime.timedelta(days=365)
#: Clocks of containers and hosts differ a little.
SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class LocalCertificate:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        """Store both as ``name.crt`` and ``name.key``."""
        write_private(folder / f"{name}.crt", self.certificate)
        write_private(folder / f"{name}.key", self.key)


class Authority:
    """Signs certificates. Kept in a folder, so that a cluster started there again still knows its users."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def in_folder(cls, folder: Path) -> "Authority":
        """The authority of a folder, made on first use."""
        key_file, certificate_file = folder / "ca.key", folder / "ca.crt"
        if certificate_file.exists():
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            return cls(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster-local")])
        draft = _draft(name, name, key.public_key(), signer=key.public_key())
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        draft = draft.add_extension(_usage(signs_certificates=True), critical=True)
        made = cls(key, draft.sign(key, hashes.SHA256()))
        write_private(key_file, private_pem(key))
        write_private(certificate_file, made.pem)
        return made

    def server(self, *names: str) -> LocalCertificate:
        """A certificate for a server reached by these names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(names[0], (), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> LocalCertificate:
        """A certificate that makes its bearer this user."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        common_name: str,
        organizations: Sequence[str],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> LocalCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        issuer = self._certificate.subject
        draft = _draft(subject, issuer, key.public_key(), signer=self._key.public_key())
        draft = draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        draft = draft.add_extension(_usage(signs_certificates=False), critical=True)
        draft = draft.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            draft = draft.add_extension(alternatives, critical=False)
        signed = draft.sign(self._key, hashes.SHA256())
        return LocalCertificate(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))


def service_account_keys(folder: Path) -> tuple[Path, Path]:
    """The private and public key that service account tokens are signed with, made on first use."""
    private, public = folder / "service-accounts.key", folder / "service-accounts.pub"
    if not public.exists():
        # RSA: what the API server signs with by default.
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        write_private(private, private_pem(key))
        write_private(
            public,
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
    return private, public


def write_kubeconfig(path: Path, *, server: str, authority: bytes, user: str, pair: LocalCertificate) -> None:
    """A kubeconfig that needs no other file."""

    def encoded(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [
            {"name": "local", "cluster": {"server": server, "certificate-authority-data": encoded(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": encoded(pair.certificate),
                    "client-key-data": encoded(pair.key),
                },
            }
        ],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only we can read, replacing it in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
    draft.replace(path)


def private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """A private key as unencrypted PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    signer: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - a certificate has a date
    # Python 3.13 and newer believe no certificate without the two key identifiers.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
