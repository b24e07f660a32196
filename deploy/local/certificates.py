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
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admission.kube.webhook.certificates import (
    CertificatePair,
    common_name,
    signed_certificate,
    uses_of_server,
)

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
        made = signed_certificate(common_name(name), None, _now(), LIFETIME, skew=SKEW)
        write_pair(folder, "ca", made)
        return cls(made)

    def server(self, *names: str) -> CertificatePair:
        """A certificate for a server reached by these names and addresses."""
        return self._issue(common_name(names[0]), uses_of_server(names))

    def client(self, user: str, groups: Sequence[str] = ()) -> CertificatePair:
        """A client certificate of this user."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, *common_name(user)])
        return self._issue(subject, (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),))

    def _issue(self, subject: x509.Name, uses: Sequence[x509.ExtensionType]) -> CertificatePair:
        return signed_certificate(subject, self._pair, _now(), LIFETIME, skew=SKEW, uses=uses)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)  # noqa: TID251 - a certificate has a date


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
