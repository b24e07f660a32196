"""An informer keeps the store of one kind of object current: LIST in pages, then WATCH with bookmarks, for ever.

After a 410 it lists again, never from the same resource version; after any other failure the watch goes on where
it was.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from admission.kube.client.client import Client
from admission.kube.watch.store import (
    BARE,
    ObjectChange,
    ObjectStore,
    Place,
    S,
    V,
    WatchedKind,
    without_depths,
)
from admission.wire import Page, WatchEvent, WireMetadata
from queues.errors import ApiError, ApiUnavailable, Gone, NotFound, WatchSilent
from queues.slices import slices

_log = logging.getLogger(__name__)


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
    #: A kind that the cluster does not serve is asked for again after this.
    absent: float = 30.0


#: Failures in a row after which resuming the watch is given up and everything is listed anew.
_FAILURES_BEFORE_LIST: Final = 4
#: Seconds; a watch that ends sooner without news counts as a failure.
_SHORT: Final = 1.0
#: Seconds for a silent watch to be opened again; until then it counts as open.
_REOPENED: Final = 2.0
_EVENT: Final = msgspec.json.Decoder(WatchEvent)
_PAGE: Final = msgspec.json.Decoder(Page)


D = TypeVar("D")


class _ErrorStatus(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""
    reason: str = ""


class Informer(Generic[S, V]):
    """One kind of object. ``deliver`` gets every change, in order, as many at a time as came together."""

    def __init__(
        self,
        client: Client,
        kind: WatchedKind[S, V],
        deliver: Callable[[list[ObjectChange[V]]], None],
        timing: Timing = Timing(),
    ) -> None:
        self.kind = kind
        self.collection = ObjectStore(kind)
        #: The first LIST is reconciled.
        self.synced = asyncio.Event()
        #: Where the watch goes on; "" asks for a LIST.
        self.resource_version = ""
        #: False: the cluster does not serve the kind.
        self.is_served = True
        #: Why nothing is heard now. None if all is well.
        self.problem: str | None = None
        self.lists = 0
        #: When the API server was last heard, on the loop's clock.
        self.heard = 0.0
        #: When the store was last known to be current, on the loop's clock.
        self.current_at = 0.0
        #: When a silent watch was last given up, to be opened again at once.
        self._silent_at = -math.inf
        self._client = client
        self._deliver = deliver
        self._timing = timing
        self._path = kind.resource.path(kind.namespace)

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        loop = asyncio.get_running_loop()
        self.current_at = loop.time()
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
            except NotFound as error:
                if not self.kind.may_be_absent:
                    self._interrupted(error)
                else:
                    self._is_absent()
                    await asyncio.sleep(self._timing.absent)
                failed = not self.kind.may_be_absent
            except WatchSilent as error:
                # The API server sends no bookmarks for a kind without a change since it started: only the next attempt
                # shows whether this connection was dead.
                self.problem = str(error)
                self._silent_at = loop.time()
                _log.debug("watch opened again", extra={"kind": self.kind.name, "why": self.problem})
                failed = False
            except ApiError as error:
                self._interrupted(error)
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

    def _interrupted(self, error: ApiError) -> None:
        self.problem = str(error)
        _log.warning("informer interrupted", extra={"kind": self.kind.name, "why": self.problem})

    def _is_absent(self) -> None:
        """The cluster does not serve the kind, so that there are no objects of it."""
        if self.is_served:
            _log.info("the cluster does not serve a kind", extra={"kind": self.kind.name})
        # That there is no such kind is an answer: the software that it belongs to may have been removed for good.
        self.heard = asyncio.get_running_loop().time()
        self.is_served, self.problem, self.resource_version = False, None, ""
        shifts: list[ObjectChange[V]] = []
        for place in self.collection.others(frozenset()):
            self.collection.drop(place, shifts)
        self._hand_over(shifts)
        self.synced.set()

    def behind(self, now: float) -> float:
        """Seconds since the store was known to be current, at ``now`` on the loop's clock; 0: it is.

        The store is current while the watch is open, also without events. A connection that is dead without a sign
        counts as open until it has been silent for ``Timing.silence``.
        """
        is_open = self.problem is None or now - self._silent_at < _REOPENED
        return (
            0.0
            if is_open and (self.resource_version or not self.is_served)
            else max(0.0, now - self.current_at)
        )

    async def _list(self) -> None:
        """Bring everything up to date, deletions included. Raises ApiError."""
        self.lists += 1
        # The first time there is nothing that could be gone.
        seen: set[Place] | None = None if self.collection.is_empty() else set()
        limit: int | None = self._timing.page
        token: str | None = None
        while True:
            try:
                page, cut = await self._page(limit, token)
            except Gone:
                if token is None:
                    raise
                # The list grew too old between two pages: once more from the start, in one piece.
                limit, token = None, None
                seen = set()
                continue
            async for part in slices(page.items or ()):
                shifts: list[ObjectChange[V]] = []
                for raw in part:
                    meta = self.collection.put(raw, shifts, cut=cut)
                    if meta is not None and seen is not None:
                        seen.add((meta.namespace, meta.name))
                self._hand_over(shifts)
            token = page.metadata.continue_
            if not token:
                break
        async for places in slices(() if seen is None else self.collection.others(seen)):
            shifts = []
            for place in places:
                self.collection.drop(place, shifts)
            self._hand_over(shifts)
        self.resource_version = page.metadata.resource_version
        self.problem, self.is_served = None, True
        self.current_at = asyncio.get_running_loop().time()
        self.synced.set()

    async def _page(self, limit: int | None, token: str | None) -> tuple[Page, bool]:
        query: dict[str, Any] = {"limit": limit, "continue": token}
        content = await self._client.get(self._path, **query)
        self.heard = asyncio.get_running_loop().time()
        return self._decoded(_PAGE, content, "an unreadable list")

    async def _watch(self) -> None:
        """Follow changes until the server ends the stream. Raises ApiError."""
        loop = asyncio.get_running_loop()
        query: dict[str, Any] = {
            "resourceVersion": self.resource_version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": int(random.uniform(self._timing.watch, 2 * self._timing.watch)) or 1,
        }
        async for lines in self._client.watch(self._path, silence=self._timing.silence, **query):
            self.heard = self.current_at = loop.time()
            self.problem = None
            shifts: list[ObjectChange[V]] = []
            try:
                for line in lines:
                    self._follow(line, shifts)
            finally:
                self._hand_over(shifts)

    def _follow(self, line: bytes, shifts: list[ObjectChange[V]]) -> None:
        event, cut = self._decoded(_EVENT, line, "an unreadable watch event")
        match event.type:
            case "ADDED" | "MODIFIED":
                put = self.collection.put(event.object, shifts, cut=cut)
                if put is not None:
                    self.resource_version = put.resource_version
            case "DELETED":
                meta = self._identity(event.object)
                self.collection.drop((meta.namespace, meta.name), shifts, uid=meta.uid)
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

    def _identity(self, raw: msgspec.Raw) -> WireMetadata:
        return self._decoded(BARE, raw, "an object without readable metadata")[0].metadata

    def _decoded(
        self, decoder: msgspec.json.Decoder[D], raw: bytes | msgspec.Raw, fault: str
    ) -> tuple[D, bool]:
        """What was sent, and whether what is nested too deeply in it had to be left out."""
        try:
            try:
                return decoder.decode(raw), False
            except RecursionError:
                return decoder.decode(without_depths(raw)), True
        except msgspec.DecodeError as error:
            raise self._broken(f"{fault}: {error}") from error

    def _hand_over(self, shifts: list[ObjectChange[V]]) -> None:
        if shifts:
            self._deliver(shifts)

    def _broken(self, reason: str) -> ApiUnavailable:
        return ApiUnavailable(method="GET", path=self._path, status=200, reason=reason)
