"""A JobFlow as its controller sees it, and when a flow's dependencies are met. Pure.

A target is met when its Job is completed. A probe that names a task of the target says otherwise: the target is met
when its probes pass, also while it runs. A completed Job has no pods left that could answer, so it meets probes of
HTTP and TCP; the phases of its tasks stay to be asked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from admission.job_starts.owned_jobs import OwnedJob
from queues.api.names import USER
from queues.api.schedules.job_flow_rules import job_flow_violations
from queues.api.schedules.made_jobs import Document
from queues.api.types.job_flow import (
    Flow,
    HttpGetProbe,
    JobFlow,
    JobFlowSpec,
    TaskStatusProbe,
    TcpSocketProbe,
)
from queues.api.types.volcano_job import JobPhase
from queues.api.validation.violations import of_model
from queues.text_format import counted

#: Phases of a JobFlow after which it starts nothing more.
OVER: Final = ("Succeed", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlowFact:
    """A JobFlow, as the API server has it."""

    namespace: str
    name: str
    uid: str
    spec: JobFlowSpec = field(default_factory=JobFlowSpec)
    deleting: bool = False
    #: Its status.
    status: Document = field(default_factory=dict)
    #: The user who created it; "": not known.
    user: str = ""
    #: Why nothing can be started; "": it can.
    problem: str = ""

    @property
    def phase(self) -> str:
        """The phase that its status says; "": none yet."""
        state = self.status.get("state")
        return str(state.get("phase") or "") if isinstance(state, Mapping) else ""

    def job_name(self, flow: str) -> str:
        """The name of the Job of a flow."""
        return f"{self.name}-{flow}"

    def completed(self) -> frozenset[str]:
        """Jobs that its status calls completed: they count, also when they are gone."""
        entries = self.status.get("jobStatusList")
        return frozenset(
            str(entry.get("name"))
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, Mapping) and entry.get("state") == JobPhase.COMPLETED
        )


def job_flow_fact(document: Document) -> JobFlowFact:
    """A JobFlow's document as a value. What cannot be read becomes its problem."""
    metadata = document.get("metadata") or {}
    fact: dict[str, Any] = {
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
        "deleting": metadata.get("deletionTimestamp") is not None,
        "status": document.get("status") or {},
        "user": (metadata.get("annotations") or {}).get(USER, ""),
    }
    try:
        flow = JobFlow.parse({"metadata": {"name": fact["name"]}, "spec": document.get("spec") or {}})
    except ValidationError as error:
        return JobFlowFact(**fact, problem=of_model(error)[0].message)
    wrong = next((each.message.strip() for each in job_flow_violations(flow) if not each.tolerable), "")
    return JobFlowFact(**fact, spec=flow.spec, problem=wrong)


