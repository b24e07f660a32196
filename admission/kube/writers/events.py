"""World → events: what happened to an object, written after the fact and never in the way of an admission."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import time_ns
from typing import Final, NoReturn

from admission.kube.client.client import Client
from admission.kube.writers.rate_limit import BUSY_LOOK, HOLD, PER_SECOND_BUSY, RateLimiter
from admission.reconcile.events import WAIT, WARN
from admission.reconcile.status import Document, EventNote
from queues.api.api_resources import EVENTS
from queues.errors import ApiError, Fenced
from queues.reason_codes import NEEDS_A_CHANGE
from queues.text_format import rfc3339

_log = logging.getLogger(__name__)


#: Events beyond this backlog are dropped, the oldest first.
BACKLOG: Final = 2000


#: Seconds that a workload waits before its first reason is written, unless it needs a change of its owner or others:
#: most that wait wait for less.
FIRST_AFTER: Final = 2.0
#: Seconds between two looks at which first reasons are due.
_LOOK_EVERY: Final = 0.25


@dataclass(slots=True)
class _Told:
    """What was written about a workload."""

    #: Codes: Admitted or Evicted, then reasons for waiting and warnings since then.
    codes: tuple[str, ...] = ()
    #: A reason for waiting is among them.
    has_waited: bool = False


class EventWriter:
    """Writes events about objects.

    A reason for waiting is written when it is new since the workload was admitted or evicted, and not when it comes
    back: reasons may take turns with every turn. Each warning is written once.
    """

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        *,
        instance: str,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._check_lease = check_lease
        self._instance = instance
        self._busy = busy
        self._rate = RateLimiter(busy, 40.0, PER_SECOND_BUSY)
        #: By uid of the workload, the oldest first.
        self._written: OrderedDict[str, _Told] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], tuple[EventNote, int]] = OrderedDict()
        #: By uid: first reason, which is not due yet, since (ns). The oldest first.
        self._held: dict[str, tuple[EventNote, int]] = {}
        self._queued = asyncio.Event()

    def tell(self, note: EventNote, *, shown: bool = False) -> None:
        """Queue an event; returns at once. One that repeats the last ones is dropped, unless it is always written.

        ``shown``: the object said so when it was seen first, so that an earlier leader has written it last.
        """
        uid, code = note.ref.uid, _code(note)
        told = self._written.get(uid)
        waits = note.action in (WAIT, WARN)
        if shown and told is None:
            return
        if waits and note.always:
            self._queue(note, note.message)
        elif waits:
            self._tell_waiting(note, told or _Told())
        elif note.always or told is None or told.codes[-1:] != (code,):
            self._note_written(uid, _Told((code,)))
            self._held.pop(uid, None)
            self._queue(note, note.message if note.always else code)

    def _tell_waiting(self, note: EventNote, told: _Told) -> None:
        """A reason for waiting, or a warning."""
        uid, is_reason = note.ref.uid, note.action == WAIT
        if is_reason and not (told.has_waited or _needs_a_change(note)):
            self._held[uid] = (note, self._held[uid][1] if uid in self._held else time_ns())
            self._queued.set()
            return
        if is_reason:
            self._held.pop(uid, None)
        self._tell_new(note, told)

    def _tell_new(self, note: EventNote, told: _Told, at: int | None = None) -> None:
        uid, code = note.ref.uid, _code(note)
        if code in told.codes:
            return
        told.codes = (*told.codes, code)
        told.has_waited |= note.action == WAIT
        self._note_written(uid, told)
        self._queue(note, code, at)

    def _queue(self, note: EventNote, what: str, at: int | None = None) -> None:
        self._waiting[note.ref.uid, what] = (note, time_ns() if at is None else at)
        if _needs_a_change(note):
            self._waiting.move_to_end((note.ref.uid, what), last=False)
        if len(self._waiting) > BACKLOG:
            self._waiting.popitem(last=False)
        self._queued.set()

    def _queue_held(self) -> None:
        """Queue the first reasons that are due."""
        due = time_ns() - int(FIRST_AFTER * 1e9)
        while self._held:
            uid, (note, since) = next(iter(self._held.items()))
            if since > due:
                return
            del self._held[uid]
            self._tell_new(note, self._written.get(uid) or _Told(), since)

    def _note_written(self, uid: str, told: _Told) -> None:
        self._written[uid] = told
        self._written.move_to_end(uid)
        if len(self._written) > 10 * BACKLOG:
            self._written.popitem(last=False)

    def forget(self, uids: Iterable[str]) -> None:
        """These objects are gone."""
        for uid in uids:
            self._written.pop(uid, None)
            self._held.pop(uid, None)

    async def run(self) -> NoReturn:
        """Write queued events. Raises Fenced."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._queued.wait(), _LOOK_EVERY if self._held else None)
            self._queued.clear()
            self._queue_held()
            while self._waiting:
                self._queue_held()
                await self._let_pods_go_first()
                await self._rate.wait()
                _, (note, at) = self._waiting.popitem(last=False)
                try:
                    await _create(self._client, event(note, at, self._instance), self._check_lease)
                except ApiError as error:
                    _log.info("event not written", extra={"object": note.ref.path, "why": str(error)})

    async def _let_pods_go_first(self) -> None:
        """While pods are being released, only events that are overdue are written, and those that need a change."""
        while self._busy():
            note, at = next(iter(self._waiting.values()))
            if time_ns() - at > HOLD * 1e9 or _needs_a_change(note):
                return
            await asyncio.sleep(BUSY_LOOK)


