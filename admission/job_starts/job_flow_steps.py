"""What follows for a JobFlow now: Jobs to start or to delete, probes to ask, and its status. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.job_starts.job_flow import OVER, JobFlowFact, NetworkProbe, dependencies_of
from admission.job_starts.owned_jobs import OwnedJob
from queues.api.names import CREATED_BY_FLOW, CREATED_BY_TEMPLATE, FLOW_VOLCANO
from queues.api.schedules.job_patch import spec_for
from queues.api.schedules.made_jobs import Document, made_job
from queues.api.types.job_flow import Flow
from queues.api.types.volcano_job import JobPhase
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339

#: Characters of a label's value.
_LONGEST_LABEL: Final = 63
#: Entries of ``runningHistories`` of one Job.
_MOST_HISTORY: Final = 20

#: Phase of a Job → the list of the status that names it; every other phase is in ``unKnowJobs``.
_LISTS: Final[Mapping[str, str]] = {
    JobPhase.PENDING: "pendingJobs",
    JobPhase.RUNNING: "runningJobs",
    JobPhase.COMPLETING: "completedJobs",
    JobPhase.COMPLETED: "completedJobs",
    JobPhase.TERMINATING: "terminatedJobs",
    JobPhase.TERMINATED: "terminatedJobs",
    JobPhase.FAILED: "failedJobs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """What follows for a JobFlow."""

    #: Jobs to be started.
    starts: tuple[Document, ...] = ()
    #: Probes that are asked, again and again, until they pass.
    probes: tuple[NetworkProbe, ...] = ()
    #: Jobs that ended and are not kept.
    deleted: tuple[OwnedJob, ...] = ()
    status: Document


def step(
    fact: JobFlowFact,
    jobs: Mapping[str, OwnedJob],
    templates: Mapping[str, Document],
    *,
    passed: frozenset[NetworkProbe] = frozenset(),
    refused: Mapping[str, str] = {},
    namespace_queue: str | None = None,
) -> FlowStep:
    """What follows for a JobFlow and its Jobs.

    ``jobs``: those that it controls, by name; ``templates``: specs of the JobTemplates of its namespace, by name;
    ``passed``: probes that passed; ``refused``: Job → why it could not be created the last time.
    """
    phase = _phase(fact, jobs)
    starts: list[Document] = []
    probes: dict[NetworkProbe, None] = {}
    waiting: dict[str, str] = {}
    for flow in fact.spec.flows:
        name = fact.job_name(flow.name)
        if name in jobs or name in fact.completed():
            continue
        if fact.problem or fact.deleting or phase in OVER:
            waiting[name] = fact.problem or f"nothing more: the JobFlow is {phase or 'being deleted'}"
            continue
        needs = dependencies_of(fact, flow, jobs, passed)
        probes |= dict.fromkeys(needs.probes)
        if not needs.met:
            waiting[name] = needs.waits_for
        elif flow.name not in templates:
            waiting[name] = f"JobTemplate {flow.name}, which does not exist"
        else:
            waiting[name] = refused.get(name, "")
            starts.append(_job(fact, flow, templates[flow.name], namespace_queue))
    return FlowStep(
        starts=tuple(starts),
        probes=tuple(probes),
        deleted=_deleted(fact, jobs),
        status=_status(fact, phase, jobs, waiting),
    )


def _deleted(fact: JobFlowFact, jobs: Mapping[str, OwnedJob]) -> tuple[OwnedJob, ...]:
    """With jobRetainPolicy delete all Jobs go once the status says that the JobFlow succeeded."""
    if fact.spec.job_retain_policy != "delete" or fact.phase != "Succeed" or fact.problem:
        return ()
    return tuple(job for _, job in sorted(jobs.items()) if not job.deleting)


def _phase(fact: JobFlowFact, jobs: Mapping[str, OwnedJob]) -> str:
    if fact.deleting:
        return "Terminating"
    if fact.phase in OVER:
        return fact.phase
    names = [fact.job_name(flow.name) for flow in fact.spec.flows]
    phases = [jobs[name].phase if name in jobs else "" for name in names]
    if any(phase in (JobPhase.FAILED, JobPhase.TERMINATED) for phase in phases):
        return "Failed"
    recorded = fact.completed()
    done = [
        phase == JobPhase.COMPLETED or (name in recorded and name not in jobs)
        for name, phase in zip(names, phases, strict=True)
    ]
    if done and all(done):
        return "Succeed"
    has_run = any(done) or any(phase in (JobPhase.RUNNING, JobPhase.COMPLETING) for phase in phases)
    return "Running" if has_run or fact.phase == "Running" else "Pending"


def _job(fact: JobFlowFact, flow: Flow, template: Document, namespace_queue: str | None) -> Document:
    created_by = {
        CREATED_BY_TEMPLATE: f"{fact.namespace}.{flow.name}",
        CREATED_BY_FLOW: f"{fact.namespace}.{fact.name}",
    }
    owner = {
        "apiVersion": FLOW_VOLCANO,
        "kind": "JobFlow",
        "name": fact.name,
        "uid": fact.uid,
        "controller": True,
    }
    metadata = {
        "name": fact.job_name(flow.name),
        "namespace": fact.namespace,
        "labels": {key: value for key, value in created_by.items() if len(value) <= _LONGEST_LABEL},
        "annotations": created_by,
        "ownerReferences": [owner],
    }
    return made_job(metadata, spec_for(flow, template), namespace_queue=namespace_queue)


def _status(
    fact: JobFlowFact, phase: str, jobs: Mapping[str, OwnedJob], waiting: Mapping[str, str]
) -> Document:
    names = [fact.job_name(flow.name) for flow in fact.spec.flows]
    # Jobs of flows that were taken out of the spec still count among the Jobs of the status.
    names += sorted(jobs.keys() - set(names))
    recorded = fact.completed()
    fields: dict[str, Any] = {"state": {"phase": phase}}
    for name in names:
        job = jobs.get(name)
        if job is not None:
            fields.setdefault(_LISTS.get(job.phase or JobPhase.PENDING, "unKnowJobs"), []).append(name)
        elif name in recorded:
            fields.setdefault("completedJobs", []).append(name)
    if entries := _entries(fact, [jobs[name] for name in names if name in jobs]):
        fields["jobStatusList"] = entries
    conditions = {name: _condition(jobs.get(name), waiting.get(name, "")) for name in names}
    shown = {name: condition for name, condition in conditions.items() if condition}
    if fact.problem:
        shown[fact.name] = {
            "phase": "Waiting",
            "reason": ReasonCode.INVALID_SPEC.value,
            "message": fact.problem,
        }
    fields["conditions"] = shown
    return fields


def _condition(job: OwnedJob | None, waits_for: str) -> Document:
    """What the status shows of a flow's Job; {} for nothing."""
    if job is None:
        return {"phase": "Waiting", "message": f"waits for {waits_for}"} if waits_for else {}
    told: Document = {"phase": job.phase or JobPhase.PENDING.value, "createTime": rfc3339(job.created)}
    if job.running_duration:
        told["runningDuration"] = job.running_duration
    if job.counts:
        told["taskStatusCount"] = {name: {"phase": dict(counts)} for name, counts in job.counts.items()}
    return told


