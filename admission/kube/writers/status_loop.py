"""World → statuses and events: hands what objects should say to the writers that write it in time."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NoReturn

from admission.facts.admission_checks import AdmissionCheckFact
from admission.facts.cluster import QueueFact
from admission.kube.client.client import Client
from admission.kube.writers.events import EventWriter
from admission.kube.writers.status import StatusWriter
from admission.reconcile.closure_status import closure_statuses
from admission.reconcile.events import (
    BudgetEvents,
    IgnoredValueEvents,
    ObjectEvents,
    acted_events,
    admitted_events,
    ending_event,
    evicted_events,
    overruled_event,
)
from admission.reconcile.status import StatusWanted
from admission.reconcile.world_status import QueueStatuses, WorldStatuses, check_statuses
from admission.turn_report import TurnReport
from admission.world.node_closures import ClosureState
from queues.slices import slices
from queues.workload import QueueName, WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between a change and the working out of what follows for statuses; longer while pods are being released.
LOOK_AFTER: Final = 0.2
LOOK_AFTER_BUSY: Final = 1.0

#: Seconds between two countings of all queues.
QUEUES_EVERY: Final = 2.0

#: Seconds between two objects that get the expected start of their workloads: at most 60 writes a minute.
STARTS_EVERY: Final = 1.0


class StatusLoop:
    """Keeps statuses and events of objects current for one term."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        statuses: WorldStatuses,
        *,
        busy: Callable[[], bool],
        instance: str,
    ) -> None:
        """``busy``: pods are being released now; ``instance``: the reporter that events name."""
        self._status = StatusWriter(client, check_lease, busy=busy)
        self._events = EventWriter(client, check_lease, instance=instance, busy=busy)
        self._statuses = statuses
        self._world = statuses.world
        self._queue_statuses = QueueStatuses(statuses.world)
        self._object_events = ObjectEvents()
        self._ignored_values = IgnoredValueEvents()
        self._budget_events = BudgetEvents()
        self._busy = busy
        self._dirty_workloads: set[WorkloadKey] = set()
        self._dirty_queues = True
        #: As they were when they were last looked at.
        self._queues: Mapping[QueueName, QueueFact] = {}
        #: Reservations, NodeDrains and AdmissionChecks, as they were then.
        self._closures: tuple[ClosureState, ...] = ()
        self._checks: Mapping[str, AdmissionCheckFact] = {}
        self._dirty = asyncio.Event()
        self._queues_due = 0.0
        #: Second of the last turn.
        self._now = 0

    async def run(self) -> None:
        """Write what is due, until cancelled. Raises Fenced."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._status.run(), name="statuses")
            tasks.create_task(self._events.run(), name="events")
            tasks.create_task(self._loop(), name="look at statuses")
            tasks.create_task(self._tell_starts(), name="tell expected starts")

    def reconcile(self, dirty: Collection[WorkloadKey], report: TurnReport) -> None:
        """The statuses of these workloads may have changed, and those of queues; returns at once."""
        applied, self._now = report.applied, report.now
        if applied is not None:
            admitted = admitted_events(self._world, applied.admitted)
            acted = acted_events(self._world, applied.jobs)
            for note in (*admitted, *evicted_events(self._world, applied.evicted), *acted):
                self._events.tell(note)
            self._statuses.starts.forget(admit.workload for _, admit in applied.admitted)
        self._tell_of_objects_of_administrators()
        for note in self._budget_events.new(self._world, report.now):
            self._events.tell(note)
        if dirty or applied is not None:
            self._dirty_workloads.update(dirty)
            self._dirty_queues = True
        deserved = self._world.queue_facts.deserved_over_time()
        told = tuple(self._world.node_inventory.closures.states(report.now, deserved))
        self._dirty_queues |= told != self._closures
        self._closures, self._now = told, report.now
        if self._checks != self._world.admission_checks.known:
            self._checks, self._dirty_queues = dict(self._world.admission_checks.known), True
        if self._queues != self._world.queues:
            self._queues, self._dirty_queues = dict(self._world.queues), True
        # Nodes may have come: no workload is looked at again because of that.
        self._dirty_queues |= self._statuses.enqueued.some_wait
        if self._dirty_workloads or self._dirty_queues:
            self._dirty.set()

    def look_at_queues(self) -> None:
        """The statuses of queues may have changed; returns at once."""
        self._dirty_queues = True
        self._dirty.set()

    async def _tell_starts(self) -> NoReturn:
        while True:
            await asyncio.sleep(STARTS_EVERY)
            if (key := self._statuses.starts.next(asyncio.get_running_loop().time())) is not None:
                self._tell_start(key)

    def _tell_start(self, key: WorkloadKey) -> None:
        """In one write: of its status, or an event."""
        with _contained("event not worked out", key):
            if (note := self._statuses.start_note(key)) is not None:
                self._events.tell(note)
            else:
                self._dirty_workloads.add(key)
                self._dirty.set()

    async def _loop(self) -> NoReturn:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(LOOK_AFTER_BUSY if self._busy() else LOOK_AFTER)
            self._dirty.clear()
            # A list: the statuses of hundreds of thousands of workloads may take minutes, and a set as much memory.
            dirty, self._dirty_workloads = list(self._dirty_workloads), set()
            await self._work_out(dirty)

    async def _work_out(self, dirty: Collection[WorkloadKey]) -> None:
        async for keys in slices(dirty):
            await self._status.room()
            gone = [key for key in keys if not self._world.is_there(key)]
            # First: a PodGroup that is no workload may have a status, that of the Job for which it stands.
            self._status.forget(key.uid for key in gone)
            self._events.forget(key.uid for key in gone)
            with _contained("podgroups without pods not looked at"):
                self._statuses.enqueued.note(self._world, keys)
            for key in keys:
                with _contained("status not worked out", key):
                    self._status.submit(list(self._statuses.of(key)))
            for key in keys:
                with _contained("event not worked out", key):
                    self._tell_why_waiting(key)
            await self._look_at_queues()
        await self._look_at_queues()
        if self._dirty_queues:
            self._dirty.set()

    async def _look_at_queues(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._dirty_queues and now >= self._queues_due:
            self._queues_due, self._dirty_queues = now + QUEUES_EVERY, False
            with _contained("podgroups without pods not looked at"):
                self._look_at_enqueued()
            async for some in slices(self._changed_queues()):
                self._status.submit(some)
            with _contained("statuses of reservations and drains not worked out"):
                self._status.submit(list(closure_statuses(self._world, self._now)))
            with _contained("statuses of admission checks not worked out"):
                self._status.submit(list(check_statuses(self._world, self._now)))

    def _look_at_enqueued(self) -> None:
        changed = self._statuses.enqueued.look_again(self._world)
        self._dirty_workloads.update(changed)
        if changed:
            self._dirty.set()

    def _changed_queues(self) -> Iterator[StatusWanted]:
        statuses = self._statuses
        enqueued = statuses.enqueued.by_queue(self._world)
        return self._queue_statuses.changed(statuses.failing(), statuses.keeping(), enqueued)

    def _tell_why_waiting(self, key: WorkloadKey) -> None:
        note, shown = self._statuses.waiting_note(key)
        ending = ending_event(self._world, key, self._now)
        overruled = overruled_event(self._world, key)
        ignored = self._ignored_values.new(self._world, key)
        if note is not None:
            self._events.tell(note, shown=shown)
        for about in (*ignored, ending, overruled):
            if about is not None:
                self._events.tell(about)

    def _tell_of_objects_of_administrators(self) -> None:
        inventory = self._world.node_inventory
        unread = (inventory.flavors.values(), inventory.topologies.values())
        for note in self._object_events.new(inventory.hypernodes.values(), *unread):
            _log.warning(
                "an object is not used as it is", extra={"object": note.ref.path, "why": note.message}
            )
            self._events.forget([note.ref.uid])
            self._events.tell(note)


@contextmanager
def _contained(what: str, key: WorkloadKey | None = None) -> Iterator[None]:
    """A defect that one workload brings to light must not keep the others in the dark."""
    try:
        yield
    except Exception:
        _log.exception(what, extra={} if key is None else {"workload": str(key)})
