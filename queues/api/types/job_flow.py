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

    task_name: TaskName = ""
    path: Text = ""
    port: Port = 0
    #: Name and value of one header.
    http_header: Whole | None = None


class TcpSocketProbe(OpenModel):
    """The pods of a task accept connections at a port."""

    task_name: TaskName = ""
    port: Port


class TaskStatusProbe(OpenModel):
    """All pods of a task are in a phase."""

    task_name: TaskName = ""
    #: A pod's phase; the probe of Running is met by pods that have succeeded, too.
    phase: Annotated[Text, Field(max_length=63)] = ""


class FlowProbe(OpenModel):
    """When a target counts as ready that need not end for it."""

    http_get_list: Annotated[tuple[HttpGetProbe, ...], at_most(MOST_FLOWS)] = ()
    tcp_socket_list: Annotated[tuple[TcpSocketProbe, ...], at_most(MOST_FLOWS)] = ()
    task_status_list: Annotated[tuple[TaskStatusProbe, ...], at_most(MOST_POD_SETS)] = ()


class FlowDependsOn(OpenModel):
    """The flows that come before."""

    targets: Annotated[tuple[Text, ...], at_most(MOST_FLOWS)] = ()
    probe: FlowProbe | None = None
    #: Whether all targets have to be met, or one of them.
    strategy: Literal["all", "any"] = "all"


class FlowPatch(OpenModel):
    """Changes of the JobTemplate's spec, for this flow. Without defaults: what is not written stays."""

    job_spec: Whole | None = None
    spec: Whole | None = None

    def changes(self) -> tuple[dict[str, Any], ...]:
        """What is written, in the order in which it counts."""
        return tuple(part for part in (self.spec, self.job_spec) if part)


class Flow(OpenModel):
    """One Job of a JobFlow: the name of its JobTemplate, and what comes before it."""

    name: Annotated[Text, Field(json_schema_extra={"minLength": 1})]
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the flows that it depends on, each once."""
        return tuple(dict.fromkeys(self.depends_on.targets)) if self.depends_on is not None else ()


class JobFlowSpec(OpenModel):
    """The Jobs of a JobFlow, and whether they are kept."""

    flows: Annotated[tuple[Flow, ...], at_most(MOST_FLOWS)] = ()
    job_retain_policy: Literal["retain", "delete"] = "retain"


class JobFlowState(Model):
    """The phase of a JobFlow."""

    phase: Literal["", "Succeed", "Terminating", "Failed", "Running", "Pending"] = ""


class JobFlowStatus(Model):
    """The Jobs of a JobFlow, by phase."""

    pending_jobs: tuple[Text, ...] = ()
    running_jobs: tuple[Text, ...] = ()
    failed_jobs: tuple[Text, ...] = ()
    completed_jobs: tuple[Text, ...] = ()
    terminated_jobs: tuple[Text, ...] = ()
    un_know_jobs: tuple[Text, ...] = ()
    job_status_list: tuple[Whole, ...] = ()
    #: By name of the Job.
    conditions: dict[str, Whole] = Field(default_factory=dict)
    state: JobFlowState = JobFlowState()


class JobFlow(Model):
    """A JobFlow."""

    api_version: Literal["flow.volcano.sh/v1alpha1"] = FLOW_VOLCANO
    kind: Literal["JobFlow"] = "JobFlow"
    metadata: ObjectMeta = ObjectMeta()
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()
