"""Volcano's PodGroup, scheduling.volcano.sh/v1beta1: pods that name it in an annotation start together."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Count, Int32, Model, OpenModel, Quantities, Text, Time, at_most
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.reading.user_values import MOST_KEYS, MOST_POD_SETS, MOST_RESOURCES, MOST_SUBGROUPS
from queues.api.types.volcano_job import NetworkTopology, Whole


class PodGroupPhase(StrEnum):
    """Phases of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class SubGroupPolicy(OpenModel):
    """Pods of a PodGroup with a topology of their own."""

    name: Text = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 = 1
    min_sub_groups: Count = 0
    #: A LabelSelector.
    label_selector: Whole | None = None
    match_label_keys: Annotated[tuple[Text, ...], at_most(MOST_KEYS)] = ()


class PodGroupSpec(OpenModel):
    """The gang that a PodGroup asks to start."""

    #: Gang size: at least this many pods start together, or none starts.
    min_member: Count = 0
    min_task_member: Annotated[dict[str, Count], at_most(MOST_POD_SETS)] = Field(default_factory=dict)
    queue: Annotated[Text, Field(max_length=253)] = "default"
    priority_class_name: Text = ""
    min_resources: Annotated[Quantities, at_most(MOST_RESOURCES)] = Field(default_factory=dict)
    network_topology: NetworkTopology | None = None
    sub_group_policy: Annotated[tuple[SubGroupPolicy, ...], at_most(MOST_SUBGROUPS)] = ()


class PodGroupCondition(Model):
    """A condition of the PodGroup: ``Unschedulable`` or ``Scheduled``, with the reason."""

    type: Text = ""
    status: Text = ""
    transition_id: Text = Field(default="", alias="transitionID")
    last_transition_time: Time | None = None
    reason: Text = ""
    message: Text = ""


class PodGroupStatus(Model):
    """The phase of the PodGroup and the counts of its pods."""

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
