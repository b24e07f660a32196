"""Ledger → cluster for Volcano Jobs: sees to it that their pods are made and removed, and what those need.

Level-triggered: ``JobWork`` says what is missing now, and whatever fails is worked out again after a pause.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from admission.engine.plan import Reason
from admission.jobs.work import JobWork, PodUnwanted, PodWanted
from admission.kube.alarms import Alarms, pause_after
from admission.kube.client import Client
from admission.kube.companions import Companions
from admission.kube.ending import cancelled
from admission.kube.job_pods import JobPods, JobReport, all_of, pod_name
from admission.kube.keys import KeyPairs
from queues.errors import Fenced
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: What was done is not done again for so long, while the watch has not shown it yet.
ECHO_SECONDS: Final = 30.0


class VolcanoJobs:
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
        self._alarms: Alarms[WorkloadKey] = Alarms(again)
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
