"""What pods belong to: Jobs, Volcano Jobs, PodGroups."""

import msgspec

from admission.objects.parts import WireCondition, WireMetadata, WireStruct


class WireJobSpec(WireStruct):
    """The spec of a Job of batch/v1; the template is decoded by who needs it."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class WireJobStatus(WireStruct):
    """The status of a Job of batch/v1."""

    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireJob(WireStruct):
    """A Job of batch/v1."""

    metadata: WireMetadata
    spec: WireJobSpec = msgspec.field(default_factory=WireJobSpec)
    status: WireJobStatus = msgspec.field(default_factory=WireJobStatus)


class WireNetworkTopology(WireStruct):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class WireVolcanoJobSpec(WireStruct):
    """The spec of a Volcano Job, but for what admission.volcano_jobs reads from the document."""

    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: WireNetworkTopology | None = None


class WireVolcanoJobState(WireStruct):
    """The phase of a Volcano Job."""

    phase: str | None = None


class WireVolcanoJobStatus(WireStruct):
    """The status of a Volcano Job."""

    state: WireVolcanoJobState | None = None
    version: int | None = None


class WireVolcanoJob(WireStruct):
    """A Volcano Job."""

    metadata: WireMetadata
    spec: WireVolcanoJobSpec = msgspec.field(default_factory=WireVolcanoJobSpec)
    status: WireVolcanoJobStatus | None = None


class WirePodGroupSpec(WireStruct):
    """The spec of a PodGroup."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: WireNetworkTopology | None = None
    sub_group_policy: list[msgspec.Raw] | None = None


class WirePodGroupStatus(WireStruct):
    """The status of a PodGroup."""

    phase: str | None = None


class WirePodGroup(WireStruct):
    """A PodGroup."""

    metadata: WireMetadata
    spec: WirePodGroupSpec = msgspec.field(default_factory=WirePodGroupSpec)
    status: WirePodGroupStatus | None = None
