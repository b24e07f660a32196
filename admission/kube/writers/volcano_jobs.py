"""Ledger → cluster for Volcano Jobs: makes and removes their pods, and the objects that the pods need.

Level-triggered: ``JobWork`` says what is missing now, and what fails is worked out again after a pause.
One Job's work is under way once at a time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from admission.failpoints import Failpoint
from admission.kube.client.client import Client
from admission.kube.client.eviction import code_of, evict
from admission.kube.writers.awaited_seats import AwaitedSeats, AwaitedWrite, Looks, UnwantedWrite
from admission.kube.writers.companion_objects import Companions, NameTaken
from admission.kube.writers.work_queue import WorkQueue
from admission.volcano_jobs.pod_changes import JobWork, PodUnwanted, PodWanted
from admission.volcano_jobs.pods import PodTemplateRenderer
from admission.wire import Bare
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import PODS, VOLCANO_JOBS
from queues.api.reading.user_values import number
from queues.errors import (
    ApiError,
    ApiRefused,
    Conflict,
    Fenced,
    InvalidDocument,
    NotFound,
)
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, WorkloadKey

_log = logging.getLogger(__name__)

#: Pods of one Job that are being written at a time; the client bounds all Jobs together.
AT_A_TIME: Final = 64


@dataclass(slots=True)
class _Outcome:
    """What became of one Job's work."""

    #: What the user must know. None if all is well.
    problem: Reason | None = None
    #: Something is left to do: it is tried again after a pause.
    unfinished: bool = False


def pod_name(work: JobWork, wanted: PodWanted) -> str:
    """What the pod is called."""
    return work.spec.pod_name(wanted.task, wanted.index)


def _renderers(
    work: JobWork, creates: Iterable[PodWanted]
) -> dict[tuple[str, AdmissionId], PodTemplateRenderer]:
    """A renderer per task and admission. Raises InvalidDocument."""
    kinds = {(wanted.task, wanted.admission) for wanted in creates}
    tasks = {task.name: task for task in work.spec.tasks}
    return {
        (task, admission): PodTemplateRenderer(work.spec, tasks[task], work.pod_settings[admission])
        for task, admission in kinds
    }


def _newest_admission(creates: Iterable[PodWanted]) -> dict[str, Any]:
    """The fact of a problem that says which admission it keeps from being filled; none if no pod is to be made."""
    admissions = {each.admission for each in creates}
    return {"admission": max(admissions)} if admissions else {}


def _note_problem(outcome: _Outcome, code: ReasonCode, message: str, **facts: Any) -> None:
    """The first problem is shown: the others are mostly the same."""
    outcome.unfinished = True
    if outcome.problem is None:
        outcome.problem = Reason(code=code, message=message, facts=facts)


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run at the same time; the first to raise stops the others."""
    async with asyncio.TaskGroup() as tasks:
        for one in work:
            tasks.create_task(one)


@dataclass(frozen=True, slots=True)
class _Due:
    """The part of a Job's work to be done now."""

    creates: deque[PodWanted]
    deletes: tuple[PodUnwanted, ...]
    remove: bool
    #: Pods are left out because of an earlier failure.
    paused: bool


