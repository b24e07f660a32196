"""How pods of Volcano Jobs are made and removed: one write each, and what came of it.

Ledger → cluster for Volcano Jobs: sees to it that their pods are made and removed, and what those need.

Level-triggered: ``JobWork`` says what is missing now, and whatever fails is worked out again after a pause.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from admission.kube.client.client import Client
from admission.kube.writers.companion_objects import Companions, KeyPairs, NameTaken
from admission.kube.writers.work_queue import KeyedWakeups, cancelled, pause_after
from admission.volcano_jobs.pods import PodMold
from admission.volcano_jobs.work import JobWork, PodUnwanted, PodWanted
from queues.api import names
from queues.api.names import BATCH_VOLCANO
from queues.errors import ApiError, ApiRefused, Conflict, Fenced, InvalidDocument, NotFound
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, WorkloadKey

#: Pods of one Job that are being written at a time; the client bounds all Jobs together.
AT_A_TIME: Final = 64


@dataclass(slots=True, kw_only=True)
class JobReport:
    """What became of one Job's work."""

    workload: WorkloadKey
    created: int = 0
    #: Pods that were there already, made by an attempt whose answer was lost.
    found: int = 0
    deleted: int = 0
    companions: int = 0
    #: What the user must know; None: nothing.
    problem: Reason | None = None
    #: Something is left to do: it is tried again after a pause.
    unfinished: bool = False


class JobPods:
    """Writes of one term. ``done`` is told what was brought about: the name of a pod made, the uid of one removed."""

    def __init__(
        self,
        client: Client,
        guard: Callable[[], None],
        companions: Companions,
        *,
        done: Callable[[JobWork, str], None],
        pause: Callable[[str], None],
    ) -> None:
        self._client = client
        self._guard = guard
        self._companions = companions
        self._done = done
        self._pause = pause

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, work: JobWork, creates: deque[PodWanted], report: JobReport) -> None:
        """Companions, then the pods; a task whose pods are refused does not stop the others."""
        try:
            report.companions += await self._companions.ensure(work.spec, work.companions)
            molds = _molds(work, creates)
        except NameTaken as error:
            _blame(report, ReasonCode.NAME_TAKEN, str(error))
            return
        except InvalidDocument as error:
            _blame(report, ReasonCode.INVALID_SPEC, str(error))
            return
        except ApiError as error:
            self._failed(report, error, ReasonCode.OBJECT_REFUSED)
            return
        hopeless: set[str] = set()

        async def writer() -> None:
            while creates:
                wanted = creates.popleft()
                if wanted.task not in hopeless:
                    await self._create(work, wanted, molds[wanted.task, wanted.admission], report, hopeless)

        with self._companions.waiting():
            await all_of(writer() for _ in range(min(AT_A_TIME, len(creates))))

    async def _create(
        self, work: JobWork, wanted: PodWanted, mold: PodMold, report: JobReport, hopeless: set[str]
    ) -> None:
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods"
        name = pod_name(work, wanted)
        try:
            body = mold.cast(wanted.index, wanted.node, wanted.devices)
            await self._client.create(path, body, brief=True, guard=self._guard)
            report.created += 1
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                self._failed(report, error)
                return
            if not await self._is_ours(work, wanted, report):
                return
            report.found += 1
        except (ApiRefused, NotFound) as error:
            hopeless.add(wanted.task)
            self._failed(report, error)
            return
        except ApiError as error:
            self._failed(report, error)
            return
        self._done(work, name)
        self._pause("one-released")

    async def _is_ours(self, work: JobWork, wanted: PodWanted, report: JobReport) -> bool:
        """Whether the pod that has the name already is the one we wanted; a stray of ours is removed."""
        name = pod_name(work, wanted)
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods/{name}"
        report.unfinished = True
        try:
            meta = msgspec.json.decode(await self._client.get(path), type=_Pod).metadata
        except ApiError:
            return False
        if not any(owner.controller and owner.uid == work.key.uid for owner in meta.owner_references):
            _blame(
                report,
                ReasonCode.NAME_TAKEN,
                f"pod {name} exists and is not this Job's; delete it or rename the Job",
            )
            return False
        if meta.annotations.get(names.ADMISSION_ID) == str(wanted.admission):
            return meta.deletion_timestamp is None
        if meta.deletion_timestamp is None and _admission(meta.annotations) not in work.stamps:
            stray = PodUnwanted(name=name, uid=meta.uid, why="AdmissionClosed")
            await self.delete(work, stray, report)
        return False

    # ── removing ────────────────────────────────────────────────────────────────────────────────────────────

    async def delete(self, work: JobWork, unwanted: PodUnwanted, report: JobReport) -> None:
        """A pod that is not to be there, whatever it does."""
        path = f"/api/v1/namespaces/{work.spec.namespace}/pods/{unwanted.name}"
        if await self._gone(path, unwanted.uid, report):
            report.deleted += 1
            self._done(work, unwanted.uid)

    async def remove_job(self, work: JobWork, report: JobReport) -> None:
        """The Job itself, with its pods."""
        path = f"/apis/{BATCH_VOLCANO}/namespaces/{work.spec.namespace}/jobs/{work.spec.name}"
        # Foreground, as Volcano does it: the Job is there until its pods are gone.
        if await self._gone(path, work.key.uid, report, propagation="Foreground"):
            self._done(work, work.key.uid)

    async def _gone(
        self, path: str, uid: str, report: JobReport, propagation: Literal["Foreground"] | None = None
    ) -> bool:
        try:
            await self._client.delete(path, uid=uid, propagation=propagation, guard=self._guard)
        except (NotFound, Conflict):
            return False  # it is gone, or another one has its name
        except ApiError as error:
            self._failed(report, error)
            return False
        return True

    # ── what went wrong ─────────────────────────────────────────────────────────────────────────────────────

    def _failed(self, report: JobReport, error: ApiError, code: ReasonCode = ReasonCode.POD_REFUSED) -> None:
        """A refusal is for the user to see; anything else passes."""
        report.unfinished = True
        if isinstance(error, ApiRefused | NotFound):
            _blame(report, code, str(error.facts.get("reason", error)))


