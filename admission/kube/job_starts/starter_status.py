"""Statuses and events of CronJobs, JobFlows and JobTemplates."""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from admission.job_starts.cron_job_steps import CronJobFact
from admission.job_starts.job_flow import JobFlowFact
from admission.kube.client.client import Client
from admission.kube.job_starts.watched_kinds import JobTemplateFact, StarterFact
from admission.kube.writers.events import EventWriter
from admission.kube.writers.status import StatusWriter
from admission.reconcile.status import EventNote, StatusCondition, StatusWanted, merge_patch
from queues.api.api_resources import JOB_FLOWS, JOB_TEMPLATES, VOLCANO_CRON_JOBS, ObjectRef
from queues.api.schedules.made_jobs import Document

#: Type of a CronJob's condition: False while no Job can be started.
READY: Final = "Ready"
_RESOURCES: Final = {
    CronJobFact: VOLCANO_CRON_JOBS,
    JobFlowFact: JOB_FLOWS,
    JobTemplateFact: JOB_TEMPLATES,
}


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
        wanted = StatusWanted(ref=_ref(fact), fields=fields, conditions=(condition,), shown=shown)
        self._status.submit([wanted])

    def keep(self, fact: JobFlowFact | JobTemplateFact, fields: Document) -> None:
        """What the status of a JobFlow or JobTemplate should say."""
        shown = not merge_patch(fact.status, fields)
        self._status.submit([StatusWanted(ref=_ref(fact), fields=fields, shown=shown)])

    def tell(self, fact: StarterFact, reason: str, message: str, *, warning: bool = False) -> None:
        """An event; the same message for the same reason is reported once until another one comes."""
        told = self._last.setdefault(fact.uid, {})
        if told.get(reason) == message:
            return
        told[reason] = message
        note = EventNote(ref=_ref(fact), reason=reason, message=message, action="Start", warning=warning)
        self._events.forget([fact.uid])
        self._events.tell(note)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._last.pop(uid, None)
        self._status.forget([uid])
        self._events.forget([uid])


def _ref(fact: StarterFact) -> ObjectRef:
    return ObjectRef(resource=_RESOURCES[type(fact)], namespace=fact.namespace, name=fact.name, uid=fact.uid)
