"""Keeps what is known of one kind of object current: LIST in pages, then WATCH with bookmarks, for ever.

After a 410 comes a new LIST, never the same resource version again; after anything else the watch goes on
where it was. Only the value that ``translate`` makes of an object is kept, not the object. One object that
cannot be read costs that object, not the stream.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

import msgspec

from admission.kube.client import Client
from admission.kube.objects import Bare, Metadata, Page, Resource, WatchEvent
from queues.errors import ApiError, ApiUnavailable, Gone

_log = logging.getLogger(__name__)

Place = tuple[str, str]


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Metadata: ...


S = TypeVar("S", bound=_HasMetadata)
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S, V]):
    """What to watch and what to make of it."""

    name: str
    resource: Resource
    struct: type[S]
    #: From the decoded object and its bytes (valid only during the call); None: of no interest.
    translate: Callable[[S, msgspec.Raw], V | None]
    #: What is left of an object without the form of its kind; None: what was known before stays.
    unreadable: Callable[[Bare, msgspec.DecodeError], V | None] = lambda bare, error: None
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None


@dataclass(slots=True)
class Kept(Generic[V]):
    """What is known of one object."""

    uid: str
    resource_version: str
    value: V


@dataclass(frozen=True, slots=True)
class Shift(Generic[V]):
    """One object appeared (``before`` is None), changed, or vanished (``after`` is None)."""

    namespace: str
    name: str
    uid: str
    before: V | None
    after: V | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How an informer waits. Seconds, but for ``page``."""

    #: Objects per page of a LIST.
    page: int = 500
    #: Without a byte for so long the connection counts as dead; bookmarks come about every minute.
    silence: float = 90.0
    #: The server is asked to end a watch after between once and twice this.
    watch: float = 300.0
    first_pause: float = 0.2
    longest_pause: float = 15.0


#: Failures in a row after which resuming the watch is given up and everything is listed anew.
_FAILURES_BEFORE_LIST: Final = 4
#: Seconds; a watch that ends sooner without news counts as a failure.
_SHORT: Final = 1.0
_EVENT: Final = msgspec.json.Decoder(WatchEvent)
_PAGE: Final = msgspec.json.Decoder(Page)
_BARE: Final = msgspec.json.Decoder(Bare)


