"""Requests of commands: where they ask (a replica of Muster, or the API server as the user of the kubeconfig), one
request there, and questions to the read API with their pages and errors.

Standard library and msgspec only, and what opens connections is imported when one is opened: a call of the plugin
should take no longer than the answer.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from admission.cli.access.missing_rights import missing_right
from admission.cli.command_line import UNREACHABLE, WRONGLY_CALLED, CommandFailed

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from admission.api_connection import Access
    from queues.read_api.bodies import PendingList, UserList, WorkloadList
    from queues.read_api.nodes import NodeList
    from queues.read_api.usage import UsageList

#: A warning of an API server in the header of that name.
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_AGENT: Final = {"User-Agent": "kubectl-muster"}


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
    access: "Access | None" = None

    def namespace(self, given: str | None) -> str:
        """The namespace that a command is about."""
        if given:
            return given
        from admission.kube.client.kubeconfig import current_namespace

        return current_namespace(self.kubeconfig, self.context)

    def within(self, seconds: float) -> "Route":
        """The same with at most so much patience."""
        return replace(self, timeout=min(self.timeout, seconds))

    def to_cluster(self) -> "Access":
        """How the API server is reached. Raises UnusableAccess: the kubeconfig cannot be used."""
        if self.access is not None:
            return self.access
        from admission.kube.client.kubeconfig import load

        return load(self.kubeconfig, self.context)

    def to_muster(self) -> "Access":
        """How the read API is reached. Raises CommandFailed: what the route names cannot be read."""
        return self.to_cluster() if self.server is None else _replica(self, self.server)


def _replica(route: Route, server: str) -> "Access":
    """A replica, asked with a bearer token: it does not see the certificate of a kubeconfig."""
    from admission.api_connection import Access

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


class ServerAnswer(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    #: Of the API server.
    warnings: tuple[str, ...] = ()


def request(
    access: "Access",
    target: str,
    *,
    timeout: float,
    tried: str,
    unreachable: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] = {},
) -> ServerAnswer:
    """The answer. ``timeout`` in seconds, for connecting and for each read; ``body``: JSON.
    ``headers``: in place of the usual ones, or in addition to them.

    Raises CommandFailed saying what was ``tried``; ``unreachable`` is the advice if no server answers. Raises
    UnusableAccess.
    """
    import http.client
    import ssl

    from admission.api_connection import Connection

    connection = Connection(access, timeout=timeout)
    usual = {
        "Accept": "application/json",
        **_AGENT,
        **({} if body is None else {"Content-Type": "application/json"}),
    }
    try:
        answer = connection.send_request(method, target, headers={**usual, **headers}, body=body)
        warnings = _WARNING.findall(", ".join(answer.headers.get_all("Warning", ())))
        return ServerAnswer(
            answer.status, answer.read(), tuple(re.sub(r"\\(.)", r"\1", text) for text in warnings)
        )
    except ssl.SSLCertVerificationError as error:
        hint = "Check certificate-authority(-data) of the cluster in the kubeconfig."
        raise CommandFailed(tried=tried, found=error.verify_message, hint=hint) from error
    except TimeoutError as error:
        found = f"no answer within {timeout:g} seconds"
        raise CommandFailed(tried=tried, found=found, hint="Wait longer with --timeout SECONDS.") from error
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(tried=tried, found=_sentence_of(error), hint=unreachable) from error
    finally:
        connection.close()


@contextmanager
def stream(access: "Access", target: str, *, timeout: float) -> "Iterator[HTTPResponse]":
    """An answer that is read while it comes. ``timeout`` in seconds, for each read. Raises OSError, HTTPException and
    UnusableAccess."""
    from admission.api_connection import Connection

    connection = Connection(access, timeout=timeout)
    try:
        yield connection.send_request("GET", target, headers={"Accept": "text/event-stream", **_AGENT})
    finally:
        connection.close()


def _sentence_of(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__} {error}".strip()


# -- the read API ----------------------------------------------------------------------------------------------

#: Where the API server passes requests on to Muster.
PREFIX: Final = "/apis/read.muster.dev/v1/"
#: Lines of one answer, where a list may have more.
LARGEST_PAGE: Final = 1000
T = TypeVar("T")
P = TypeVar("P", "PendingList", "WorkloadList", "UserList", "NodeList", "UsageList")
_ANNOUNCED: Final = "apiservice v1.read.muster.dev"


class Unanswered(CommandFailed):
    """The read API answered with an error."""

    def __init__(
        self, *, status: int, found: str, hint: str, tried: str = "", by_muster: bool = False
    ) -> None:
        """``by_muster``: Muster said so, and not the API server before it."""
        super().__init__(tried=tried, found=found, hint=hint)
        self.status = status
        self.by_muster = by_muster


def ask(
    route: Route,
    path: str,
    form: type[T],
    query: Mapping[str, str | None] | None = None,
    *,
    content: bytes | None = None,
) -> T:
    """The answer, in its form. ``content``: the body of a question that has one. Raises CommandFailed (not reachable,
    or not such an answer) or Unanswered (an error as the answer)."""
    return decoded(fetch(route, path, query, content=content), form, f"Asking Muster for {path}")


def decoded(body: bytes, form: type[T], tried: str, before: str = "") -> T:
    """An answer in its form. ``before``: what stands before what was found instead. Raises CommandFailed."""
    import msgspec

    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        hint = "`kubectl muster version` shows whether the plugin and Muster are of one version."
        raise CommandFailed(tried=tried, found=f"an answer of another form: {error}", hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = f"{before}no JSON but {body[:80].decode(errors='replace')!r}"
        raise CommandFailed(
            tried=tried, found=found, hint="Something else listens at that address."
        ) from error


def pages(
    route: Route,
    path: str,
    form: type[P],
    query: Mapping[str, str | None],
    *,
    limit: int | None = None,
    largest: int = 0,
) -> P:
    """A list of the read API with at most ``limit`` lines (None for all), fetched page by page. ``largest``: lines of
    one answer, 0 for the usual number."""
    items: list[Any] = []
    page: str | None = None
    while True:
        size = largest or LARGEST_PAGE
        size = size if limit is None else min(limit - len(items), size)
        body = ask(route, path, form, {**query, "limit": str(size), "continue": page})
        items += body.items
        page = body.continue_
        if not page or (limit is not None and len(items) >= limit):
            from msgspec import structs

            return structs.replace(body, items=tuple(items))


def fetch(
    route: Route, path: str, query: Mapping[str, str | None] | None = None, *, content: bytes | None = None
) -> bytes:
    """The answer as bytes. Raises as ``ask``."""
    given = {name: text for name, text in (query or {}).items() if text is not None}
    target = PREFIX + path + (f"?{urlencode(given)}" if given else "")
    access = route.to_muster()
    advice = (
        UNREACHABLE if route.server is None else "Is that the address of `muster run` (setting readListen)?"
    )

    tried = f"Asking Muster at {access.server}"
    status, body, _ = request(
        access,
        target,
        timeout=route.timeout,
        tried=tried,
        unreachable=advice,
        method="GET" if content is None else "POST",
        body=content,
    )
    if status == 200:
        return body
    raise _complaint(status, body, tried)


def _complaint(status: int, body: bytes, tried: str) -> CommandFailed:
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
        answer = Unanswered(
            status=status,
            tried="" if asked_wrongly else tried,
            found=str(document["error"]),
            hint=hint.strip(),
            by_muster=True,
        )
        if status == HTTPStatus.BAD_REQUEST and document.get("expected"):
            answer.exit_code = WRONGLY_CALLED
        if document.get("asOf"):
            from admission.cli.output import age_of
            from queues.read_api.bodies import AgedBody

            # What is asked for may be there by now: no answer to rely on.
            aged = AgedBody(now=str(document.get("now")), as_of=str(document["asOf"]))
            answer.exit_code = age_of(aged)[1] or answer.exit_code
        return answer
    found = str(
        document.get("message") or body[:200].decode(errors="replace").strip() or f"HTTP status {status}"
    )
    if status == 403 and (lacks := missing_right(found)) is not None:
        return Unanswered(status=status, tried=tried, found=lacks.sentence, hint="")
    hints = {
        401: "Your credentials are not known to the API server; log in again.",
        403: "You need the right to get and list in the API group read.muster.dev, and to create trials there; "
        "an administrator can bind the ClusterRole muster-reader to you.",
        404: f"There is no {_ANNOUNCED}. Is Muster installed in this cluster, with a read API? "
        "Ask a replica directly with --server URL.",
        502: "A replica of Muster broke off; ask again.",
        503: f"No replica of Muster answers. `kubectl get {_ANNOUNCED}` and the pods of Muster show why; "
        "or ask one directly with --server URL.",
    }
    return Unanswered(status=status, tried=tried, found=found, hint=hints.get(status, ""))
