"""The informers of CronJobs, JobFlows and JobTemplates: they start Jobs, and are no facts of the world."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.job_starts.cron_job_steps import CronJobFact, cron_job_fact
from admission.job_starts.job_flow import JobFlowFact, job_flow_fact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer, Timing
from admission.kube.watch.store import ObjectChange, ObjectsByPlace, WatchedKind
from admission.wire import Bare
from queues.api.api_resources import JOB_FLOWS, JOB_TEMPLATES, VOLCANO_CRON_JOBS, ApiResource
from queues.api.schedules.made_jobs import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplateFact:
    """A JobTemplate."""

    namespace: str
    name: str
    uid: str
    spec: Document
    status: Document


_TIMING: Final = Timing()

#: What is kept of each kind.
StarterFact = CronJobFact | JobFlowFact | JobTemplateFact
#: Called with the uid of an object that changed or is gone, and what it was and is.
Told = Callable[[str, StarterFact | None, StarterFact | None], None]


def template_fact(document: Document) -> JobTemplateFact:
    """A JobTemplate's document as a value. What is wrong with it is shown on the JobFlows that use it."""
    metadata = document.get("metadata") or {}
    return JobTemplateFact(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        spec=document.get("spec") or {},
        status=document.get("status") or {},
    )


_FACTS: Final[tuple[tuple[str, ApiResource, Callable[[Document], StarterFact]], ...]] = (
    ("volcano-cronjobs", VOLCANO_CRON_JOBS, cron_job_fact),
    ("jobtemplates", JOB_TEMPLATES, template_fact),
    ("jobflows", JOB_FLOWS, job_flow_fact),
)


class StarterInformers:
    """Watches the three kinds. A cluster whose definitions are older than Muster does not serve them: none exists."""

    def __init__(self, client: Client, told: Told, timing: Timing = _TIMING) -> None:
        self._told = told
        self.by_name: dict[str, Informer[Any, Any]] = {
            name: Informer(client, _kind(name, resource, fact), self._deliver, timing)
            for name, resource, fact in _FACTS
        }
        self.templates: ObjectsByPlace[JobTemplateFact] = self.by_name["jobtemplates"].collection.kept
        self.flows: ObjectsByPlace[JobFlowFact] = self.by_name["jobflows"].collection.kept

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run every informer as a task of the group."""
        for name, informer in self.by_name.items():
            tasks.create_task(informer.run(), name=f"informer {name}")

    async def all_synced(self) -> None:
        """Wait until the first LIST of every kind is reconciled."""
        for informer in self.by_name.values():
            await informer.synced.wait()

    def _deliver(self, shifts: list[ObjectChange[Any]]) -> None:
        for shift in shifts:
            self._told(shift.uid, shift.before, shift.after)


def _kind(
    name: str, resource: ApiResource, fact: Callable[[Document], StarterFact]
) -> WatchedKind[Bare, StarterFact]:
    return WatchedKind(
        name=name,
        resource=resource,
        struct=Bare,
        translate=lambda bare, raw: fact(msgspec.json.decode(raw)),
        may_be_absent=True,
    )
