"""Starts the Jobs of CronJobs and JobFlows, for one term.

Whatever is to be done follows from what the API server shows and from the time. So a new leader goes on where the last
one stopped, and a step that fails is made again later. A defect that one object brings to light does not stop others.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from admission.job_starts.cron_job_steps import CronJobFact
from admission.job_starts.job_flow import JobFlowFact
from admission.job_starts.owned_jobs import OwnedJob
from admission.kube.client.client import Client
from admission.kube.job_starts.cron_job_starts import CronJobStarts
from admission.kube.job_starts.flow_starts import FlowStarts
from admission.kube.job_starts.job_writer import JobWriter, StartRefused
from admission.kube.job_starts.probes import PROBE_EVERY
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.job_starts.starter_status import StarterStatus
from admission.kube.job_starts.watched_kinds import JobTemplateFact, StarterFact, StarterInformers
from admission.kube.writers.work_queue import WorkQueue
from queues.errors import ApiError

_log = logging.getLogger(__name__)

#: Seconds after which an object is looked at again at the latest while something is due later: clocks may be set.
LOOK_AT_LEAST_EVERY: Final = 60.0


class JobStarter:
    """The loop: what changed or is due is looked at, one step at a time for each object."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        jobs: StartedJobs,
        *,
        now: Callable[[], float],
        namespace_queues: Callable[[], Mapping[str, str]],
        instance: str,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """``now``: seconds since the epoch; ``namespace_queues``: the default queues of namespaces;
        ``instance``: the reporter that events name; ``busy``: pods are being released now."""
        self._jobs = jobs
        self._now = now
        self._facts: dict[str, StarterFact] = {}
        #: Uids of objects to be looked at.
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self.informers = StarterInformers(client, self._told)
        self.status = StarterStatus(client, check_lease, instance=instance, busy=busy)
        writer = JobWriter(client, check_lease)
        self._cron_jobs = CronJobStarts(writer, jobs, self.status, namespace_queues)
        self._flows = FlowStarts(client, writer, jobs, self.status, namespace_queues)
        self._queue: WorkQueue[str] = WorkQueue(self._mark, lambda uid: None)

    async def run(self) -> NoReturn:
        """Until cancelled. Raises Fenced."""
        self._jobs.changed = self._job_changed
        try:
            async with asyncio.TaskGroup() as tasks:
                self.status.start(tasks)
                self.informers.start(tasks)
                await self.informers.all_synced()
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    dirty, self._dirty = self._dirty, {}
                    for uid in dirty:
                        self._look_at(uid)
        finally:
            self._jobs.changed = lambda owner, job: None
            await self._queue.stop()

    def _mark(self, uid: str) -> None:
        self._dirty[uid] = None
        self._wake.set()

    def _told(self, uid: str, before: StarterFact | None, after: StarterFact | None) -> None:
        """An object changed, or is gone."""
        known = after or before
        if isinstance(known, JobTemplateFact):
            for flow in self.informers.flows.of_namespace(known.namespace):
                self._mark(flow.uid)
        if after is None:
            self._facts.pop(uid, None)
        else:
            self._facts[uid] = after
        self._mark(uid)

    def _job_changed(self, owner: str, job: OwnedJob) -> None:
        self._mark(owner)
        template = self.informers.templates.get((job.namespace, job.template))
        if template is not None:
            self._mark(template.uid)

    def _look_at(self, uid: str) -> None:
        fact, queue = self._facts.get(uid), self._queue
        if fact is None:
            queue.forget(uid)
            self.status.forget(uid)
            self._cron_jobs.forget(uid)
            self._flows.forget(uid)
            return
        if queue.is_under_way(uid):
            queue.requeue_when_finished(uid)
            return
        if queue.is_backing_off(uid):
            return
        if queue.is_full():
            queue.requeue_when_free(uid)
            return
        queue.start(uid, uid, partial(self._step, uid, fact), f"start jobs of {fact.namespace}/{fact.name}")

    async def _step(self, uid: str, fact: StarterFact) -> None:
        try:
            match fact:
                case CronJobFact():
                    look_again = await self._cron_jobs.step(fact, int(self._now()))
                    if look_again is not None:
                        pause = max(0.0, look_again - self._now()) + 0.01
                        self._queue.requeue_after(uid, min(LOOK_AT_LEAST_EVERY, pause))
                case JobFlowFact():
                    templates = self.informers.templates.of_namespace(fact.namespace)
                    specs: dict[str, dict[str, Any]] = {each.name: each.value.spec for each in templates}
                    probes = await self._flows.step(fact, specs)
                    if probes and not self._queue.is_under_way((uid, "probes")):
                        self._queue.start(
                            uid, (uid, "probes"), partial(self._probe, fact), f"probes of {fact.name}"
                        )
                case JobTemplateFact():
                    jobs = self._jobs.of_template(fact.namespace, fact.name)
                    self.status.keep(fact, {"jobDependsOnList": jobs} if jobs else {})
        except (ApiError, StartRefused) as error:
            told = {"object": f"{fact.namespace}/{fact.name}", "why": str(error)}
            _log.info("jobs not started or deleted, tried again", extra=told)
            self._queue.back_off(uid)
        else:
            self._queue.reset(uid)

    async def _probe(self, fact: JobFlowFact) -> None:
        """One round: what passes is looked at when the step has ended, what does not is asked again later."""
        if await self._flows.probe(fact):
            self._mark(fact.uid)
        else:
            self._queue.requeue_after(fact.uid, PROBE_EVERY)
