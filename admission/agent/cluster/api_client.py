"""Requests to the API server by the standard library: one connection that is kept, and one for each watch.

Of its Node and of pods the agent reads only metadata: the API server cuts the rest off before it sends anything.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn
from urllib.parse import urlencode

from admission.api_connection import Access, Connection, tls_context
from queues.api.api_resources import Document
from queues.errors import (
    ApiError,
    ApiRefused,
    ApiUnavailable,
    Conflict,
    Gone,
    NotFound,
    TooManyRequests,
    WatchSilent,
)

#: Seconds for connecting, and for each part of an answer.
_TIMEOUT: Final = 10.0
#: Seconds after which a watch that says nothing counts as broken; bookmarks come each minute.
_SILENCE: Final = 150.0
#: Bytes of an answer that is not one: the beginning is shown.
_SHOWN: Final = 200

#: How the API server is to write objects.
_WHOLE: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_MEANINGS: Final[Mapping[int, type[ApiError]]] = {
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One event of a watch: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object."""

    type: str
    object: Document


class ApiClient:
    """Requests of one agent. Methods may be called by several threads; they take turns on one connection."""

    def __init__(self, access: Access, *, timeout: float = _TIMEOUT) -> None:
        self._access = access
        self._tls = tls_context(access)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._counting = threading.Lock()
        self._requests: dict[tuple[str, int], int] = {}

    @property
    def requests(self) -> Mapping[tuple[str, int], int]:
        """Requests that were answered, by verb and status, the watches included."""
        with self._counting:
            return dict(self._requests)

    def get(self, path: str) -> Document:
        """The object at a path. Raises ApiError."""
        return self._request("GET", path)

    def list(self, path: str, **query: str) -> Document:
        """A list, of its objects only the metadata. Raises ApiError."""
        return self._request("GET", _with(path, query), form=_METADATA_LIST)

    def create(self, path: str, document: Document) -> Document:
        """POST an object to its collection. Raises ApiError; Conflict: there is one of this name."""
        return self._request("POST", path, document)

    def replace(self, path: str, document: Document) -> Document:
        """PUT an object. Raises ApiError; Conflict: its resourceVersion is not the newest."""
        return self._request("PUT", path, document)

    def merge(self, path: str, patch: Document) -> Document:
        """Merge-patch an object; of the answer only the metadata. Raises ApiError."""
        return self._request("PATCH", path, patch, form=_METADATA, content="application/merge-patch+json")

    def watch(self, path: str, *, version: str, seconds: int, **query: str) -> Iterator[ObjectEvent]:
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
        connection = self._open()
        try:
            answer = self._answer(connection, "GET", target, None, {"Accept": _METADATA})
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
        form: str = _WHOLE,
        content: str = "application/json",
    ) -> Document:
        body = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        headers = {"Accept": form, **({} if body is None else {"Content-Type": content})}
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
        self._connection = self._open()
        answer = self._answer(self._connection, method, target, body, headers)
        return answer.status, answer.read()

    def _answer(
        self, connection: Connection, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        headers = {**headers, "User-Agent": "muster-agent"}
        return connection.send_request(method, target, headers=headers, body=body)

    def _open(self) -> Connection:
        return Connection(self._access, timeout=self._timeout, tls=self._tls)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _count(self, verb: str, status: int) -> None:
        with self._counting:
            self._requests[verb, status] = self._requests.get((verb, status), 0) + 1


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
