"""One question to the read API: through the API server's service proxy, or straight to a replica.

Standard library only: a call of the plugin should take no longer than the answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from admission.cli.failures import CommandFailed
from admission.kube.client.kubeconfig import Access, load

SERVICE: Final = "muster"
PORT: Final = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the read API is."""

    #: URL of a replica; None: through the API server.
    server: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    #: Namespace of Muster's Service.
    muster_namespace: str = "muster-system"
    #: Seconds, for connecting and for each read.
    timeout: float = 15.0


class Unanswered(CommandFailed):
    """The read API answered with an error."""

    def __init__(self, *, status: int, tried: str, found: str, hint: str) -> None:
        super().__init__(tried=tried, found=found, hint=hint)
        self.status = status


def ask(route: Route, path: str, query: Mapping[str, str | None] | None = None) -> Any:
    """The answer, parsed. Raises CommandFailed (not reachable) or Unanswered (an error as the answer)."""
    body = fetch(route, path, query)
    try:
        return json.loads(body)
    except ValueError as error:
        raise CommandFailed(
            tried=f"Asking Muster for {path}",
            found=f"no JSON but {body[:80].decode(errors='replace')!r}",
            hint="Something else listens at that address.",
        ) from error


def fetch(route: Route, path: str, query: Mapping[str, str | None] | None = None) -> bytes:
    """The answer as bytes. Raises as ``ask``."""
    given = {name: text for name, text in (query or {}).items() if text is not None}
    target = path + (f"?{urlencode(given)}" if given else "")
    if route.server is not None:
        access = Access(
            server=route.server.rstrip("/") if "://" in route.server else f"http://{route.server}"
        )
        where = access.server
        advice = "Is that the address of `muster run` (setting httpListen)?"
    else:
        access = load(route.kubeconfig, route.context)
        service = f"http:{SERVICE}:{PORT}"
        target = f"/api/v1/namespaces/{quote(route.muster_namespace)}/services/{service}/proxy{target}"
        where = f"{access.server}, service {route.muster_namespace}/{SERVICE}"
        advice = (
            "Is the cluster up, and is this the right context? `kubectl cluster-info` asks the same server."
        )
    from admission.cli.access.transport import get

    tried = f"Asking Muster at {where}"
    status, body = get(access, target, timeout=route.timeout, tried=tried, unreachable=advice)
    if status == 200:
        return body
    raise _complaint(status, body, tried, route)


def _complaint(status: int, body: bytes, tried: str, route: Route) -> CommandFailed:
    """The error of an answer: Muster's own problem, or a Status of the API server."""
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    document = document if isinstance(document, dict) else {}
    if "error" in document:
        expected = f" Expected {document['expected']}." if document.get("expected") else ""
        hint = (document.get("hint") or "") + expected
        asked_wrongly = status < 500  # then the address that was tried does not matter
        return Unanswered(
            status=status,
            tried="" if asked_wrongly else tried,
            found=str(document["error"]),
            hint=hint.strip(),
        )
    found = str(document.get("message") or f"HTTP status {status}")
    name = f"service {SERVICE} in namespace {route.muster_namespace}"
    hints = {
        401: "Your credentials are not known to the API server; log in again.",
        403: "You need the right to get services/proxy there; "
        f"an administrator can bind the Role muster-reader in namespace {route.muster_namespace} to you.",
        404: f"There is no {name}. Is Muster installed there? "
        "Name another with --muster-namespace, or ask a replica directly with --server URL.",
        502: "A replica of Muster broke off; ask again.",
        503: f"No replica of Muster is ready behind {name}. "
        f"`kubectl -n {route.muster_namespace} get pods` shows why; or ask one directly with --server URL.",
    }
    return Unanswered(status=status, tried=tried, found=found, hint=hints.get(status, ""))
