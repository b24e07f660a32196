"""One question to the read API: through the API server's service proxy, or straight to a replica.

Standard library only: a plugin call should take no longer than the answer.
"""

import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from admission.cli.failures import CommandFailed
from admission.cli.kubeconfig import Access, load

SERVICE: Final = "muster"
PORT: Final = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How the read API is found."""

    #: URL of a replica; None: through the API server.
    server: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    #: Where Muster's Service is.
    muster_namespace: str = "muster-system"
    #: Patience in seconds, for connecting and for each read.
    timeout: float = 15.0


class Unanswered(CommandFailed):
    """The read API was reached and said no."""

    def __init__(self, *, status: int, tried: str, found: str, hint: str) -> None:
        super().__init__(tried=tried, found=found, hint=hint)
        self.status = status


def ask(route: Route, path: str, query: Mapping[str, str | None] | None = None) -> Any:
    """The JSON answer. Raises CommandFailed (no way there) or Unanswered (it said no)."""
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
    """The same, as it came over the wire."""
    given = {name: text for name, text in (query or {}).items() if text is not None}
    target = path + (f"?{urlencode(given)}" if given else "")
    if route.server is not None:
        access = Access(
            server=route.server.rstrip("/") if "://" in route.server else f"http://{route.server}"
        )
        where = access.server
    else:
        access = load(route.kubeconfig, route.context)
        service = f"http:{SERVICE}:{PORT}"
        target = f"/api/v1/namespaces/{quote(route.muster_namespace)}/services/{service}/proxy{target}"
        where = f"{access.server}, service {route.muster_namespace}/{SERVICE}"
    tried = f"Asking Muster at {where}"
    status, body = _get(access, target, tried, route)
    if status == 200:
        return body
    raise _complaint(status, body, tried, route)


def _get(access: Access, target: str, tried: str, route: Route) -> tuple[int, bytes]:
    connection = _connection(access, route.timeout)
    prefix = urlsplit(access.server).path.rstrip("/")
    try:
        connection.putrequest("GET", prefix + target)
        for name, text in (("Accept", "application/json"), ("User-Agent", "kubectl-muster"), *access.headers):
            connection.putheader(name, text)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ssl.SSLCertVerificationError as error:
        hint = "Check certificate-authority(-data) of the cluster in the kubeconfig."
        raise CommandFailed(tried=tried, found=error.verify_message, hint=hint) from error
    except TimeoutError as error:
        found = f"no answer within {route.timeout:g} seconds"
        raise CommandFailed(tried=tried, found=found, hint="Wait longer with --timeout SECONDS.") from error
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(tried=tried, found=_told(error), hint=_unreachable(route)) from error
    finally:
        connection.close()


def _connection(access: Access, timeout: float) -> http.client.HTTPConnection:
    url = urlsplit(access.server)
    host, port = url.hostname or "", url.port
    if url.scheme not in ("http", "https") or not host:
        raise CommandFailed(
            tried=f"Reading the server's address {access.server!r}", found="expected http(s)://host:port"
        )
    first, first_port = host, port
    if access.proxy:
        proxy = urlsplit(access.proxy)
        first, first_port = proxy.hostname or "", proxy.port
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        connection = _Https(first, first_port, timeout, access)
    else:
        connection = http.client.HTTPConnection(first, first_port, timeout=timeout)
    if access.proxy:
        connection.set_tunnel(host, port or (443 if url.scheme == "https" else 80))
    return connection


class _Https(http.client.HTTPSConnection):
    """TLS with the kubeconfig's certificates, and its tls-server-name when it differs from the host."""

    def __init__(self, host: str, port: int | None, timeout: float, access: Access) -> None:
        self._tls = _tls(access)
        self._name = access.server_name
        super().__init__(host, port, timeout=timeout, context=self._tls)

    def connect(self) -> None:
        if self._name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _tls(access: Access) -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=access.authority)
    if access.insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if access.certificate:
        # OpenSSL reads certificates from files only; the file exists for this moment and for this user.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(access.certificate + "\n" + (access.key or ""))
            file.flush()
            try:
                tls.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise CommandFailed(
                    tried="Reading the user's certificate and key of the kubeconfig",
                    found=f"they cannot be used together ({error.reason})",
                ) from error
    return tls


def _told(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__} {error}".strip()


def _unreachable(route: Route) -> str:
    if route.server is not None:
        return "Is that the address of `muster run` (setting httpListen)?"
    return "Is the cluster up, and is this the right context? `kubectl cluster-info` asks the same server."


def _complaint(status: int, body: bytes, tried: str, route: Route) -> CommandFailed:
    """What a refusal means: Muster's own problem, or the API server's Status on the way there."""
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    if "error" in document:
        expected = f" Expected {document['expected']}." if document.get("expected") else ""
        hint = (document.get("hint") or "") + expected
        asked_wrongly = status < 500  # then it matters little whom one asked
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
        "an administrator can bind the ClusterRole muster-reader to you.",
        404: f"There is no {name}. Is Muster installed there? Name another with --muster-namespace.",
        502: "A replica of Muster broke off; ask again.",
        503: f"No replica of Muster is ready behind {name}. "
        f"`kubectl -n {route.muster_namespace} get pods` shows why; or ask one directly with --server URL.",
    }
    return Unanswered(status=status, tried=tried, found=found, hint=hints.get(status, ""))


def default_server() -> str | None:
    """The replica named in the environment."""
    return os.environ.get("MUSTER_SERVER") or None
