"""Volcano's JobFlow, flow.volcano.sh/v1alpha1: Jobs that start after one another.

Field names and defaults are Volcano's. ``dependsOn.strategy`` and ``patch.spec`` are in its documentation only, and
``patch.jobSpec`` is in its definition only; here all of them count.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Model, OpenModel, Text, at_most
from queues.api.names import FLOW_VOLCANO
from queues.api.reading.user_values import MOST_POD_SETS
from queues.api.types.volcano_job import Whole

#: Entries of one JobFlow, targets of one dependency, and probes of it.
MOST_FLOWS = 256

Port = Annotated[int, Field(ge=0, le=65535, strict=True)]
TaskName = Annotated[Text, Field(max_length=253)]


class HttpGetProbe(OpenModel):
    """The pods of a task answer a GET with a status of 200 to 399."""

    #: Name of the task.
    task_name: TaskName = ""
    #: Path of the GET.
    path: Text = ""
    #: Port of its pods.
    port: Port = 0
    #: Name and value of one header.
    http_header: Whole | None = None


class TcpSocketProbe(OpenModel):
    """The pods of a task accept connections at a port."""

    #: Name of the task.
    task_name: TaskName = ""
    #: Port of its pods.
    port: Port


class TaskStatusProbe(OpenModel):
    """All pods of a task are in a phase."""

    #: Name of the task.
    task_name: TaskName = ""
    #: A pod's phase; the probe of Running is met by pods that have succeeded, too.
    phase: Annotated[Text, Field(max_length=63)] = ""


class FlowProbe(OpenModel):
    """When a target counts as ready that need not end for it."""

    #: Tasks that answer requests.
    http_get_list: Annotated[tuple[HttpGetProbe, ...], at_most(MOST_FLOWS)] = ()
    #: Tasks that accept connections.
    tcp_socket_list: Annotated[tuple[TcpSocketProbe, ...], at_most(MOST_FLOWS)] = ()
    #: Tasks with pods in a phase.
    task_status_list: Annotated[tuple[TaskStatusProbe, ...], at_most(MOST_POD_SETS)] = ()


class FlowDependsOn(OpenModel):
    """The flows that come before."""

    #: Names of the flows that come before.
    targets: Annotated[tuple[Text, ...], at_most(MOST_FLOWS)] = ()
    #: When they count as ready before they have ended.
    probe: FlowProbe | None = None
    #: Whether all targets have to be met, or one of them.
    strategy: Literal["all", "any"] = "all"


class FlowPatch(OpenModel):
    """Changes of the JobTemplate's spec, for this flow. Without defaults: what is not written stays."""

    #: Changes of the spec.
    job_spec: Whole | None = None
    #: Changes of the spec, by the name in Volcano's documentation.
    spec: Whole | None = None

    def changes(self) -> tuple[dict[str, Any], ...]:
        """What is written, in the order in which it counts."""
        return tuple(part for part in (self.spec, self.job_spec) if part)


class Flow(OpenModel):
    """One Job of a JobFlow: the name of its JobTemplate, and what comes before it."""

    #: Name of the JobTemplate.
    name: Annotated[Text, Field(json_schema_extra={"minLength": 1})]
    #: What comes before it.
    depends_on: FlowDependsOn | None = None
    #: Changes of the JobTemplate for this flow.
    patch: FlowPatch | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the flows that it depends on, each once."""
        return tuple(dict.fromkeys(self.depends_on.targets)) if self.depends_on is not None else ()


class JobFlowSpec(OpenModel):
    """The Jobs of a JobFlow, and whether they are kept."""

    #: Its Jobs.
    flows: Annotated[tuple[Flow, ...], at_most(MOST_FLOWS)] = ()
    #: Whether the Jobs are kept when all have succeeded.
    job_retain_policy: Literal["retain", "delete"] = "retain"


class JobFlowState(Model):
    """The phase of a JobFlow."""

    #: Where the flow is.
    phase: Literal["", "Succeed", "Terminating", "Failed", "Running", "Pending"] = ""


class JobFlowStatus(Model):
    """The Jobs of a JobFlow, by phase."""

    #: Jobs that wait.
    pending_jobs: tuple[Text, ...] = ()
    #: Jobs that run.
    running_jobs: tuple[Text, ...] = ()
    #: Jobs that failed.
    failed_jobs: tuple[Text, ...] = ()
    #: Jobs that succeeded.
    completed_jobs: tuple[Text, ...] = ()
    #: Jobs that were terminated.
    terminated_jobs: tuple[Text, ...] = ()
    #: Jobs in another phase.
    un_know_jobs: tuple[Text, ...] = ()
    #: Its Jobs, one by one.
    job_status_list: tuple[Whole, ...] = ()
    #: By name of the Job.
    conditions: dict[str, Whole] = Field(default_factory=dict)
    #: Where the flow is.
    state: JobFlowState = JobFlowState()


class JobFlow(Model):
    """A JobFlow."""

    api_version: Literal["flow.volcano.sh/v1alpha1"] = FLOW_VOLCANO
    kind: Literal["JobFlow"] = "JobFlow"
    metadata: ObjectMeta = ObjectMeta()
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()
