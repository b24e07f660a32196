"""How a program reaches one API server as one user: address, certificates, authorization."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from queues.errors import MusterError

#: Where Kubernetes mounts the token and the authority of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class UnusableAccess(MusterError):
    """{tried}: {found}. {hint}"""

    def __init__(self, *, tried: str, found: str, hint: str = "") -> None:
        super().__init__(f"{tried}: {found}".rstrip(".") + "." + (f"\n{hint}" if hint else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one API server as one user."""

    #: https://host:port, perhaps with a path.
    server: str
    #: Namespace of the context.
    namespace: str = "default"
    #: PEM texts. None for the system's authorities, or for no certificate.
    authority: str | None = None
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    #: File of a bearer token, read for each request: whoever writes it replaces it before the token expires. None for
    #: no token, or one among the headers.
    token_file: Path | None = None
    #: Authorization and impersonation.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Whether a credential plugin gave token or certificate, and when they end (seconds since the epoch). None if it
    #: names no end.
    by_plugin: bool = False
    expires: float | None = None

    @classmethod
    def in_pod(cls, environment: Mapping[str, str], account: Path | None = None) -> Self:
        """The access of a container, by the service account of its pod. Raises UnusableAccess outside of one.

        ``account``: None for the usual folder.
        """
        account = account or SERVICE_ACCOUNT
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        token_file, namespace = account / "token", account / "namespace"
        if not host or not token_file.is_file():
            raise UnusableAccess(
                tried="Looking for the service account of a pod",
                found=f"none, expected KUBERNETES_SERVICE_HOST and {token_file}",
                hint="Outside of a cluster name a kubeconfig by --kubeconfig.",
            )
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port or 443}",
            namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
            authority=(account / "ca.crt").read_text(encoding="ascii"),
            token_file=token_file,
        )

    def with_token(self) -> Self:
        """The same with the token that the file has now among the headers. Raises OSError."""
        if self.token_file is None:
            return self
        token = self.token_file.read_text(encoding="utf-8").strip()
        headers = (("Authorization", f"Bearer {token}"), *self.headers)
        return replace(self, token_file=None, headers=headers)
