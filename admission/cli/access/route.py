"""Where a command asks: a replica of Muster, or the API server as the user of the kubeconfig."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from admission.api_access import Access
from admission.cli.failures import CommandFailed
from admission.kube.client.kubeconfig import current_namespace, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the API server is, and the read API behind it."""

    #: URL of a replica. None to ask through the API server.
    server: str | None = None
    #: PEM file of the authorities that its certificate is checked by. None for the system's.
    server_ca: str | None = None
    #: File with the token to ask a replica with. None for MUSTER_TOKEN.
    token_file: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    #: Seconds, for connecting and for each read.
    timeout: float = 15.0
    #: How the API server is reached. None for what the kubeconfig says.
    access: Access | None = None

    def namespace(self, given: str | None) -> str:
        """The namespace that a command is about."""
        return given or current_namespace(self.kubeconfig, self.context)

    def within(self, seconds: float) -> "Route":
        """The same with at most so much patience."""
        return replace(self, timeout=min(self.timeout, seconds))

    def to_cluster(self) -> Access:
        """How the API server is reached. Raises UnusableAccess: the kubeconfig cannot be used."""
        return self.access or load(self.kubeconfig, self.context)

    def to_muster(self) -> Access:
        """How the read API is reached. Raises CommandFailed: what the route names cannot be read."""
        return self.to_cluster() if self.server is None else _replica(self, self.server)


def _replica(route: Route, server: str) -> Access:
    """A replica, asked with a bearer token: it does not see the certificate of a kubeconfig."""
    try:
        token = os.environ.get("MUSTER_TOKEN", "")
        if route.token_file is not None:
            token = Path(route.token_file).read_text(encoding="utf-8")
        authority = None if route.server_ca is None else Path(route.server_ca).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(tried="Reading the token and the authorities", found=str(error)) from error
    return Access(
        server=server.rstrip("/") if "://" in server else f"https://{server}",
        authority=authority,
        headers=(("Authorization", f"Bearer {token.strip()}"),) if token.strip() else (),
    )