def _entries(fact: JobFlowFact, jobs: Sequence[OwnedJob]) -> list[Document]:
    """``jobStatusList``: entries of Jobs that are gone stay."""
    before = fact.status.get("jobStatusList")
    known: dict[str, Document] = {
        str(entry.get("name")): dict(entry)
        for entry in (before if isinstance(before, list) else ())
        if isinstance(entry, Mapping)
    }
    return list((known | {job.name: _entry(job, known.get(job.name, {})) for job in jobs}).values())


def _entry(job: OwnedJob, before: Mapping[str, Any]) -> Document:
    started = rfc3339(job.created)
    entry: Document = {
        "name": job.name,
        "state": job.phase or JobPhase.PENDING.value,
        "startTimestamp": started,
    }
    if job.ended and job.changed:
        entry["endTimestamp"] = rfc3339(job.changed)
    if job.retries:
        entry["restartCount"] = job.retries
    histories = before.get("runningHistories") if before.get("startTimestamp") == started else None
    history = [dict(each) for each in histories if isinstance(each, Mapping)] if histories else []
    if job.phase and (not history or history[-1].get("state") != job.phase):
        since = rfc3339(job.changed or job.created)
        if history:
            history[-1]["endTimestamp"] = since
        history.append({"startTimestamp": since, "state": job.phase})
    if history:
        entry["runningHistories"] = history[-_MOST_HISTORY:]
    return entry
