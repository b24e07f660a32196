"""Volcano's PodGroup, scheduling.volcano.sh/v1beta1: pods that name it by annotation start together."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Count, Int32, Model, OpenModel, Quantities, Text, Time
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.volcano_job import NetworkTopology, Whole


class PodGroupPhase(StrEnum):
    """Where a PodGroup is in its life."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class SubGroupPolicy(OpenModel):
    """Members with a topology of their own."""

    name: Text = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 = 1
    min_sub_groups: Count = 0
    #: A LabelSelector.
    label_selector: Whole | None = None
    match_label_keys: tuple[Text, ...] = ()


class PodGroupSpec(OpenModel):
    """What a PodGroup asks."""

    #: So many pods start together or none does.
    min_member: Count = 0
    min_task_member: dict[str, Count] = Field(default_factory=dict)
    queue: Annotated[Text, Field(max_length=253)] = "default"
    priority_class_name: Text = ""
    min_resources: Quantities = Field(default_factory=dict)
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Model):
    """``Unschedulable`` or ``Scheduled``, with the reason."""

    type: Text = ""
    status: Text = ""
    transition_id: Text = Field(default="", alias="transitionID")
    last_transition_time: Time | None = None
    reason: Text = ""
    message: Text = ""


class PodGroupStatus(Model):
    """What became of it so far."""

    phase: PodGroupPhase | None = None
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PodGroup(Model):
    """A PodGroup."""

    api_version: Literal["scheduling.volcano.sh/v1beta1"] = SCHEDULING_VOLCANO
    kind: Literal["PodGroup"] = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
