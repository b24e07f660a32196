"""The requests that the API server answers, one method each: every request of Muster passes here.

The session decides how requests are sent and which are tried again. Errors are defined in queues.errors.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

from admission.api_connection import Access
from admission.kube.client.credentials import Credentials
from admission.kube.client.session import Query, Request, Session

PatchKind = Literal["merge", "json", "apply", "strategic"]

_JSON: Final = "application/json"
_PATCH_TYPES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}
#: The answer to a write that has only the metadata of the object.
_BRIEF: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#: The same of a list.
_BRIEF_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
#: The warnings of a write are read nowhere, and looking for fields that the kind does not have takes time.
_UNWARNED: Final[Query] = {"fieldValidation": "Ignore"}


class Client:
    """A session with one API server."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: See ``Session``.
        self.counts = session.counts
        self.retries = session.retries
        self.seconds = session.seconds

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        read: Callable[[], Access] | None = None,
        concurrency: int = 64,
        request_timeout: float = 30.0,
    ) -> Self:
        """A client for the cluster that the kubeconfig or the pod's service account names. Sends nothing yet.

        ``read``: reads the access in place of Muster's own reader. ``concurrency`` bounds requests in flight, watches
        not counted; ``request_timeout`` is seconds per attempt. Raises ApiUnavailable.
        """
        if read is not None:
            credentials = await Credentials.by(read)
        else:
            credentials = await Credentials.load(kubeconfig, context)
        return cls(Session(credentials, concurrency=concurrency, request_timeout=request_timeout))

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._session.server

    async def authorization(self) -> str | None:
        """Its own Authorization header. None if it has a certificate."""
        return await self._session.authorization()

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, path: str, **query: str | int | bool | None) -> bytes:
        """One object or list, as JSON. Raises ApiError."""
        return await self._session.answer(Request("GET", path, query))

    async def list_metadata(self, path: str, **query: str | int | bool | None) -> bytes:
        """A list, with the metadata of its objects only, as JSON. Raises ApiError."""
        headers = {"Accept": f"{_BRIEF_LIST},{_JSON}"}
        return await self._session.answer(Request("GET", path, query, headers=headers))

    async def create(
        self,
        path: str,
        body: bytes | Mapping[str, Any],
        *,
        field_manager: str | None = None,
        dry_run: bool = False,
        brief: bool = False,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        """POST to a collection or a subresource. ``check_lease`` is called right before sending and may raise.

        ``brief``: the answer has the object's metadata only, which is cheaper for both ends.
        """
        query = {**_UNWARNED, "fieldManager": field_manager, "dryRun": "All" if dry_run else None}
        headers = {"Content-Type": _JSON, **_accepting(brief)}
        return await self._write("POST", path, query, body, headers, check_lease)

    async def replace(
        self, path: str, body: bytes | Mapping[str, Any], *, check_lease: Callable[[], None] | None = None
    ) -> bytes:
        """PUT the whole object; its resourceVersion is the precondition."""
        return await self._write("PUT", path, _UNWARNED, body, {"Content-Type": _JSON}, check_lease)

    async def patch(
        self,
        path: str,
        body: bytes | Mapping[str, Any] | list[Any],
        *,
        kind: PatchKind = "merge",
        field_manager: str | None = None,
        force: bool | None = None,
        brief: bool = False,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        """PATCH an object or subresource. A failed ``test`` of a JSON patch raises Refused (422)."""
        query: Query = {**_UNWARNED, "fieldManager": field_manager, "force": force}
        headers = {"Content-Type": _PATCH_TYPES[kind], **_accepting(brief)}
        return await self._write("PATCH", path, query, body, headers, check_lease)

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
        check_lease: Callable[[], None] | None = None,
    ) -> bytes:
        """DELETE an object; with ``uid`` only while it is that one, else Conflict. ``grace`` in seconds."""
        options = _given(
            apiVersion="v1",
            kind="DeleteOptions",
            preconditions=_given(uid=uid, resourceVersion=resource_version) or None,
            gracePeriodSeconds=grace,
            propagationPolicy=propagation,
        )
        return await self._write("DELETE", path, {}, options, {"Content-Type": _JSON}, check_lease)

    def watch(
        self, path: str, *, silence: float, **query: str | int | bool | None
    ) -> AsyncIterator[list[bytes]]:
        """Whole lines of a watch, as many as arrived together; see ``Session.lines``."""
        request = Request("GET", path, {**query, "watch": True})
        return self._session.lines(request, silence=silence)

    async def _write(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | Mapping[str, Any] | list[Any],
        headers: Mapping[str, str],
        check_lease: Callable[[], None] | None,
    ) -> bytes:
        payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._session.answer(Request(method, path, query, payload, headers, check_lease))


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _accepting(brief: bool) -> dict[str, str]:
    return {"Accept": f"{_BRIEF},{_JSON}"} if brief else {}