@dataclass(frozen=True, slots=True)
class NetworkProbe:
    """Pods of a task that are asked, and what."""

    #: The Job, its uid and its task; so many pods have to pass.
    job: str
    uid: str
    task: str
    needed: int
    #: HTTP if there is a path; else TCP.
    port: int
    path: str = ""
    #: Name and value of one header.
    header: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What one flow still waits for."""

    met: bool
    #: For people; "": nothing.
    waits_for: str = ""
    #: Probes that decide whether it may start.
    probes: tuple[NetworkProbe, ...] = ()


def dependencies_of(
    fact: JobFlowFact, flow: Flow, jobs: Mapping[str, OwnedJob], passed: frozenset[NetworkProbe]
) -> Dependencies:
    """Whether a flow may start. ``jobs``: by name; ``passed``: probes that passed."""
    depends_on = flow.depends_on
    if depends_on is None or not flow.targets:
        return Dependencies(met=True)
    judged = [_target(fact, flow, fact.job_name(name), jobs, passed) for name in flow.targets]
    open_ = [each for each in judged if not each.met]
    probes = tuple(probe for each in open_ for probe in each.probes)
    met = not open_ if depends_on.strategy == "all" else len(open_) < len(judged)
    if stray := _unknown_task(fact, flow, jobs):
        told = f"found no task {stray} in any of its targets, expected the name of one in dependsOn.probe"
        return Dependencies(met=False, waits_for=told)
    joined = ("; " if depends_on.strategy == "all" else "; or ").join(each.waits_for for each in open_)
    return Dependencies(met=met, waits_for="" if met else joined, probes=() if met else probes)


def _target(
    fact: JobFlowFact, flow: Flow, name: str, jobs: Mapping[str, OwnedJob], passed: frozenset[NetworkProbe]
) -> Dependencies:
    job = jobs.get(name)
    if job is None:
        recorded = name in fact.completed()
        return Dependencies(
            met=recorded, waits_for="" if recorded else f"Job {name}, which does not exist yet"
        )
    statuses = [each for each in _status_probes(flow) if each.task_name in job.tasks]
    network = [each for each in _network_probes(flow, job) if each.task in job.tasks]
    if not (statuses or network):
        met = job.phase == JobPhase.COMPLETED
        told = "" if met else f"Job {name} to be completed; it is {job.phase or 'new'}"
        return Dependencies(met=met, waits_for=told)
    open_ = [each for each in statuses if not _has_phase(job, each)]
    unanswered = (
        () if job.phase == JobPhase.COMPLETED else tuple(each for each in network if each not in passed)
    )
    awaited = [f"the pods of task {each.task_name} of Job {name} to be {each.phase}" for each in open_]
    awaited += [_told(each) for each in unanswered]
    return Dependencies(met=not awaited, waits_for="; ".join(awaited), probes=unanswered)


def _told(probe: NetworkProbe) -> str:
    pods = counted(probe.needed, "pod")
    what = f"answer HTTP at {probe.port}{probe.path}" if probe.path else f"accept connections at {probe.port}"
    return f"{pods} of task {probe.task} of Job {probe.job} to {what}"


def _status_probes(flow: Flow) -> tuple[TaskStatusProbe, ...]:
    probe = flow.depends_on.probe if flow.depends_on is not None else None
    return probe.task_status_list if probe is not None else ()


def _network_probes(flow: Flow, job: OwnedJob) -> Iterator[NetworkProbe]:
    probe = flow.depends_on.probe if flow.depends_on is not None else None
    if probe is None:
        return
    probes: list[HttpGetProbe | TcpSocketProbe] = [*probe.http_get_list, *probe.tcp_socket_list]
    for each in probes:
        needed = max(1, job.tasks.get(each.task_name, 1))
        yield _network_probe(job, each, needed)


def _network_probe(job: OwnedJob, probe: HttpGetProbe | TcpSocketProbe, needed: int) -> NetworkProbe:
    if isinstance(probe, TcpSocketProbe):
        return NetworkProbe(job.name, job.uid, probe.task_name, needed, probe.port)
    header = probe.http_header
    pair = (str(header["name"]), str(header.get("value", ""))) if header and header.get("name") else None
    return NetworkProbe(job.name, job.uid, probe.task_name, needed, probe.port, probe.path or "/", pair)


def _has_phase(job: OwnedJob, probe: TaskStatusProbe) -> bool:
    """Whether the pods of a task are in the phase: all that have to be there, and none is in another one."""
    counts = {phase: count for phase, count in job.counts.get(probe.task_name, {}).items() if count > 0}
    enough = {probe.phase, "Succeeded"} if probe.phase == "Running" else {probe.phase}
    reached = sum(count for phase, count in counts.items() if phase in enough)
    return counts.keys() <= enough and reached >= max(1, job.tasks.get(probe.task_name, 1))


def _unknown_task(fact: JobFlowFact, flow: Flow, jobs: Mapping[str, OwnedJob]) -> str:
    """The name of a task in a probe that no target has; "": there is none, or not all targets exist yet."""
    found = [jobs.get(fact.job_name(name)) for name in flow.targets]
    existing = [job for job in found if job is not None]
    probe = flow.depends_on.probe if flow.depends_on is not None else None
    if probe is None or len(existing) < len(found):
        return ""
    known = {task for job in existing for task in job.tasks}
    named = [each.task_name for each in probe.http_get_list]
    named += [each.task_name for each in probe.tcp_socket_list]
    named += [each.task_name for each in probe.task_status_list]
    return next((name for name in named if name not in known), "")
