"""Statuses and events of CronJobs, JobFlows and JobTemplates."""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from admission.job_starts.cron_job_steps import CronJobFact
from admission.job_starts.job_flow import JobFlowFact
from admission.kube.client.client import Client
from admission.kube.job_starts.watched_kinds import JobTemplateFact
from admission.kube.writers.events import EventWriter
from admission.kube.writers.status import StatusWriter
from admission.reconcile.status import EventNote, StatusCondition, StatusWanted, merge_patch
from queues.api.api_resources import JOB_FLOWS, JOB_TEMPLATES, VOLCANO_CRON_JOBS, ApiResource, ObjectRef
from queues.api.schedules.made_jobs import Document

#: Type of a CronJob's condition: False while no Job can be started.
READY: Final = "Ready"
#: Names in a status that are kept for a JobTemplate.
_JOBS: Final = "jobDependsOnList"


class StarterStatus:
    """Hands what should be said to the writers of statuses and events."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        *,
        instance: str,
        busy: Callable[[], bool],
    ) -> None:
        self._status = StatusWriter(client, check_lease, busy=busy)
        self._events = EventWriter(client, check_lease, instance=instance, busy=busy)
        #: Uid → what was reported last for each reason: the same is not reported twice.
        self._last: dict[str, dict[str, str]] = {}

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run the writers as tasks of the group."""
        tasks.create_task(self._status.run(), name="statuses of CronJobs and JobFlows")
        tasks.create_task(self._events.run(), name="events of CronJobs and JobFlows")

    def of_cron_job(self, fact: CronJobFact, fields: Document, problem: str, reason: str) -> None:
        """What the status of a CronJob should say. ``problem``: why no Job can be started; "": one can."""
        status: Literal["True", "False"] = "False" if problem else "True"
        condition = StatusCondition(
            type=READY, status=status, reason=reason if problem else "", message=problem, quiet=not problem
        )
        before = {key: value for key, value in fact.status.items() if key != "conditions"}
        shown = not problem and before == fields and not fact.status.get("conditions")
        ref = _ref(VOLCANO_CRON_JOBS, fact)
        self._submit(StatusWanted(ref=ref, fields=fields, conditions=(condition,), shown=shown))

    def of_flow(self, fact: JobFlowFact, fields: Document) -> None:
        """What the status of a JobFlow should say."""
        shown = not merge_patch(fact.status, fields)
        self._submit(StatusWanted(ref=_ref(JOB_FLOWS, fact), fields=fields, shown=shown))

    def of_template(self, fact: JobTemplateFact, jobs: list[str]) -> None:
        """The Jobs that were made from a JobTemplate."""
        fields: Document = {_JOBS: jobs} if jobs else {}
        shown = not merge_patch(fact.status, fields)
        self._submit(StatusWanted(ref=_ref(JOB_TEMPLATES, fact), fields=fields, shown=shown))

    def _submit(self, wanted: StatusWanted) -> None:
        self._status.submit([wanted])

    def tell(
        self,
        fact: CronJobFact | JobFlowFact,
        reason: str,
        message: str,
        *,
        action: str,
        warning: bool = False,
    ) -> None:
        """An event; the same message for the same reason is reported once until another one comes."""
        told = self._last.setdefault(fact.uid, {})
        if told.get(reason) == message:
            return
        told[reason] = message
        resource = VOLCANO_CRON_JOBS if isinstance(fact, CronJobFact) else JOB_FLOWS
        note = EventNote(
            ref=_ref(resource, fact), reason=reason, message=message, action=action, warning=warning
        )
        self._events.forget([fact.uid])
        self._events.tell(note)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._last.pop(uid, None)
        self._status.forget([uid])
        self._events.forget([uid])


def _ref(resource: ApiResource, fact: CronJobFact | JobFlowFact | JobTemplateFact) -> ObjectRef:
    return ObjectRef(resource=resource, namespace=fact.namespace, name=fact.name, uid=fact.uid)
