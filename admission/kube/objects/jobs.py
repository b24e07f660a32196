"""What pods belong to: Jobs, Volcano Jobs, PodGroups."""

import msgspec

from admission.kube.objects.parts import Condition, Metadata, Part


class JobSpec(Part):
    """The spec of a Job of batch/v1; the template is decoded by who needs it."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class JobStatus(Part):
    """The status of a Job of batch/v1."""

    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Job(Part):
    """A Job of batch/v1."""

    metadata: Metadata
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class NetworkTopology(Part):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class VolcanoJobSpec(Part):
    """The spec of a Volcano Job, but for what admission.volcano_jobs reads from the document."""

    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None


class VolcanoJobState(Part):
    """The phase of a Volcano Job."""

    phase: str | None = None


class VolcanoJobStatus(Part):
    """The status of a Volcano Job."""

    state: VolcanoJobState | None = None
    version: int | None = None


class VolcanoJob(Part):
    """A Volcano Job."""

    metadata: Metadata
    spec: VolcanoJobSpec = msgspec.field(default_factory=VolcanoJobSpec)
    status: VolcanoJobStatus | None = None


class PodGroupSpec(Part):
    """The spec of a PodGroup."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[msgspec.Raw] | None = None


class PodGroupStatus(Part):
    """The status of a PodGroup."""

    phase: str | None = None


class PodGroup(Part):
    """A PodGroup."""

    metadata: Metadata
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus | None = None
