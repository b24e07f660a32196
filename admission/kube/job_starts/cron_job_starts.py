"""Carries out what follows for a CronJob: Jobs are started, replaced and deleted, and its status is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from admission.job_starts.cron_job_steps import CronJobFact, job_document, status_of, step
from admission.job_starts.owned_jobs import OwnedJob
from admission.kube.job_starts.job_writer import ForeignJob, JobWriter, StartRefused
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.job_starts.starter_status import StarterStatus
from queues.reason_codes import ReasonCode


class CronJobStarts:
    """One step at a time for each CronJob."""

    def __init__(
        self,
        writer: JobWriter,
        jobs: StartedJobs,
        status: StarterStatus,
        namespace_queues: Callable[[], Mapping[str, str]],
    ) -> None:
        self._writer = writer
        self._jobs = jobs
        self._status = status
        self._namespace_queues = namespace_queues
        #: Uid → the last time for which a Job was started, or could not be, in this term.
        self._handled: dict[str, int] = {}
        #: Uid → why the last Job could not be made.
        self._problems: dict[str, str] = {}

    async def step(self, cron: CronJobFact, now: int) -> int | None:
        """Do what is due. When to look again, in seconds since the epoch; None if only when something changes.

        Raises StartRefused, ApiError, Fenced.
        """
        jobs = self._jobs.of_owner(cron.uid)
        known = replace(cron, last_scheduled=self._last(cron))
        found = step(known, jobs, now)
        for note in found.notes:
            self._status.tell(cron, note.reason, note.message, warning=note.warning)
        self._tell_of_ended(cron, jobs)
        try:
            if found.start is not None:
                await self._start(cron, found.start, found.replaced)
        finally:
            self._tell_status(cron)
        for job in found.outdated:
            await self._delete(cron, job, "the history is longer than its limit")
        return found.look_again

    def _last(self, cron: CronJobFact) -> int | None:
        times = (cron.last_scheduled, self._handled.get(cron.uid))
        return max((time for time in times if time is not None), default=None)

    async def _start(self, cron: CronJobFact, due: int, replaced: Sequence[OwnedJob]) -> None:
        document = job_document(cron, due, namespace_queue=self._namespace_queues().get(cron.namespace))
        try:
            self._writer.require_valid(document)
            for each in replaced:
                await self._delete(cron, each, "another start is due")
            job, made = await self._writer.create(document, user=cron.user)
        except StartRefused as error:
            is_foreign = isinstance(error, ForeignJob)
            reason = "ForeignJob" if is_foreign else "FailedCreate"
            self._status.tell(cron, reason, str(error), warning=True)
            self._problems[cron.uid] = str(error)
            if not is_foreign:
                raise  # tried again, until the deadline or the next time
        else:
            self._problems.pop(cron.uid, None)
            if job is not None:
                self._jobs.hand_in(job)
            if made:
                self._status.tell(cron, "SuccessfulCreate", f"Created job {document['metadata']['name']}")
        self._handled[cron.uid] = max(due, self._handled.get(cron.uid, 0))

    async def _delete(self, cron: CronJobFact, job: OwnedJob, why: str) -> None:
        if await self._writer.delete(job):
            self._status.tell(cron, "SuccessfulDelete", f"Deleted job {job.name}: {why}")

    def _tell_of_ended(self, cron: CronJobFact, jobs: Sequence[OwnedJob]) -> None:
        for job in jobs:
            if job.ended and job.uid in cron.active:
                told = f"Saw completed job: {job.name}, condition: {job.phase}"
                self._status.tell(cron, "SawCompletedJob", told)

    def _tell_status(self, cron: CronJobFact) -> None:
        problem = cron.problem or self._problems.get(cron.uid, "")
        reason = ReasonCode.INVALID_SPEC.value if cron.problem else "FailedCreate"
        fields = status_of(cron, self._jobs.of_owner(cron.uid))
        self._status.of_cron_job(cron, fields, problem, reason)

    def forget(self, uid: str) -> None:
        """The CronJob is gone."""
        self._handled.pop(uid, None)
        self._problems.pop(uid, None)
