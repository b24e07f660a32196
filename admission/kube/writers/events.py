"""World → events: what happened to an object, written after the fact and never in the way of an admission."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import time_ns
from typing import Final, NoReturn

from admission.kube.client.client import Client
from admission.kube.writers.rate_limit import BUSY_LOOK, HOLD, PER_SECOND_BUSY, RateLimiter, StatusCounts
from admission.reconcile.events import WAIT, WARN
from admission.reconcile.status import Document, EventNote
from queues.api.api_resources import EVENTS
from queues.errors import ApiError
from queues.text_format import rfc3339

_log = logging.getLogger(__name__)


#: Events beyond this backlog are dropped, the oldest first.
BACKLOG: Final = 2000


class EventWriter:
    """Writes events about objects.

    Each reason for waiting and each warning is written once, however reasons alternate, until the workload is admitted
    or evicted.
    """

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        counts: StatusCounts,
        *,
        instance: str,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._check_lease = check_lease
        self._counts = counts
        self._instance = instance
        self._busy = busy
        self._rate = RateLimiter(busy, 40.0, PER_SECOND_BUSY)
        #: uid → reasons or codes written last, oldest first: Admitted or Evicted, then those for waiting. Those of
        #: another object that are told with this one's have the kind of that one before them.
        self._written: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], tuple[EventNote, int]] = OrderedDict()
        self._queued = asyncio.Event()

    def tell(self, note: EventNote, *, shown: bool = False) -> None:
        """Queue an event; returns at once. One that repeats the last ones is dropped, if it need not always be told.

        ``shown``: the object said so when it was seen first, so that an earlier leader has told it last.
        """
        uid, code = note.told_with or note.ref.uid, note.code or note.reason
        if note.told_with:
            code = f"{note.ref.resource.plural}/{code}"
        written = self._written.get(uid, ())
        if shown and not written:
            return
        waits = note.action in (WAIT, WARN)
        if not note.always and code in (written if waits else written[-1:]):
            return
        if not (waits and note.always):
            self._note_written(uid, (*written, code) if waits else (code,))
        self._waiting[note.ref.uid, note.message if note.always else code] = (note, time_ns())
        if len(self._waiting) > BACKLOG:
            self._waiting.popitem(last=False)
            self._counts.events_dropped += 1
        self._queued.set()

    def _note_written(self, uid: str, codes: tuple[str, ...]) -> None:
        self._written[uid] = codes
        self._written.move_to_end(uid)
        if len(self._written) > 10 * BACKLOG:
            self._written.popitem(last=False)

    def forget(self, uids: Iterable[str]) -> None:
        """These objects are gone."""
        for uid in uids:
            self._written.pop(uid, None)

    async def run(self) -> NoReturn:
        """Write queued events. Raises Fenced."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            while self._waiting:
                await self._let_pods_go_first()
                await self._rate.wait()
                _, (note, at) = self._waiting.popitem(last=False)
                try:
                    body = event(note, at, self._instance)
                    path = EVENTS.path(body["metadata"]["namespace"])
                    await self._client.create(path, body, brief=True, check_lease=self._check_lease)
                    self._counts.events += 1
                except ApiError as error:
                    self._counts.events_dropped += 1
                    _log.info("event not written", extra={"object": note.ref.path, "why": str(error)})

    async def _let_pods_go_first(self) -> None:
        """While pods are being released, only events that are overdue are written."""
        while self._busy():
            _, at = next(iter(self._waiting.values()))
            if time_ns() - at > HOLD * 1e9:
                return
            await asyncio.sleep(BUSY_LOOK)


def event(note: EventNote, at: int, instance: str) -> Document:
    """A v1 Event: events.k8s.io/v1 allows no ``lastTimestamp``, by which many people and tools sort events.

    ``at``: nanoseconds since the epoch. An event that is written once has its own moment, and so its own name: a leader
    that does not know that an earlier one has written it is refused.
    """
    if note.once is not None:
        second, number = note.once
        at = second * 10**9 + number % 10**9
    seconds, rest = divmod(at, 10**9)
    return {
        "metadata": {"name": f"{note.ref.name[:200]}.{at:x}", "namespace": note.ref.namespace or "default"},
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