def _needs_a_change(note: EventNote) -> bool:
    """Whether it is the reason of a workload that does not start by itself."""
    return note.action == WAIT and _code(note) in NEEDS_A_CHANGE


def _code(note: EventNote) -> str:
    """What makes it another event than the last one."""
    return note.code or note.reason


async def write_event(
    client: Client, note: EventNote, instance: str, check_lease: Callable[[], None]
) -> None:
    """Write an event of this moment. That it cannot be written stops nothing. Raises Fenced."""
    try:
        await _create(client, event(note, time_ns(), instance), check_lease)
    except Fenced:
        raise
    except Exception as error:
        _log.info("event not written", extra={"object": note.ref.path, "why": str(error)})


async def _create(client: Client, body: Document, check_lease: Callable[[], None]) -> None:
    path = EVENTS.path(body["metadata"]["namespace"])
    await client.create(path, body, brief=True, check_lease=check_lease)


def event(note: EventNote, at: int, instance: str) -> Document:
    """A v1 Event: events.k8s.io/v1 allows no ``lastTimestamp``, by which many people and tools sort events.

    ``at``: nanoseconds since the epoch. An event that is written once has a name of its own: a leader that does not
    know that an earlier one has written it is refused.
    """
    named = at if note.once is None else note.once[0] * 10**9 + note.once[1] % 10**9
    seconds, rest = divmod(at, 10**9)
    return {
        "metadata": {
            "name": f"{note.ref.name[:200]}.{named:x}",
            "namespace": note.ref.namespace or "default",
        },
        "eventTime": rfc3339(seconds).replace("Z", f".{rest // 1000:06d}Z"),
        "firstTimestamp": rfc3339(seconds),
        "lastTimestamp": rfc3339(seconds),
        "count": 1,
        "source": {"component": "muster"},
        "reportingComponent": "muster.dev/controller",
        "reportingInstance": instance[:128],
        "action": note.action,
        "reason": note.reason,
        "involvedObject": {
            "apiVersion": note.ref.resource.api_version,
            "kind": note.ref.resource.kind,
            "namespace": note.ref.namespace,
            "name": note.ref.name,
            "uid": note.ref.uid,
        },
        "message": note.message[:1024],
        "type": "Warning" if note.warning else "Normal",
    }
