"""Requests to the API server by the standard library: one connection that is kept, and one for each watch.

Of its Node the agent reads only metadata: the API server cuts the rest off before it sends anything. Of pods it reads
all, since resource claims are in their specs.
"""

import http.client
import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlencode, urlsplit

from queues.api.api_resources import Document
from queues.errors import (
    ApiError,
    ApiRefused,
    ApiUnavailable,
    Conflict,
    Gone,
    InvalidSettings,
    NotFound,
    TooManyRequests,
    WatchSilent,
)

#: Where Kubernetes mounts the token and the authority of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Seconds for connecting, and for each part of an answer.
_TIMEOUT: Final = 10.0
#: Seconds after which a watch that says nothing counts as broken; bookmarks come each minute.
_SILENCE: Final = 150.0
#: An idle connection is probed after so many seconds, then so often, and is lost after so many probes.
_KEEP_ALIVE: Final = (30, 10, 3)
#: Bytes of an answer that is not one: the beginning is shown.
_SHOWN: Final = 200

_MEANINGS: Final[Mapping[int, type[ApiError]]] = {
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


class Form(StrEnum):
    """How the API server is to write objects."""

    WHOLE = "application/json"
    METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the API server is, why it is believed, and who asks."""

    #: https://host:port, perhaps with a path.
    server: str
    #: PEM texts. None for the system's authorities, or for no certificate.
    authority: str | None = None
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    #: File of a bearer token, read again whenever it changes. None for no token, or one among the headers.
    token_file: Path | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def in_pod(cls, environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> "Endpoint":
        """The access of a container, by the service account of its pod. Raises InvalidSettings outside of one."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        token_file = account / "token"
        if not host or not token_file.is_file():
            raise InvalidSettings(
                problems="found no service account of a pod; expected KUBERNETES_SERVICE_HOST and "
                f"{token_file}. Outside of a cluster name a kubeconfig by --kubeconfig."
            )
        host = f"[{host}]" if ":" in host else host
        authority = (account / "ca.crt").read_text(encoding="ascii")
        return cls(server=f"https://{host}:{port or 443}", authority=authority, token_file=token_file)


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One event of a watch: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object."""

    type: str
    object: Document


class ApiClient:
    """Requests of one agent. Methods may be called by several threads; they take turns on one connection."""

    def __init__(self, endpoint: Endpoint, *, timeout: float = _TIMEOUT) -> None:
        self._url = urlsplit(endpoint.server)
        self._prefix = self._url.path.rstrip("/")
        self._tls = _tls(endpoint)
        self._headers = endpoint.headers
        self._token = None if endpoint.token_file is None else _Token(endpoint.token_file)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._counting = threading.Lock()
        self._requests: dict[tuple[str, int], int] = {}

    @property
    def requests(self) -> Mapping[tuple[str, int], int]:
        """Requests that were answered, by verb and status, the watches included."""
        with self._counting:
            return dict(self._requests)

    def get(self, path: str, *, form: Form = Form.WHOLE, **query: str) -> Document:
        """The object or list at a path. Raises ApiError."""
        return self._request("GET", _with(path, query), form=form)

    def create(self, path: str, document: Document) -> Document:
        """POST an object to its collection. Raises ApiError; Conflict: there is one of this name."""
        return self._request("POST", path, document)

    def replace(self, path: str, document: Document) -> Document:
        """PUT an object. Raises ApiError; Conflict: its resourceVersion is not the newest."""
        return self._request("PUT", path, document)

    def merge(self, path: str, patch: Document, *, form: Form = Form.METADATA) -> Document:
        """Merge-patch an object; of the answer only the metadata, unless said otherwise. Raises ApiError."""
        return self._request("PATCH", path, patch, form=form, content="application/merge-patch+json")

    def watch(
        self, path: str, *, version: str, seconds: int, form: Form = Form.METADATA, **query: str
    ) -> Iterator[ObjectEvent]:
        """The events of a watch since a resource version, until the API server ends it after ``seconds``.

        A connection of its own. Raises ApiError; Gone: the version is no longer kept, list again.
        """
        asked = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        target = _with(path, {**query, **asked})
        connection = self._open(self._timeout)
        try:
            answer = self._answer(connection, "GET", target, None, {"Accept": form})
            self._count("WATCH", answer.status)
            if answer.status >= 400:
                _refuse("WATCH", path, answer.status, answer.read())
            if connection.sock is not None:  # None if the server ends the connection with this answer
                connection.sock.settimeout(_SILENCE)
            for line in answer:
                yield _event(path, line)
        except TimeoutError as error:
            reason = f"nothing for {_SILENCE:.0f} s"
            raise WatchSilent(method="WATCH", path=path, status="no answer", reason=reason) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unavailable("WATCH", path, error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        with self._lock:
            self._drop()

    def _request(
        self,
        method: str,
        target: str,
        document: Document | None = None,
        *,
        form: Form = Form.WHOLE,
        content: str = "application/json",
    ) -> Document:
        body = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        headers = {"Accept": str(form), **({} if body is None else {"Content-Type": content})}
        with self._lock:
            try:
                status, answer = self._exchange(method, target, body, headers)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                raise _unavailable(method, target, error) from error
        self._count(method, status)
        if status >= 400:
            _refuse(method, target, status, answer)
        try:
            parsed: Document = json.loads(answer)
        except ValueError as error:
            raise _unavailable(method, target, error) from error
        return parsed

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Send on the connection that is open; once more on a new one if the server has closed it meanwhile.

        What is sent twice does no harm: an update names the version that it is of, a merge patch and a read say the
        same again, and what is created has a name that can be taken only once.
        """
        if self._connection is not None:
            try:
                answer = self._answer(self._connection, method, target, body, headers)
                return answer.status, answer.read()
            except (ssl.SSLEOFError, http.client.RemoteDisconnected, ConnectionError):
                self._drop()
        self._connection = self._open(self._timeout)
        answer = self._answer(self._connection, method, target, body, headers)
        return answer.status, answer.read()

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        said = {**headers, "User-Agent": "muster-agent", **dict(self._headers)}
        if self._token is not None:
            said["Authorization"] = f"Bearer {self._token.text()}"
        connection.request(method, self._prefix + target, body, said)
        return connection.getresponse()

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        # Without a port http.client looks for one in an IPv6 address.
        host, port = self._url.hostname or "", self._url.port or (80 if self._tls is None else 443)
        if self._tls is None:
            return _Plain(host, port, timeout=timeout)
        return _Https(host, port, timeout=timeout, context=self._tls)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _count(self, verb: str, status: int) -> None:
        with self._counting:
            self._requests[verb, status] = self._requests.get((verb, status), 0) + 1


class _Token:
    """A token in a file that the kubelet replaces before the token expires."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, int], str] | None = None

    def text(self) -> str:
        """The token of now. Raises OSError."""
        found = self._path.stat()
        mark = (found.st_mtime_ns, found.st_ino)
        if self._known is None or self._known[0] != mark:
            self._known = mark, self._path.read_text(encoding="ascii").strip()
        return self._known[1]


class _Plain(http.client.HTTPConnection):
    """Notices after a minute that the other side is gone."""

    def connect(self) -> None:
        """Connect."""
        super().connect()
        _probe(self.sock)


class _Https(http.client.HTTPSConnection):
    """The same, with TLS."""

    def connect(self) -> None:
        """Connect."""
        super().connect()
        _probe(self.sock)


def _probe(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), _KEEP_ALIVE, strict=True):
        if hasattr(socket, option):  # not on every system where people try things
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _tls(endpoint: Endpoint) -> ssl.SSLContext | None:
    """The settings of TLS. None for plain HTTP, as tests speak it."""
    if urlsplit(endpoint.server).scheme == "http":
        return None
    tls = ssl.create_default_context(cadata=endpoint.authority)
    if endpoint.certificate:
        # OpenSSL reads certificates from files only; the file exists only during the call and only for this user.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(endpoint.certificate + os.linesep + (endpoint.key or ""))
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _event(path: str, line: bytes) -> ObjectEvent:
    """Raises ValueError: no event; ApiError: the API server sends an error in place of one."""
    read = json.loads(line)
    if read["type"] == "ERROR":
        _refuse("WATCH", path, int(read["object"].get("code") or 500), json.dumps(read["object"]).encode())
    return ObjectEvent(read["type"], read["object"])


def _refuse(method: str, path: str, status: int, answer: bytes) -> NoReturn:
    """Raise what an answer ≥ 400 means; ``retry_after`` among its facts: seconds that the API server asks to wait."""
    try:
        told = json.loads(answer)
        reason, after = told.get("message"), (told.get("details") or {}).get("retryAfterSeconds")
    except (ValueError, AttributeError):
        reason, after = answer[:_SHOWN].decode(errors="replace").strip(), None
    meaning = _MEANINGS.get(status) or (ApiUnavailable if status >= 500 else ApiRefused)
    raise meaning(
        method=method,
        path=path,
        status=status,
        reason=reason or "no reason given",
        retry_after=float(after or 0),
    )


def _unavailable(method: str, path: str, error: BaseException) -> ApiUnavailable:
    reason = str(error) or type(error).__name__
    return ApiUnavailable(method=method, path=path, status="no answer", reason=reason)
