"""The certificates of a local control plane: an authority of its own, a server, and clients.

Kubernetes reads the user from a client certificate's common name and the groups from its organizations.
"""

import base64
import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admission.kube.webhook.certificates import CertificatePair, draft_certificate, general_name, key_usage

#: Longer than any local cluster lives.
LIFETIME = datetime.timedelta(days=365)
#: Clocks of containers and hosts differ a little.
SKEW = datetime.timedelta(minutes=5)


class Authority:
    """Signs certificates. It is kept in a folder: a cluster restarted there accepts its users' certificates."""

    def __init__(self, pair: CertificatePair) -> None:
        self._pair = pair
        self.pem = pair.certificate_pem

    @classmethod
    def in_folder(cls, folder: Path, name: str = "muster-local") -> "Authority":
        """The authority of a folder, made on first use. ``name``: two of one name would each be tried for every
        certificate of the other, which takes a third of what the API server takes to see who sends a request."""
        key_file, certificate_file = folder / "ca.key", folder / "ca.crt"
        if certificate_file.exists():
            return cls(CertificatePair.parse(certificate_file.read_bytes(), key_file.read_bytes()))
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        draft = _draft(subject, subject, key, signer=key, is_authority=True)
        made = CertificatePair(draft.sign(key, hashes.SHA256()), key)
        write_pair(folder, "ca", made)
        return cls(made)

    def server(self, *names: str) -> CertificatePair:
        """A certificate for a server reached by these names and addresses."""
        alternatives = x509.SubjectAlternativeName([general_name(name) for name in names])
        return self._issue(names[0], (), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> CertificatePair:
        """A client certificate of this user."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        common_name: str,
        organizations: Sequence[str],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> CertificatePair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        issuer = self._pair.certificate.subject
        draft = _draft(subject, issuer, key, signer=self._pair.key, is_authority=False)
        draft = draft.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            draft = draft.add_extension(alternatives, critical=False)
        return CertificatePair(draft.sign(self._pair.key, hashes.SHA256()), key)


def write_pair(folder: Path, name: str, pair: CertificatePair) -> None:
    """Store a certificate and its key as ``name.crt`` and ``name.key``."""
    write_private(folder / f"{name}.crt", pair.certificate_pem)
    write_private(folder / f"{name}.key", pair.key_pem)


def service_account_keys(folder: Path) -> tuple[Path, Path]:
    """The private and public key that service account tokens are signed with, made on first use."""
    private, public = folder / "service-accounts.key", folder / "service-accounts.pub"
    if not public.exists():
        # RSA: what the API server signs with by default.
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(private, pem)
        write_private(
            public,
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
    return private, public


def pair_credentials(pair: CertificatePair) -> dict[str, str]:
    """A certificate and its key as a kubeconfig has them."""
    return {
        "client-certificate-data": _encoded(pair.certificate_pem),
        "client-key-data": _encoded(pair.key_pem),
    }


def write_kubeconfig(
    path: Path, *, server: str, authority: bytes, user: str, credentials: Mapping[str, str]
) -> None:
    """A kubeconfig that needs no other file. ``credentials``: ``pair_credentials``, or a token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [
            {
                "name": "local",
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority)},
            }
        ],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only we can read, replacing it in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
    draft.replace(path)


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    signer: ec.EllipticCurvePrivateKey,
    is_authority: bool,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - a certificate has a date
    # Python 3.13 and newer accept no certificate without the two key identifiers.
    return (
        draft_certificate(subject, issuer, key, now, LIFETIME, SKEW)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(key_usage(signs_certificates=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