class _PodOwner(msgspec.Struct):
    uid: str = ""
    controller: bool = False


class _PodMetadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] = {}
    owner_references: list[_PodOwner] = []
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _PodMetadata


def _admission(annotations: dict[str, str]) -> AdmissionId | None:
    text = annotations.get(names.ADMISSION_ID, "")
    return AdmissionId(int(text)) if text.isdecimal() else None


def pod_name(work: JobWork, wanted: PodWanted) -> str:
    """What the pod is called."""
    return work.spec.pod_name(wanted.task, wanted.index)


def _molds(work: JobWork, creates: Iterable[PodWanted]) -> dict[tuple[str, AdmissionId], PodMold]:
    """A mold per task and admission. Raises InvalidDocument."""
    kinds = {(wanted.task, wanted.admission) for wanted in creates}
    tasks = {task.name: task for task in work.spec.tasks}
    return {
        (task, admission): PodMold(work.spec, tasks[task], work.stamps[admission])
        for task, admission in kinds
    }


def _blame(report: JobReport, code: ReasonCode, message: str) -> None:
    """The first problem is shown: the others are mostly the same."""
    report.unfinished = True
    if report.problem is None:
        report.problem = Reason(code=code, message=message)


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run at the same time; the first to raise stops the others."""
    async with asyncio.TaskGroup() as tasks:
        for one in work:
            tasks.create_task(one)


_log = logging.getLogger(__name__)

#: What was done is not done again for so long, while the watch has not shown it yet.
ECHO_SECONDS: Final = 30.0


class VolcanoJobWriter:
    """Writes of one term. ``guard`` raises Fenced once the leader's lease is no longer certain.

    ``again`` is called when a Job's work has to be computed anew; ``pause`` at every point where a test may
    stop the process.
    """

    def __init__(
        self,
        client: Client,
        guard: Callable[[], None],
        *,
        again: Callable[[WorkloadKey], None] = lambda _: None,
        report: Callable[[JobReport], None] = lambda _: None,
        pause: Callable[[str], None] = lambda _: None,
        keys: KeyPairs | None = None,
    ) -> None:
        self._alarms: KeyedWakeups[WorkloadKey] = KeyedWakeups(again)
        self._report = report
        self._pause = pause
        self._keys = keys or KeyPairs()
        self._companions = Companions(client, guard, self._keys)
        self._pods = JobPods(client, guard, self._companions, done=self._done, pause=pause)
        self._under_way: dict[WorkloadKey, asyncio.Task[JobReport]] = {}
        #: Jobs whose work changed while they were worked on.
        self._outdated: set[WorkloadKey] = set()
        #: Job's uid → name of a pod made, or uid of one removed → until when that counts as seen.
        self._echo: dict[str, dict[str, float]] = {}
        #: Failures in a row, and no attempt before this time of the loop; a new generation starts afresh.
        self._pauses: dict[WorkloadKey, tuple[int, int, float]] = {}
        #: What keeps a Job's pods from being made, for its status.
        self.problems: dict[WorkloadKey, Reason] = {}

    def look_at(self, works: Iterable[JobWork]) -> None:
        """Start what these Jobs need; returns at once. One Job is worked on once at a time.

        What was just done, or lately failed, is left out; ``again`` is called when its time has come.
        """
        loop = asyncio.get_running_loop()
        for work in works:
            self._hear(work)
            if work.key in self._under_way:
                self._outdated.add(work.key)
                continue
            if work.lacks_group:
                self._companions.make_later(work.spec)
            due = self._due(work, loop.time())
            if due.creates or due.deletes or due.remove:
                self._under_way[work.key] = loop.create_task(
                    self._carry_out(work, due), name=f"job {work.spec.name}"
                )

    async def reconcile(self, works: Sequence[JobWork]) -> list[JobReport]:
        """Carry out and wait. A Job with nothing to do now has an empty report."""
        self.look_at(works)
        tasks = [self._under_way.get(work.key) for work in works]
        await asyncio.gather(*(task for task in tasks if task is not None))
        return [
            task.result() if task is not None else JobReport(workload=work.key)
            for work, task in zip(works, tasks, strict=True)
        ]

    def creating(self) -> frozenset[WorkloadKey]:
        """Jobs that are being worked on now."""
        return frozenset(self._under_way)

    def is_creating(self, key: WorkloadKey) -> bool:
        """Whether this Job is being worked on now."""
        return key in self._under_way

    def forget(self, key: WorkloadKey) -> None:
        """The Job is gone."""
        self._alarms.cancel(key)
        self._echo.pop(key.uid, None)
        self._pauses.pop(key, None)
        self.problems.pop(key, None)
        self._companions.forget(key.uid)

    async def stop(self) -> None:
        """Cancel what is under way."""
        self._alarms.stop()
        await cancelled(self._under_way.values())
        await self._companions.stop()
        await self._keys.stop()

    def _due(self, work: JobWork, now: float) -> "_Due":
        """What of the work is to be done now: not what was just done, no pods while the Job's pause lasts."""
        generation, _, until = self._pauses.get(work.key, (work.spec.generation, 0, 0.0))
        paused = bool(work.creates) and generation == work.spec.generation and until > now
        if paused:
            self._alarms.ring_by(work.key, until - now)
        creates = () if paused else work.creates
        return _Due(
            creates=deque(
                wanted for wanted in creates if not self._just_done(work, pod_name(work, wanted), now)
            ),
            deletes=tuple(
                unwanted for unwanted in work.deletes if not self._just_done(work, unwanted.uid, now)
            ),
            remove=work.remove and not self._just_done(work, work.key.uid, now),
            paused=paused,
        )

    def _hear(self, work: JobWork) -> None:
        """What the work lacks, the watch has shown: if it is wanted later, then because it went away again."""
        echoes = self._echo.get(work.key.uid)
        if echoes:
            silent = {pod_name(work, wanted) for wanted in work.creates}
            silent |= {unwanted.uid for unwanted in work.deletes}
            if work.remove:
                silent.add(work.key.uid)
            self._echo[work.key.uid] = {what: until for what, until in echoes.items() if what in silent}

    def _just_done(self, work: JobWork, what: str, now: float) -> bool:
        echoes = self._echo.get(work.key.uid, {})
        lapses = echoes.get(what)
        if lapses is None:
            return False
        if lapses <= now:
            del echoes[what]
            return False
        self._alarms.ring_by(work.key, lapses - now)
        return True

    def _done(self, work: JobWork, what: str) -> None:
        lapses = asyncio.get_running_loop().time() + ECHO_SECONDS
        self._echo.setdefault(work.key.uid, {})[what] = lapses

    async def _carry_out(self, work: JobWork, due: "_Due") -> JobReport:
        report = JobReport(workload=work.key)
        fenced = False
        try:
            await self._work(work, due, report)
        except* Fenced:
            fenced = True
        except* Exception:
            # A defect in one Job's work must not keep the others waiting.
            _log.exception("job's work failed", extra={"workload": str(work.key), "job": work.spec.name})
            report.unfinished = True
        finally:
            del self._under_way[work.key]
        if not fenced:
            self._settle(work, due, report)
            self._report(report)
        return report

    async def _work(self, work: JobWork, due: "_Due", report: JobReport) -> None:
        if due.remove:
            await self._pods.remove_job(work, report)
            return
        await all_of(self._pods.delete(work, unwanted, report) for unwanted in due.deletes)
        if due.creates:
            await self._pods.create(work, due.creates, report)
            self._pause("released")

    # ── what went wrong ─────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, work: JobWork, due: "_Due", report: JobReport) -> None:
        """Note a problem or its end, and see to it that what is left is tried again."""
        key = work.key
        if report.problem is not None:
            self.problems[key] = report.problem
        elif not due.paused:
            self.problems.pop(key, None)
        if report.unfinished:
            failures = self._pauses.get(key, (0, 0, 0.0))[1] + 1
            pause = pause_after(failures)
            self._pauses[key] = (work.spec.generation, failures, asyncio.get_running_loop().time() + pause)
            self._alarms.ring_by(key, pause)
        elif not due.paused:
            self._pauses.pop(key, None)
        if key in self._outdated:
            self._outdated.discard(key)
            self._alarms.ring_by(key, 0.0)
        if report.problem is not None:
            _log.warning(
                "job's pods not made",
                extra={
                    "workload": str(key),
                    "job": work.spec.name,
                    "code": report.problem.code,
                    "why": report.problem.message,
                },
            )


@dataclass(frozen=True, slots=True)
class _Due:
    """The part of a Job's work to be done now."""

    creates: deque[PodWanted]
    deletes: tuple[PodUnwanted, ...]
    remove: bool
    #: Pods are left out because of an earlier failure.
    paused: bool
