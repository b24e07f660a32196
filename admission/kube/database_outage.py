"""While Postgres is away: each queue says so, and each workload that comes meanwhile gets one event.

Nobody leads then, so these are the only writes without a lease (docs/decisions/leadership-and-turns.md). They grant
nothing. Every replica makes them, with the same words and under the same names, so that the second one changes nothing.
The next leader changes queues back, by writing their statuses.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from time import time
from typing import Final, NoReturn
from zlib import crc32

import msgspec

from admission.decode.admin_documents import queue_fact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer
from admission.kube.watch.informers import AnyKind, kinds_of_workloads
from admission.kube.watch.store import ObjectChange
from admission.kube.writers.events import BACKLOG, write_event
from admission.kube.writers.rate_limit import RateLimiter
from admission.kube.writers.status import write_deciding_condition
from admission.reconcile.events import WAIT
from admission.reconcile.status import EventNote
from admission.wire import Bare, Page
from admission.workloads.kinds import object_ref, support_of
from queues import kind_names
from queues.api.api_resources import QUEUES
from queues.errors import ApiError, DatabaseUnavailable
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.slices import slices
from queues.sql.lease_times import RETRY_SECONDS
from queues.workload import QueueName, WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between two rounds of writes. A leader that does reach Postgres has changed ``root`` back by the next one.
LOOK_EVERY: Final = 5.0
#: Seconds after which it is noticed that an outage has begun or ended.
NOTICED_EVERY: Final = 0.5
#: Seconds for which an outage may go on before it is noticed, in which a lease is renewed; objects say when they were
#: created in whole seconds.
UNNOTICED: Final = RETRY_SECONDS + 1.0
#: Writes per second of one replica.
_PER_SECOND: Final = 20.0

OF_QUEUES: Final = Reason(
    code=ReasonCode.DATABASE_AWAY,
    message="Postgres does not answer: running pods go on, and nothing new is admitted until it does",
)
OF_WORKLOADS: Final = (
    "Muster's database does not answer, and nothing new is admitted until it does; running pods go on. "
    "Nothing to do: this is considered then"
)


class DatabaseOutage:
    """Whether Postgres serves this replica; and what is said in the cluster while it serves none."""

    def __init__(self, client: Client, *, leads: Callable[[], bool], lasts: float, instance: str) -> None:
        """``leads``: this replica has a lease; ``lasts``: seconds after which no lease of another one holds;
        ``instance``: the reporter that events name."""
        self._client = client
        self._leads = leads
        self._lasts = lasts
        self._instance = instance
        self._rate = RateLimiter(lambda: False, _PER_SECOND, _PER_SECOND)
        #: Since when (seconds since the epoch) Postgres has not served; None if it did at the last attempt.
        self._since: float | None = None

    def note(self, error: Exception | None) -> None:
        """Postgres was asked: what failed, None if nothing. Called from other threads too."""
        if error is None:
            self._since = None
        elif self._since is None and isinstance(error, DatabaseUnavailable | TimeoutError):
            self._since = time()

    async def run(self) -> NoReturn:
        """Say it of each outage, until cancelled."""
        while True:
            if (since := self._since) is not None:
                try:
                    await self._tell(since)
                except ApiError as error:
                    _log.info("an outage of Postgres is not told", extra={"why": str(error)})
                except Exception:
                    # What is said is not worth the process.
                    _log.exception("an outage of Postgres is not told")
            await asyncio.sleep(NOTICED_EVERY)

    async def _tell(self, since: float) -> None:
        """One outage. Raises ApiError: it has not begun to be told."""
        found, is_told = _Workloads(since), False
        # A leader writes root every half a minute: what came since then is not too much, and versions count for all
        # kinds. Where they do not, the API server refuses this one, and the informer lists.
        root = msgspec.json.decode(await self._client.get(QUEUES.path(name=ROOT)), type=Bare)
        async with asyncio.TaskGroup() as tasks:
            watching = []
            for kind in kinds_of_workloads():
                informer = Informer(self._client, found.of(kind), found.take)
                informer.resource_version = root.metadata.resource_version
                watching.append(tasks.create_task(informer.run(), name=f"informer {kind.name}"))
            due = since + self._lasts
            while self._since == since:
                await asyncio.sleep(NOTICED_EVERY)
                if (now := time()) >= due and not self._leads():
                    due = now + LOOK_EVERY
                    with suppress(ApiError):
                        is_told = await self._look(since, found, is_told=is_told)
            for task in watching:
                task.cancel()

    async def _look(self, since: float, found: "_Workloads", *, is_told: bool) -> bool:
        """Write what is still to be said. ``is_told``: root was seen, or made, to say it. Whether it is now.

        Root goes first, and alone: if another replica leads after all, it changes root back, and nothing else is said.
        Raises ApiError.
        """
        page = msgspec.json.decode(await self._client.get(QUEUES.path()), type=Page)
        silent: list[QueueName] = []
        async for raws in slices(page.items or ()):
            facts = [queue_fact(bytes(raw)) for raw in raws]
            silent += [fact.queue.name for fact in facts if fact.shown != ReasonCode.DATABASE_AWAY]
        if ROOT in silent:
            if not is_told:
                await write_deciding_condition(self._client, _without_lease, OF_QUEUES)
            return True
        for name in silent:
            if await self._is_still_away(since):
                await write_deciding_condition(self._client, _without_lease, OF_QUEUES, name)
        while found.notes and await self._is_still_away(since):
            await write_event(self._client, found.notes.popleft(), self._instance, _without_lease)
        return True

    async def _is_still_away(self, since: float) -> bool:
        """Waits until one more write may be made."""
        await self._rate.wait()
        return self._since == since


def _without_lease() -> None:
    """In the place of the check of a lease."""


class _Workloads:
    """Workloads that came during an outage, as events that are still to be written."""

    def __init__(self, since: float) -> None:
        """``since``: seconds since the epoch."""
        self._since = since - UNNOTICED
        #: The oldest are dropped if there are too many.
        self.notes: deque[EventNote] = deque(maxlen=BACKLOG)

    def of(self, kind: AnyKind) -> AnyKind:
        """A kind whose objects are kept as these events; the others are not kept."""
        return replace(
            kind,
            translate=lambda read, raw: self._note(kind.translate(read, raw)),
            unreadable=lambda bare, raw, error: self._note(kind.unreadable(bare, raw, error)),
        )

    def take(self, changes: Iterable[ObjectChange[EventNote]]) -> None:
        """What an informer delivers."""
        self.notes.extend(each.after for each in changes if each.before is None and each.after is not None)

    def _note(self, fact: object) -> EventNote | None:
        """The event of a workload; None if the object is none, or was there before."""
        match fact:
            case WorkloadFact(key=key, queue=queue, stands_for=None) if not fact.finished:
                waits = queue is not None or not support_of(key).needs_queue
            case PodFact(owner=WorkloadKey(kind=kind_names.POD) as key):
                waits = fact.gated and fact.group is None
            case _:
                return None
        if not waits or fact.deleting or fact.created < self._since:
            return None
        return EventNote(
            ref=object_ref(key, fact.namespace, fact.name),
            reason=ReasonCode.DATABASE_AWAY,
            message=OF_WORKLOADS,
            action=WAIT,
            once=(fact.created, crc32(key.uid.encode())),
        )
