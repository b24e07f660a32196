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

#: Without a default in the schema: a policy stores the queue, and has to see that none was written.
QueueField = Annotated[
    Text, Field(max_length=253, pattern=SUBDOMAIN_PATTERN, json_schema_extra={"default": None})
]

#: A part that is kept whole and parsed where it is needed, for instance a pod template.
Whole = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class JobPhase(StrEnum):
    """Where a Volcano Job is, in Volcano's words."""

    PENDING = "Pending"
    #: Pods are being removed; a resume starts them again.
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    #: Pods are being removed, and start again afterwards.
    RESTARTING = "Restarting"
    #: Pods are being removed; the Job counts as a success afterwards.
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    #: Pods are being removed, for good.
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class JobAction(StrEnum):
    """The actions that a lifecycle policy or a Command asks for."""

    ABORT = "AbortJob"
    RESTART = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"


class JobEvent(StrEnum):
    """What policies name, in Volcano's words."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"


class NetworkTopology(OpenModel):
    """The highest tier of HyperNodes that one domain for the pods may have; tier 1 is the innermost."""

    #: ``hard``: pods wait for one domain that holds them; ``soft``: they lie as close as possible.
    mode: Literal["hard", "soft"] = "hard"
    #: Number of the highest tier that the domain may have.
    highest_tier_allowed: Count | None = None
    #: The same by the name of the tier.
    highest_tier_name: Text | None = None


class LifecyclePolicy(OpenModel):
    """An action on an event of a pod, a task or the Job."""

    #: What happens: ``AbortJob``, ``RestartJob``, ``RestartTask``, ``RestartPod``, ``RestartPartition``,
    #: ``TerminateJob``, ``CompleteJob``, ``ResumeJob``.
    action: Text = ""
    #: What is waited for: ``PodFailed``, ``PodEvicted``, ``PodPending``, ``TaskCompleted``, ``TaskFailed``,
    #: ``Unknown``, ``JobUpdated``, ``*``.
    event: Text = ""
    #: Several of them.
    events: Annotated[tuple[Text, ...], at_most(MOST_ENTRIES)] = ()
    #: Instead of an event: a pod has failed with this exit code.
    exit_code: Int32 | None = None
    #: How long what is seen must last; ``PodPending`` needs one.
    timeout: Duration | None = None


class VolcanoVolumeSpec(OpenModel):
    """A volume mounted into every container of every pod."""

    #: Where it is mounted; without a colon.
    mount_path: Text
    #: An existing PersistentVolumeClaim.
    volume_claim_name: Text = ""
    #: A PersistentVolumeClaimSpec.
    volume_claim: Whole | None = None


class DependsOn(OpenModel):
    """Tasks that must have started before this one."""

    #: Names of these tasks.
    name: Annotated[tuple[Text, ...], at_most(MOST_POD_SETS)] = ()
    #: Absent: all of them.
    iteration: Literal["", "any", "all"] = ""


class PartitionPolicy(OpenModel):
    """A task split into groups of equal size, each with a topology of its own."""

    #: Number of partitions; with their size, the replicas of the task.
    total_partitions: Annotated[Int32, Field(ge=1)]
    #: Pods of a partition.
    partition_size: Annotated[Int32, Field(ge=1)]
    #: Partitions that must start together; 0: no minimum of their own.
    min_partitions: Count = 0
    #: How close the pods of one partition must be.
    network_topology: NetworkTopology | None = None


class VolcanoTaskSpec(OpenModel):
    """Pods of one shape."""

    #: Its name, a DNS label; absent: ``default`` and its number.
    # The pattern is for the CRD only: the rule in job_rules has better messages.
    name: Annotated[Text, Field(json_schema_extra={"maxLength": 63, "pattern": LABEL_PATTERN})] = ""
    #: Pods of the task; absent: none, as in Volcano: its clients leave 0 out when they scale a task to nothing.
    replicas: Count = 0
    #: Pods of the task that must start together, and succeed; absent: all.
    min_available: Count | None = None
    #: A PodTemplateSpec.
    template: Whole = Field(default_factory=dict)
    #: What happens on events of its pods; they go before those of the Job.
    policies: Annotated[tuple[LifecyclePolicy, ...], at_most(MOST_ENTRIES)] = ()
    #: NUMA policy; accepted and kept, without effect.
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    #: Restarts of containers after which the task has failed (event ``TaskFailed``); 0: 3, -1: never.
    max_retry: Int32 = 0
    #: Tasks whose pods must be ready before its own are made.
    depends_on: DependsOn | None = None
    #: Splits the task into groups of equal size.
    partition_policy: PartitionPolicy | None = None


def _no_flags(plugins: Any) -> Any:
    """``svc:`` with no value is a plugin without flags."""
    if isinstance(plugins, dict):
        return {name: () if flags is None else flags for name, flags in plugins.items()}
    return plugins


class VolcanoJobSpec(OpenModel):
    """The tasks of a Volcano Job, and how they run."""

    #: ``volcano`` or empty: replaced by the scheduler that Muster is set up for.
    scheduler_name: Annotated[Text, Field(max_length=63)] = ""
    #: Gang size; absent or 0: the sum over tasks, which is not stored here. ``status.minAvailable`` has the number.
    min_available: Count = 0
    #: Volumes of all pods.
    volumes: Annotated[tuple[VolcanoVolumeSpec, ...], at_most(MOST_ENTRIES)] = ()
    #: Its pods, by their shape.
    tasks: Annotated[
        tuple[VolcanoTaskSpec, ...], at_most(MOST_POD_SETS), Field(json_schema_extra={"minItems": 1})
    ] = ()
    #: What happens on events of its pods.
    policies: Annotated[tuple[LifecyclePolicy, ...], at_most(MOST_ENTRIES)] = ()
    #: Name of the plugin → its flags.
    plugins: Annotated[
        dict[str, Annotated[tuple[Text, ...], at_most(MOST_ENTRIES)]],
        BeforeValidator(_no_flags),
        at_most(MOST_ENTRIES),
    ] = Field(default_factory=dict)
    #: How long it will run, as its owner expects: for backfill and the order ``shortest``.
    running_estimate: Duration | None = None
    #: The queue that it waits in.
    queue: QueueField = "default"
    #: Restarts after which the Job has failed; 0: 3.
    max_retry: Count = 3
    #: Seconds after its end (``Completed``, ``Failed``, ``Terminated``) until it is deleted; absent: it is kept. An
    #: ``Aborted`` Job has not ended: it is kept, and can be resumed.
    ttl_seconds_after_finished: Count | None = None
    #: Priority of the Job, and of pods that name none.
    priority_class_name: Text = ""
    #: Pods that must succeed for the Job to be Completed; absent: it ends when all have ended.
    min_success: Annotated[Count, Field(ge=1)] | None = None
    #: How close all its pods must be.
    network_topology: NetworkTopology | None = None


class VolcanoJobState(Model):
    """The phase of a Volcano Job, with the reason."""

    #: Where the Job is.
    phase: JobPhase | None = None
    #: Why, in one word.
    reason: Text = ""
    #: Why, for people.
    message: Text = ""
    #: Since when.
    last_transition_time: Time | None = None


class TaskState(Model):
    """Counts of a task's pods by pod phase."""

    #: Pods by pod phase.
    phase: dict[str, Int32] = Field(default_factory=dict)


