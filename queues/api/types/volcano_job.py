"""Volcano's Job, batch.volcano.sh/v1alpha1: field names, defaults and units are Volcano's.

Defaults here are those of Volcano's CRD. Values that the mutating webhook fills in (names of tasks, minAvailable, …)
are in ``queues.api.validation.defaults``.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from queues.api.metadata import ObjectMeta
from queues.api.model import (
    LABEL_PATTERN,
    SUBDOMAIN_PATTERN,
    Count,
    Duration,
    Int32,
    Model,
    OpenModel,
    Text,
    Time,
    at_most,
)
from queues.api.names import BATCH_VOLCANO
from queues.api.reading.user_values import MOST_ENTRIES, MOST_POD_SETS

QueueField = Annotated[Text, Field(max_length=253, pattern=SUBDOMAIN_PATTERN)]

#: A part that is kept whole and parsed where it is needed, for instance a pod template.
Whole = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class JobPhase(StrEnum):
    """Phases of a Volcano Job."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class NetworkTopology(OpenModel):
    """The highest tier of HyperNodes that one domain for the pods may have; tier 1 is the innermost."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Count | None = None
    highest_tier_name: Text | None = None


class LifecyclePolicy(OpenModel):
    """An action on an event of a pod, a task or the Job."""

    action: Text = ""
    event: Text = ""
    events: Annotated[tuple[Text, ...], at_most(MOST_ENTRIES)] = ()
    exit_code: Int32 | None = None
    timeout: Duration | None = None


class VolcanoVolumeSpec(OpenModel):
    """A volume mounted into every container of every pod."""

    mount_path: Text
    volume_claim_name: Text = ""
    #: A PersistentVolumeClaimSpec.
    volume_claim: Whole | None = None


class DependsOn(OpenModel):
    """Tasks that must have started before this one."""

    name: Annotated[tuple[Text, ...], at_most(MOST_POD_SETS)] = ()
    #: Absent: all of them.
    iteration: Literal["", "any", "all"] = ""


class PartitionPolicy(OpenModel):
    """A task split into groups of equal size, each with a topology of its own."""

    total_partitions: Annotated[Int32, Field(ge=1)]
    partition_size: Annotated[Int32, Field(ge=1)]
    min_partitions: Count = 0
    network_topology: NetworkTopology | None = None


class VolcanoTaskSpec(OpenModel):
    """Pods of one shape."""

    #: The pattern is for the CRD only: the rule in job_rules has better messages.
    name: Annotated[Text, Field(json_schema_extra={"maxLength": 63, "pattern": LABEL_PATTERN})] = ""
    #: Absent: none, as in Volcano: its clients leave 0 out when they scale a task to nothing.
    replicas: Count = 0
    min_available: Count | None = None
    #: A PodTemplateSpec.
    template: Whole = Field(default_factory=dict)
    policies: Annotated[tuple[LifecyclePolicy, ...], at_most(MOST_ENTRIES)] = ()
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    max_retry: Int32 = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


def _no_flags(plugins: Any) -> Any:
    """``svc:`` with no value is a plugin without flags."""
    if isinstance(plugins, dict):
        return {name: () if flags is None else flags for name, flags in plugins.items()}
    return plugins


class VolcanoJobSpec(OpenModel):
    """The tasks of a Volcano Job, and how they run."""

    scheduler_name: Annotated[Text, Field(max_length=63)] = ""
    #: Gang size; the webhook makes 0 the sum over tasks.
    min_available: Count = 0
    volumes: Annotated[tuple[VolcanoVolumeSpec, ...], at_most(MOST_ENTRIES)] = ()
    tasks: Annotated[
        tuple[VolcanoTaskSpec, ...], at_most(MOST_POD_SETS), Field(json_schema_extra={"minItems": 1})
    ] = ()
    policies: Annotated[tuple[LifecyclePolicy, ...], at_most(MOST_ENTRIES)] = ()
    #: Name of the plugin → its flags.
    plugins: Annotated[
        dict[str, Annotated[tuple[Text, ...], at_most(MOST_ENTRIES)]],
        BeforeValidator(_no_flags),
        at_most(MOST_ENTRIES),
    ] = Field(default_factory=dict)
    running_estimate: Duration | None = None
    queue: QueueField = "default"
    max_retry: Count = 3
    ttl_seconds_after_finished: Count | None = None
    priority_class_name: Text = ""
    min_success: Annotated[Count, Field(ge=1)] | None = None
    network_topology: NetworkTopology | None = None


class VolcanoJobState(Model):
    """The phase of a Volcano Job, with the reason."""

    phase: JobPhase | None = None
    reason: Text = ""
    message: Text = ""
    last_transition_time: Time | None = None


class TaskState(Model):
    """Counts of a task's pods by pod phase."""

    phase: dict[str, Int32] = Field(default_factory=dict)


class JobCondition(Model):
    """A phase that the Job entered, or a condition that Muster set, with reason and message."""

    status: Text
    last_transition_time: Time | None = None
    reason: Text = ""
    message: Text = ""


class VolcanoJobStatus(Model):
    """The phase of the Job and the counts of its pods."""

    state: VolcanoJobState = VolcanoJobState()
    min_available: Int32 = 0
    task_status_count: dict[str, TaskState] = Field(default_factory=dict)
    pending: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 = 0
    unknown: Int32 = 0
    version: Int32 = 0
    retry_count: Int32 = 0
    running_duration: Text | None = None
    controlled_resources: dict[str, Text] = Field(default_factory=dict)
    conditions: tuple[JobCondition, ...] = ()


class VolcanoJob(Model):
    """A Volcano Job."""

    api_version: Literal["batch.volcano.sh/v1alpha1"] = BATCH_VOLCANO
    kind: Literal["Job"] = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()