class _ErrorStatus(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""
    reason: str = ""


class Informer(Generic[S, V]):
    """One kind of object. ``deliver`` gets every change, in order, as many at a time as came together."""

    def __init__(
        self,
        client: Client,
        kind: Kind[S, V],
        deliver: Callable[[list[Shift[V]]], None],
        timing: Timing = Timing(),
    ) -> None:
        self.kind = kind
        #: By (namespace, name).
        self.kept: dict[Place, Kept[V]] = {}
        #: The first LIST is reconciled.
        self.synced = asyncio.Event()
        #: Where the watch goes on; "" asks for a LIST.
        self.resource_version = ""
        #: Why nothing is heard now; None: all is well.
        self.problem: str | None = None
        self.lists = 0
        #: Objects that could not be read.
        self.unreadable = 0
        #: When the API server was last heard, on the loop's clock.
        self.heard = 0.0
        self._client = client
        self._deliver = deliver
        self._timing = timing
        self._decoder = msgspec.json.Decoder(kind.struct)
        self._path = kind.resource.path(kind.namespace)
        self._selectors = {"labelSelector": kind.label_selector, "fieldSelector": kind.field_selector}

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            before, started = self.resource_version, loop.time()
            try:
                if not self.resource_version:
                    await self._list()
                await self._watch()
                # A server that ends each watch at once must not be asked in a tight loop.
                failed = self.resource_version == before and loop.time() - started < _SHORT
            except Gone as error:
                _log.info("listing anew", extra={"kind": self.kind.name, "why": str(error)})
                self.resource_version = ""
                failed = True
            except ApiError as error:
                self.problem = str(error)
                _log.warning("informer interrupted", extra={"kind": self.kind.name, "why": self.problem})
                failed = True
            if not failed or (self.resource_version and self.resource_version != before):
                failures = 0
            if not failed:
                continue
            failures += 1
            if failures % _FAILURES_BEFORE_LIST == 0:
                self.resource_version = ""
            bound = min(self._timing.first_pause * 2 ** min(failures - 1, 10), self._timing.longest_pause)
            await asyncio.sleep(random.uniform(bound / 2, bound))

    async def _list(self) -> None:
        """Bring everything up to date, deletions included. Raises ApiError."""
        self.lists += 1
        seen: set[Place] = set()
        limit: int | None = self._timing.page
        token: str | None = None
        while True:
            try:
                page = await self._page(limit, token)
            except Gone:
                if token is None:
                    raise
                # The list grew too old between two pages: once more from the start, in one piece.
                limit, token = None, None
                seen.clear()
                continue
            shifts: list[Shift[V]] = []
            for raw in page.items or ():
                place = self._put(raw, shifts)
                if place is not None:
                    seen.add(place)
            self._hand_over(shifts)
            token = page.metadata.continue_
            if not token:
                break
            await asyncio.sleep(0)
        shifts = []
        for place in [place for place in self.kept if place not in seen]:
            self._drop(place, shifts)
        self._hand_over(shifts)
        self.resource_version = page.metadata.resource_version
        self.problem = None
        self.synced.set()

    async def _page(self, limit: int | None, token: str | None) -> Page:
        query: dict[str, Any] = {"limit": limit, "continue": token, **self._selectors}
        content = await self._client.get(self._path, **query)
        self.heard = asyncio.get_running_loop().time()
        try:
            return _PAGE.decode(content)
        except msgspec.DecodeError as error:
            raise ApiUnavailable(
                method="LIST", path=self._path, status=200, reason=f"an unreadable list: {error}"
            ) from error

    async def _watch(self) -> None:
        """Follow changes until the server ends the stream. Raises ApiError."""
        loop = asyncio.get_running_loop()
        query: dict[str, Any] = {
            "resourceVersion": self.resource_version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": int(random.uniform(self._timing.watch, 2 * self._timing.watch)) or 1,
            **self._selectors,
        }
        async for lines in self._client.watch(self._path, silence=self._timing.silence, **query):
            self.heard = loop.time()
            self.problem = None
            shifts: list[Shift[V]] = []
            try:
                for line in lines:
                    self._follow(line, shifts)
            finally:
                self._hand_over(shifts)

    def _follow(self, line: bytes, shifts: list[Shift[V]]) -> None:
        try:
            event = _EVENT.decode(line)
        except msgspec.DecodeError as error:
            raise self._broken(f"an unreadable watch event: {error}") from error
        match event.type:
            case "ADDED" | "MODIFIED":
                self._put(event.object, shifts, advance=True)
            case "DELETED":
                meta = self._identity(event.object)
                self._drop((meta.namespace, meta.name), shifts, uid=meta.uid)
                self.resource_version = meta.resource_version
            case "BOOKMARK":
                self.resource_version = self._identity(event.object).resource_version
            case "ERROR":
                self._error(event.object)
            case _:
                raise self._broken(f"a watch event of type {event.type!r}")

    def _error(self, raw: msgspec.Raw) -> NoReturn:
        try:
            status = msgspec.json.decode(raw, type=_ErrorStatus)
        except msgspec.DecodeError:
            status = _ErrorStatus(message=bytes(raw[:200]).decode(errors="replace"))
        if status.code == 410 or status.reason in ("Expired", "Gone"):
            raise Gone(method="WATCH", path=self._path, status=410, reason=status.message)
        raise ApiUnavailable(
            method="WATCH", path=self._path, status=status.code, reason=status.message or status.reason
        )

    def _put(self, raw: msgspec.Raw, shifts: list[Shift[V]], *, advance: bool = False) -> Place | None:
        """Take in one object. Returns its place, None if not even that can be read."""
        value: V | None
        try:
            thing = self._decoder.decode(raw)
            meta = thing.metadata
        except msgspec.DecodeError as error:
            try:
                bare = _BARE.decode(raw)
            except msgspec.DecodeError:
                self._cannot_read("?", "?", error)
                return None
            meta = bare.metadata
            self._cannot_read(meta.namespace, meta.name, error)
            value = self.kind.unreadable(bare, error)
            understood = value is not None
        else:
            try:
                value = self.kind.translate(thing, raw)
                understood = True
            except Exception as error:  # whatever it is, the other objects go on
                self._cannot_read(meta.namespace, meta.name, error)
                value, understood = None, False
        if advance:
            self.resource_version = meta.resource_version
        place = (meta.namespace, meta.name)
        if understood:
            self._keep(place, meta, value, shifts)
        return place

    def _keep(self, place: Place, meta: Metadata, value: V | None, shifts: list[Shift[V]]) -> None:
        known = self.kept.get(place)
        if known is not None and known.uid != meta.uid:
            # Deleted and made again under the same name, and we saw only the second half.
            self._drop(place, shifts)
            known = None
        if value is None:
            self._drop(place, shifts)
        elif known is None:
            self.kept[place] = Kept(meta.uid, meta.resource_version, value)
            shifts.append(Shift(*place, meta.uid, None, value))
        else:
            before = known.value
            known.resource_version = meta.resource_version
            # An equal value is no news, and the old one stays: others hold it already.
            if before != value:
                known.value = value
                shifts.append(Shift(*place, meta.uid, before, value))

    def _drop(self, place: Place, shifts: list[Shift[V]], uid: str | None = None) -> None:
        known = self.kept.get(place)
        if known is not None and (uid is None or uid == known.uid):
            del self.kept[place]
            shifts.append(Shift(*place, known.uid, known.value, None))

    def _identity(self, raw: msgspec.Raw) -> Metadata:
        try:
            return _BARE.decode(raw).metadata
        except msgspec.DecodeError as error:
            raise self._broken(f"an object without readable metadata: {error}") from error

    def _hand_over(self, shifts: list[Shift[V]]) -> None:
        if shifts:
            self._deliver(shifts)

    def _cannot_read(self, namespace: str, name: str, error: Exception) -> None:
        self.unreadable += 1
        told = {"kind": self.kind.name, "object": f"{namespace}/{name}", "why": str(error)}
        if isinstance(error, msgspec.DecodeError):
            _log.warning("cannot read an object", extra=told)
        else:
            _log.error("cannot translate an object", extra=told, exc_info=error)

    def _broken(self, reason: str) -> ApiUnavailable:
        return ApiUnavailable(method="WATCH", path=self._path, status=200, reason=reason)