class JobCondition(Model):
    """A phase that the Job entered, or a condition that Muster set, with reason and message."""

    #: The phase, or ``UnsupportedField``.
    status: Text
    #: Since when.
    last_transition_time: Time | None = None
    #: Why, in one word.
    reason: Text = ""
    #: Why, for people.
    message: Text = ""


class VolcanoJobStatus(Model):
    """The phase of the Job and the counts of its pods."""

    #: Where the Job is.
    state: VolcanoJobState = VolcanoJobState()
    #: Pods that must start together.
    min_available: Int32 = 0
    #: Pods by task and pod phase.
    task_status_count: dict[str, TaskState] = Field(default_factory=dict)
    #: Pods that wait to run.
    pending: Int32 = 0
    #: Pods that run.
    running: Int32 = 0
    #: Pods that succeeded.
    succeeded: Int32 = 0
    #: Pods that failed.
    failed: Int32 = 0
    #: Pods that are being removed.
    terminating: Int32 = 0
    #: Always 0.
    unknown: Int32 = 0
    #: How often all pods were replaced.
    version: Int32 = 0
    #: Restarts so far.
    retry_count: Int32 = 0
    #: From the first start to the end.
    running_duration: Text | None = None
    #: Objects that were made for the Job.
    controlled_resources: dict[str, Text] = Field(default_factory=dict)
    #: Phases that it entered, the last few.
    conditions: tuple[JobCondition, ...] = ()


class VolcanoJob(Model):
    """A Volcano Job."""

    api_version: Literal["batch.volcano.sh/v1alpha1"] = BATCH_VOLCANO
    kind: Literal["Job"] = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()