class VolcanoJobWriter:
    """Writes of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain.

    ``requeue`` is called when a Job's state and work have to be computed again, also when work on it has ended;
    ``failpoint`` at every point where a test may stop the process.
    """

    def __init__(
        self,
        client: Client,
        world: World,
        check_lease: Callable[[], None],
        *,
        requeue: Callable[[WorkloadKey], None],
        failpoint: Failpoint,
        priorities: Callable[[], Mapping[str, int]] = dict,
        released: Callable[[Iterable[AdmissionId]], None] = lambda ids: None,
    ) -> None:
        """``priorities``: value of each priority class, as it is now. ``released`` is called with the admissions of
        pods that were made."""
        self._client = client
        self.world = world
        self._check_lease = check_lease
        self._requeue = requeue
        self._failpoint = failpoint
        self._released = released
        #: Pods, by name, that are being made.
        self.awaited = AwaitedSeats(self._shown)
        self._companions = Companions(client, check_lease, priorities=priorities)
        self.queue: WorkQueue[WorkloadKey] = WorkQueue(requeue, lambda _: None)
        self._looks = Looks(client, self.awaited, self.queue, requeue, _is_made)
        #: Pods that are to be made, of Jobs that are worked on now: all, and those not begun with.
        self._wanted: dict[WorkloadKey, frozenset[PodWanted]] = {}
        self._queued: dict[WorkloadKey, deque[PodWanted]] = {}
        #: Generation of a Job with pods that could not be made: a new generation need not back off.
        self._failed_generations: dict[WorkloadKey, int] = {}
        #: What keeps a Job's pods from being made, for its status.
        self.problems: dict[WorkloadKey, Reason] = {}

    def reconcile(self, works: Iterable[JobWork]) -> None:
        """Start what these Jobs need; returns at once. One Job is worked on once at a time.

        What was just done, or failed lately, is left out; the Job is requeued when its time has come. Pods that are no
        longer wanted are not made.
        """
        for work in works:
            self.queue.keep_expectations(work.key.uid, _missing(work))
            if self.queue.is_busy_with(work.key):
                self._keep_only(work.key, work, work.creates)
                self.queue.requeue_when_finished(work.key)
                continue
            self._looks.start(work.key, {pod_name(work, each) for each in work.creates})
            if work.lacks_group:
                self._companions.make_later(work.spec)
            due = self._due(work)
            if not work.creates:
                self._forget_taken_name(work.key)
            if due.creates or due.deletes or due.remove:
                self._start(work, due)

    def _start(self, work: JobWork, due: "_Due") -> None:
        key, state = work.key, self.world.states.get(work.key)
        for each in due.creates:
            name, seats = pod_name(work, each), {each.admission: frozenset({each.seat})}
            self.awaited.put(key, name, PODS.path(work.spec.namespace, name), seats)
            if state is not None and state.gives_back(seats):
                # What the state says of these seats is outdated.
                self.world.look_again(key)
        if due.creates:
            self._wanted[key], self._queued[key] = frozenset(due.creates), due.creates
        self.queue.start(key, key, partial(self._carry_out, work, due), f"job {work.spec.name}")

    # ── seats for which a pod may still come ────────────────────────────────────────────────────────────────────

    def _shown(self, key: WorkloadKey, writes: Mapping[str, AwaitedWrite]) -> set[str]:
        now = self.queue.now()
        return {
            pod.name
            for pod in self.world.pod_index.of(key)
            if (write := writes.get(pod.name)) is not None
            and pod.admission in write.seats
            # One that is under way may be given up yet, and carried out again.
            and not (write.in_flight or write.may_arrive(now))
        }

    def _is_wanted(self, work: JobWork, wanted: PodWanted) -> bool:
        still = wanted in self._wanted.get(work.key, ())
        return still and self.world.admission_index.holds_seats(wanted.admission, {wanted.seat})

    def abandon(self, key: WorkloadKey) -> None:
        """The Job's object is gone: none of its pods is made any more."""
        if key in self._queued:
            self._queued[key].clear()
            self._wanted[key] = frozenset()
        if self.awaited.drop_undone(key):
            self._requeue(key)
        self._looks.start(key)

    def _keep_only(self, key: WorkloadKey, work: JobWork, wanted: Sequence[PodWanted]) -> None:
        """While a Job is worked on: pods that are not wanted any more leave the queue."""
        if key not in self._wanted or self._wanted[key].issubset(wanted):
            return
        kept = self._wanted[key] = self._wanted[key].intersection(wanted)
        queued = self._queued[key]
        left = [each for each in queued if each in kept]
        queued.clear()
        queued.extend(left)
        if self.awaited.drop_undone(key, {pod_name(work, each) for each in kept}):
            self._requeue(key)

    # ── what is done now ────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, key: WorkloadKey) -> None:
        """The Job is gone and holds nothing."""
        self.abandon(key)
        self.awaited.forget(key)
        self.queue.forget(key)
        self.queue.forget_expectations(key.uid)
        self._failed_generations.pop(key, None)
        self.problems.pop(key, None)
        self._companions.forget(key.uid)

    async def stop(self) -> None:
        """Cancel what is under way."""
        await self.queue.stop()
        await self._companions.stop()

    def _due(self, work: JobWork) -> _Due:
        """What of the work is to be done now: not what was just done, and no pods while the Job backs off."""
        same = self._failed_generations.get(work.key, work.spec.generation) == work.spec.generation
        paused = bool(work.creates) and same and self.queue.is_backing_off(work.key)
        creates = () if paused else work.creates
        return _Due(
            creates=deque(each for each in creates if not self._is_expected(work, pod_name(work, each))),
            deletes=tuple(each for each in work.deletes if not self._is_expected(work, each.uid)),
            remove=work.remove and not self._is_expected(work, work.key.uid),
            paused=paused,
        )

    def _forget_taken_name(self, key: WorkloadKey) -> None:
        """No pod is to be made, so that no name is wanted."""
        problem = self.problems.get(key)
        if problem is not None and problem.code is ReasonCode.NAME_TAKEN:
            del self.problems[key]

    def _is_expected(self, work: JobWork, write: str) -> bool:
        return self.queue.is_expected(work.key, work.key.uid, write)

    def _expect(self, work: JobWork, write: str) -> None:
        self.queue.expect(work.key.uid, write)

    async def _carry_out(self, work: JobWork, due: _Due) -> None:
        outcome = _Outcome()
        try:
            await self._work(work, due, outcome)
        except* Fenced:
            raise
        except* Exception:
            # A defect in one Job's work must not keep the others waiting.
            _log.exception("job's work failed", extra={"workload": str(work.key), "job": work.spec.name})
            outcome.unfinished = True
        finally:
            self._wanted.pop(work.key, None)
            self._queued.pop(work.key, None)
            self.awaited.drop_undone(work.key)
        self._settle(work, due, outcome)
        self._requeue(work.key)

    async def _work(self, work: JobWork, due: _Due, outcome: _Outcome) -> None:
        if due.remove:
            await self._remove_job(work, outcome)
            return
        # First: once the pods are gone, nothing shows the next leader that the list of hosts is too long.
        complete = await self._update_companions(work, due.creates, outcome)
        await all_of(self._delete(work, unwanted, outcome) for unwanted in due.deletes)
        if due.creates and complete:
            await self._create_all(work, due.creates, outcome)
            self._failpoint("released")

    def _settle(self, work: JobWork, due: _Due, outcome: _Outcome) -> None:
        """Note a problem or its end, and see to it that what is left is tried again."""
        key, problem = work.key, outcome.problem
        if problem is not None:
            self.problems[key] = problem
            about = {"workload": str(key), "job": work.spec.name, "code": problem.code}
            _log.warning("job's pods not made", extra={**about, "why": problem.message})
        elif not due.paused:
            self.problems.pop(key, None)
        if outcome.unfinished:
            self._failed_generations[key] = work.spec.generation
            self.queue.back_off(key)
        elif not due.paused:
            self._failed_generations.pop(key, None)
            self.queue.reset(key)

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _update_companions(
        self, work: JobWork, creates: Collection[PodWanted], outcome: _Outcome
    ) -> bool:
        """Have the companions exist as they should be; False: something is in the way, which is noted."""
        try:
            await self._companions.ensure(work.spec, work.companions)
        except NameTaken as error:
            _note_problem(outcome, ReasonCode.NAME_TAKEN, str(error), **_newest_admission(creates))
        except ApiError as error:
            self._failed(outcome, error, ReasonCode.OBJECT_REFUSED)
        else:
            return True
        return False

    async def _create_all(self, work: JobWork, creates: deque[PodWanted], outcome: _Outcome) -> None:
        """Pods whose companions exist; refused pods of one task do not stop the other tasks."""
        try:
            renderers = _renderers(work, creates)
        except InvalidDocument as error:
            _note_problem(outcome, ReasonCode.INVALID_SPEC, str(error), **_newest_admission(creates))
            return
        refused_tasks: set[str] = set()

        async def writer() -> None:
            while creates:
                wanted = creates.popleft()
                if wanted.task not in refused_tasks:
                    await self._create(
                        work, wanted, renderers[wanted.task, wanted.admission], outcome, refused_tasks
                    )

        with self._companions.waiting():
            await all_of(writer() for _ in range(min(AT_A_TIME, len(creates))))

    async def _create(
        self,
        work: JobWork,
        wanted: PodWanted,
        renderer: PodTemplateRenderer,
        outcome: _Outcome,
        refused_tasks: set[str],
    ) -> None:
        path = PODS.path(work.spec.namespace)
        name = pod_name(work, wanted)
        creation = self.awaited.get(work.key, name)
        if creation is None:
            return  # it is not wanted any more

        def check() -> None:
            self._check_lease()
            if self.awaited.get(work.key, name) is not creation or not self._is_wanted(work, wanted):
                raise UnwantedWrite
            creation.in_flight = True

        try:
            body = renderer.render(wanted.index, wanted.node, wanted.devices)
            request = self._client.create(path, body, brief=True, check_lease=check)
            await creation.tracked(request, self.queue.now)
        except UnwantedWrite:
            return
        except ApiError as error:
            if error.facts.get("code") != "AlreadyExists":
                if isinstance(error, ApiRefused | NotFound):
                    refused_tasks.add(wanted.task)
                self._failed(outcome, error)
                return
            if not await self._is_ours(work, wanted, outcome):
                return
            creation.since = self.queue.now()
        self._expect(work, name)
        self._released((wanted.admission,))
        self._failpoint("one-released")

    async def _is_ours(self, work: JobWork, wanted: PodWanted, outcome: _Outcome) -> bool:
        """Whether the pod that has the name already is the one we wanted; a stray of ours is removed."""
        name = pod_name(work, wanted)
        path = PODS.path(work.spec.namespace, name)
        outcome.unfinished = True
        try:
            meta = msgspec.json.decode(await self._client.get(path), type=Bare).metadata
        except ApiError:
            return False
        written = (meta.annotations or {}).get(names.ADMISSION_ID)
        owned = any(owner.controller and owner.uid == work.key.uid for owner in meta.owner_references or ())
        # An owner reference is what a pod says of itself; the annotation is Muster's.
        if not owned or written is None:
            _note_problem(
                outcome,
                ReasonCode.NAME_TAKEN,
                f"pod {name} exists and is not this Job's; delete it or rename the Job",
                # One that is ending, of an earlier Job of that name perhaps, takes no seats from the gang.
                **({"admission": wanted.admission, "pod": name} if meta.deletion_timestamp is None else {}),
            )
            return False
        if written == str(wanted.admission):
            return meta.deletion_timestamp is None
        if meta.deletion_timestamp is None and number(written) not in work.pod_settings:
            stray = PodUnwanted(name=name, uid=meta.uid, reason="AdmissionClosed")
            await self._delete(work, stray, outcome)
        return False

    # ── removing ────────────────────────────────────────────────────────────────────────────────────────────

    async def _delete(self, work: JobWork, unwanted: PodUnwanted, outcome: _Outcome) -> None:
        """A pod that is not to be there, whatever it does."""
        path = PODS.path(work.spec.namespace, unwanted.name)
        remove: Callable[..., Awaitable[Any]] = (
            partial(evict, self._client) if unwanted.evict else self._client.delete
        )
        request = remove(path, uid=unwanted.uid, check_lease=self._check_lease)
        await self._removed(work, unwanted.uid, request, outcome)

    async def _remove_job(self, work: JobWork, outcome: _Outcome) -> None:
        """The Job itself, with its pods."""
        path, uid = VOLCANO_JOBS.path(work.spec.namespace, work.spec.name), work.key.uid
        # Foreground, as Volcano does it: the Job is there until its pods are gone.
        request = self._client.delete(path, uid=uid, propagation="Foreground", check_lease=self._check_lease)
        await self._removed(work, uid, request, outcome)

    async def _removed(self, work: JobWork, uid: str, request: Awaitable[Any], outcome: _Outcome) -> None:
        try:
            await request
        except (NotFound, Conflict):
            return  # it is gone, or another one has its name
        except ApiError as error:
            self._failed(outcome, error, code_of(error, ReasonCode.POD_REFUSED))
        else:
            self._expect(work, uid)

    # ── what went wrong ─────────────────────────────────────────────────────────────────────────────────────

    def _failed(self, outcome: _Outcome, error: ApiError, code: ReasonCode = ReasonCode.POD_REFUSED) -> None:
        """A refusal is for the user to see; anything else passes."""
        outcome.unfinished = True
        if isinstance(error, ApiRefused | NotFound):
            _note_problem(outcome, code, str(error.facts.get("reason", error)))


def _is_made(_: str, write: AwaitedWrite, found: bytes) -> bool:
    annotations = msgspec.json.decode(found, type=Bare).metadata.annotations or {}
    return number(annotations.get(names.ADMISSION_ID)) in write.seats


def _missing(work: JobWork) -> set[str]:
    """Writes with an effect that the informer does not show."""
    missing = {pod_name(work, wanted) for wanted in work.creates}
    missing |= {unwanted.uid for unwanted in work.deletes}
    if work.remove:
        missing.add(work.key.uid)
    return missing
