"""Creates and deletes Volcano Jobs for their CronJob or JobFlow, and says why one cannot be created."""

import logging
from collections.abc import Callable

from admission.job_starts.owned_jobs import OwnedJob, owned_job
from admission.kube.client.client import Client
from queues.api.api_resources import VOLCANO_JOBS
from queues.api.schedules.made_jobs import Document, made_job_violations, signed
from queues.errors import ApiRefused, Conflict, MusterError, NotFound

_log = logging.getLogger(__name__)


class StartRefused(MusterError):
    """A Job was not created."""


class JobRefused(StartRefused):
    """Job {name} cannot be created: {why}."""


class ForeignJob(StartRefused):
    """Job {name} exists but is not owned by this {kind}. Delete it, or give the {kind} another name."""


class JobWriter:
    """Each Job is created once: its name says what it is for, and one that exists counts if it is the owner's."""

    def __init__(self, client: Client, check_lease: Callable[[], None]) -> None:
        self._client = client
        self._check_lease = check_lease

    @staticmethod
    def require_valid(job: Document) -> None:
        """Raises JobRefused for a Job that the webhook would refuse: it is not asked about what Muster creates."""
        wrong = next((each for each in made_job_violations(job) if not each.tolerable), None)
        if wrong is not None:
            raise JobRefused(name=job["metadata"]["name"], why=wrong.message.strip().rstrip(";."))

    async def create(self, job: Document, *, user: str) -> tuple[OwnedJob | None, bool]:
        """The Job as it is now, and whether it was made just now.

        ``user``: who asked for it; "": not known. The Job must be valid. Raises StartRefused, other ApiErrors, Fenced.
        """
        metadata = job["metadata"]
        path = VOLCANO_JOBS.path(metadata["namespace"])
        try:
            content = await self._client.create(path, signed(job, user), check_lease=self._check_lease)
            return owned_job(content), True
        except Conflict as error:
            if error.facts.get("code") != "AlreadyExists":
                raise
        except ApiRefused as error:
            raise JobRefused(name=metadata["name"], why=str(error.facts.get("reason"))) from error
        owner = metadata["ownerReferences"][0]
        found = owned_job(await self._client.get(VOLCANO_JOBS.path(metadata["namespace"], metadata["name"])))
        if found is None or found.owner != owner["uid"]:
            raise ForeignJob(name=metadata["name"], kind=owner["kind"])
        return found, False

    async def delete(self, job: OwnedJob) -> bool:
        """Delete a Job with its pods; False: it was gone. Raises ApiError, Fenced."""
        try:
            await self._client.delete(
                VOLCANO_JOBS.path(job.namespace, job.name),
                uid=job.uid,
                propagation="Background",
                check_lease=self._check_lease,
            )
        except (NotFound, Conflict):
            return False  # gone, or another one has its name
        return True
