"""Carries out what follows for a JobFlow: Jobs are started in order, probed and deleted, and its status is kept."""

from collections.abc import Callable, Mapping
from typing import Any

from admission.job_starts.job_flow import JobFlowFact, NetworkProbe
from admission.job_starts.job_flow_steps import FlowStep, step
from admission.kube.client.client import Client
from admission.kube.job_starts.job_writer import ForeignJob, JobWriter, StartRefused
from admission.kube.job_starts.probes import passing
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.job_starts.starter_status import StarterStatus
from queues.api.schedules.made_jobs import Document
from queues.text_format import listed


class FlowStarts:
    """One step at a time for each JobFlow."""

    def __init__(
        self,
        client: Client,
        writer: JobWriter,
        jobs: StartedJobs,
        status: StarterStatus,
        namespace_queues: Callable[[], Mapping[str, str]],
    ) -> None:
        self._client = client
        self._writer = writer
        self._jobs = jobs
        self._status = status
        self._namespace_queues = namespace_queues
        #: Uid → probes that passed, and those that are asked.
        self._passed: dict[str, frozenset[NetworkProbe]] = {}
        self._asked: dict[str, tuple[NetworkProbe, ...]] = {}
        #: Uid → Job → why it could not be created the last time.
        self._refused: dict[str, dict[str, str]] = {}

    async def step(
        self, flow: JobFlowFact, templates: Mapping[str, dict[str, Any]]
    ) -> tuple[NetworkProbe, ...]:
        """Do what is due. ``templates``: specs of the JobTemplates of its namespace, by name.

        Returns the probes to be asked. Raises StartRefused, ApiError, Fenced.
        """
        found = self._found(flow, templates)
        for ended in found.deleted:
            await self._writer.delete(ended)
        refusal: StartRefused | None = None
        made: list[str] = []
        for job in found.starts:
            try:
                made += await self._start(flow, job)
            except StartRefused as error:
                refusal = error  # the others are started all the same
        if made:
            told = f"create a job named {made[0]}!" if len(made) == 1 else f"created jobs {listed(made, 10)}"
            self._status.tell(flow, "Created", told)
        after = self._found(flow, templates)
        self._status.keep(flow, after.status)
        self._asked[flow.uid] = after.probes
        if refusal is not None:
            raise refusal  # tried again
        return after.probes

    def _found(self, flow: JobFlowFact, templates: Mapping[str, dict[str, Any]]) -> FlowStep:
        return step(
            flow,
            {job.name: job for job in self._jobs.of_owner(flow.uid)},
            templates,
            passed=self._passed.get(flow.uid, frozenset()),
            refused=self._refused.get(flow.uid, {}),
            namespace_queue=self._namespace_queues().get(flow.namespace),
        )

    async def _start(self, flow: JobFlowFact, document: Document) -> list[str]:
        """Start the Job of a flow; its name, if it was made just now."""
        name = document["metadata"]["name"]
        refused = self._refused.setdefault(flow.uid, {})
        try:
            self._writer.require_valid(document)
            job, made = await self._writer.create(document, user=flow.user)
        except StartRefused as error:
            reason = "ForeignJob" if isinstance(error, ForeignJob) else "FailedCreate"
            self._status.tell(flow, reason, str(error), warning=True)
            refused[name] = str(error)
            raise
        refused.pop(name, None)
        if job is not None:
            self._jobs.hand_in(job)
        return [name] if made else []

    async def probe(self, flow: JobFlowFact) -> bool:
        """Ask the probes that were wanted last, once. Whether one passed."""
        passed = await passing(self._client, flow.namespace, self._asked.get(flow.uid, ()))
        self._passed[flow.uid] = self._passed.get(flow.uid, frozenset()) | passed
        return bool(passed)

    def forget(self, uid: str) -> None:
        """The JobFlow is gone."""
        for known in (self._passed, self._asked, self._refused):
            known.pop(uid, None)
