"""What objects should say about themselves: from the world to ``admission.kube.writers.status``, which writes it in
time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NoReturn

from admission.facts import PodPhase
from admission.kube.client.client import Client
from admission.kube.writers.events import WAIT, EventWriter
from admission.kube.writers.status import StatusWriter
from admission.reconcile.events import HyperNodeEvents
from admission.reconcile.status import (
    EventNote,
    JobStatusFacts,
    StatusWanted,
    WorkloadStatus,
    admitted_condition,
    job_status,
    pod_group_status,
)
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.reconcile.world_status import _reason, queue_statuses
from admission.turn_report import TurnReport
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.work import companions_of
from admission.workloads.kinds import StatusForm, object_ref, support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.api.kinds import ObjectRef, pod_group
from queues.errors import InvalidDocument
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.wording import counted
from queues.workload import WorkloadKey

#: Seconds between a change and the working out of what follows for statuses; longer while pods are let go.
LOOK_AFTER: Final = 0.2

LOOK_AFTER_BUSY: Final = 1.0

_log = logging.getLogger(__name__)

#: Seconds between two countings of all queues.
QUEUES_EVERY: Final = 2.0


class StatusLoop:
    """Tells objects and their owners what happened, one term long."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        careers: VolcanoJobController,
        *,
        problems: Mapping[WorkloadKey, Reason],
        busy: Callable[[], bool],
        instance: str,
    ) -> None:
        """``problems``: what keeps a Volcano Job's pods from being made; ``busy``: pods are being let go now."""
        self._status = StatusWriter(client, check_lease, busy=busy)
        self._events = EventWriter(client, check_lease, self._status.counts, instance=instance, busy=busy)
        self._careers = careers
        self._problems = problems
        self._complaints = HyperNodeEvents()
        self._busy = busy
        self._world: World | None = None
        self._touched: set[WorkloadKey] = set()
        self._news = asyncio.Event()
        self._queues_due = 0.0
        self._queues_stale = True

    async def run(self) -> None:
        """Write what is due, until cancelled. Raises Fenced."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._status.run(), name="statuses")
            tasks.create_task(self._events.run(), name="events")
            tasks.create_task(self._look(), name="look at statuses")

    def look_at(self, world: World, touched: Collection[WorkloadKey], report: TurnReport) -> None:
        """These workloads may have to say something else from now on; returns at once."""
        self._world = world
        self._tell(world, report)
        self._tell_of_hypernodes(world)
        if touched or report.applied is not None:
            self._touched.update(touched)
            self._queues_stale = True
        if self._touched or self._queues_stale:
            self._news.set()

    async def _look(self) -> NoReturn:
        while True:
            await self._news.wait()
            await asyncio.sleep(LOOK_AFTER_BUSY if self._busy() else LOOK_AFTER)
            self._news.clear()
            assert self._world is not None
            touched, self._touched = self._touched, set()
            self._work_out(self._world, touched)

    def _work_out(self, world: World, touched: Collection[WorkloadKey]) -> None:
        self._status.submit(wanted for key in touched for wanted in self._said(world, key))
        self._tell_who_waits(world, touched)
        gone = [key for key in touched if key not in world.portraits]
        self._status.forget(key.uid for key in gone)
        self._events.forget(key.uid for key in gone)
        now = asyncio.get_running_loop().time()
        if self._queues_stale and now >= self._queues_due:
            self._queues_due, self._queues_stale = now + QUEUES_EVERY, False
            self._status.submit(queue_statuses(world))
        if self._queues_stale:
            self._news.set()

    def _said(self, world: World, key: WorkloadKey) -> list[StatusWanted]:
        try:
            return list(self._wanted(world, key))
        except Exception:
            # A defect that one workload brings to light must not keep the others in the dark.
            _log.exception("status not worked out", extra={"workload": str(key)})
            return []

    def _wanted(self, world: World, key: WorkloadKey) -> Iterator[StatusWanted]:
        portrait = world.portraits.get(key)
        if portrait is None:
            return
        ref = object_ref(key, portrait.namespace, portrait.name)
        match support_of(key).status:
            case StatusForm.VOLCANO_JOB:
                yield from self._of_volcano_job(world, portrait, ref)
            case StatusForm.POD_GROUP if key in world.facts:
                yield pod_group_status(self._workload_status(world, portrait, ref, world.facts[key].phase))
            case StatusForm.CONDITION if not portrait.over:
                yield admitted_condition(self._workload_status(world, portrait, ref))
            case _:
                return

    def _of_volcano_job(
        self, world: World, portrait: WorkloadState, ref: ObjectRef
    ) -> Iterator[StatusWanted]:
        key = portrait.key
        fact, view = world.facts.get(key), self._careers.view(world, key)
        if fact is None or fact.deleting:
            return
        if view is None:
            message = self._careers.problems.get(key, "its document cannot be read")
            state = {"phase": "Pending", "reason": ReasonCode.INVALID_SPEC, "message": message}
            yield StatusWanted(ref=ref, fields={"state": state}, seen=fact.phase)
            return
        state_ = world.jobs.get(key.uid) or JobState(uid=key.uid)
        try:
            companions = companions_of(view.spec) if world.holdings.of(key) else ()
        except InvalidDocument:
            companions = ()
        yield job_status(
            JobStatusFacts(
                spec=view.spec,
                state=state_,
                counts=view.counts(state_),
                companions=companions,
                reason=self._problems.get(key) or _reason(world, portrait),
                unsupported=fact.unsupported,
                seen=fact.phase,
            )
        )
        group = world.members.job_groups.get((portrait.namespace, view.spec.group_name))
        if group is not None:
            group_ref = pod_group(portrait.namespace, view.spec.group_name, group)
            yield pod_group_status(self._workload_status(world, portrait, group_ref))

    def _tell(self, world: World, report: TurnReport) -> None:
        applied = report.applied
        for id_, admit in applied.admitted if applied is not None else ():
            nodes = len({seat.node for seat in admit.seats})
            seats = f"{counted(len(admit.seats), 'seat')} on {counted(nodes, 'node')}"
            message = f"{seats}, admission {id_}, queue {admit.queue}"
            self._note(world, admit.workload, reason="Admitted", message=message, action="Admit")
        for evict in applied.evicted if applied is not None else ():
            admission = world.admissions.get(evict.admission)
            if admission is not None:
                self._note(
                    world,
                    admission.workload,
                    reason="Evicted",
                    message=evict.message,
                    action="Evict",
                    warning=True,
                )

    def _tell_of_hypernodes(self, world: World) -> None:
        for note in self._complaints.new(world.stock.hypernodes.values()):
            _log.warning(
                "a HyperNode cannot be used as it is", extra={"object": note.ref.name, "why": note.message}
            )
            self._events.forget([note.ref.uid])
            self._events.tell(note)

    def _tell_who_waits(self, world: World, touched: Collection[WorkloadKey]) -> None:
        for key in touched:
            portrait = world.portraits.get(key)
            reason = None if portrait is None else self._problems.get(key) or _reason(world, portrait)
            if reason is not None:
                self._note(world, key, reason=reason.code, message=reason.message, action=WAIT)

    def _workload_status(
        self, world: World, portrait: WorkloadState, ref: ObjectRef, seen: str | None = None
    ) -> WorkloadStatus:
        phases = Counter(pod.phase for pod in portrait.pods)
        open_ = any(place.admission.state is AdmissionState.OPEN for place in portrait.occupancies)
        fact = world.facts.get(portrait.key)
        told = fact is not None and support_of(portrait.key).status is not StatusForm.VOLCANO_JOB
        return WorkloadStatus(
            ref=ref,
            minimum=portrait.workload.minimum if fact is None else fact.minimum,
            admitted=open_,
            reason=(self._problems.get(portrait.key) or _reason(world, portrait)) if not open_ else None,
            problem=self._problems.get(portrait.key) if open_ else None,
            unsupported=fact.unsupported if fact is not None and told else (),
            pending=phases[PodPhase.PENDING],
            running=phases[PodPhase.RUNNING],
            bound=sum(pod.node is not None and is_live(pod) for pod in portrait.pods),
            succeeded=phases[PodPhase.SUCCEEDED],
            failed=phases[PodPhase.FAILED],
            seen=seen,
        )

    def _note(
        self, world: World, key: WorkloadKey, *, reason: str, message: str, action: str, warning: bool = False
    ) -> None:
        portrait = world.portraits.get(key)
        if portrait is not None:
            ref = object_ref(key, portrait.namespace, portrait.name)
            self._events.tell(
                EventNote(ref=ref, reason=reason, message=message, action=action, warning=warning)
            )
