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

    #: Its name.
    name: Text = ""
    #: How close the pods of each subgroup must be.
    network_topology: NetworkTopology | None = None
    #: Pods of a subgroup.
    sub_group_size: Int32 = 1
    #: Subgroups that must start together; 0: no minimum of their own.
    min_sub_groups: Count = 0
    #: A LabelSelector.
    label_selector: Whole | None = None
    #: Pods with equal values of these labels are one subgroup.
    match_label_keys: Annotated[tuple[Text, ...], at_most(MOST_KEYS)] = ()


class PodGroupSpec(OpenModel):
    """The gang that a PodGroup asks to start."""

    #: Gang size: at least this many pods start together, or none starts.
    min_member: Count = 0
    #: Pods of each task that must start together.
    min_task_member: Annotated[dict[str, Count], at_most(MOST_POD_SETS)] = Field(default_factory=dict)
    #: The queue that its pods wait in.
    # A policy stores it, and has to see that none was written.
    queue: Annotated[Text, Field(max_length=253, json_schema_extra={"default": None})] = "default"
    #: Priority of the gang.
    priority_class_name: Text = ""
    #: What the gang needs: until its pods exist, it is Inqueue once its queue has room for that. Then its pods say it.
    min_resources: Annotated[Quantities, at_most(MOST_RESOURCES)] = Field(default_factory=dict)
    #: How close its pods must be.
    network_topology: NetworkTopology | None = None
    #: Groups of its pods with a topology of their own.
    sub_group_policy: Annotated[tuple[SubGroupPolicy, ...], at_most(MOST_SUBGROUPS)] = ()


class PodGroupCondition(Model):
    """A condition of the PodGroup: ``Unschedulable`` or ``Scheduled``, with the reason."""

    #: ``Scheduled`` or ``Unschedulable``.
    type: Text = ""
    #: ``True`` or ``False``.
    status: Text = ""
    #: Written by Volcano.
    transition_id: Text = Field(default="", alias="transitionID")
    #: Since when.
    last_transition_time: Time | None = None
    #: Why, in one word.
    reason: Text = ""
    #: Why, for people.
    message: Text = ""


class PodGroupStatus(Model):
    """The phase of the PodGroup and the counts of its pods."""

    #: Where the gang is.
    phase: PodGroupPhase | None = None
    #: Whether it can be scheduled, and why not.
    conditions: tuple[PodGroupCondition, ...] = ()
    #: Pods that run.
    running: Int32 = 0
    #: Pods that succeeded.
    succeeded: Int32 = 0
    #: Pods that failed.
    failed: Int32 = 0


class PodGroup(Model):
    """A PodGroup."""

    api_version: Literal["scheduling.volcano.sh/v1beta1"] = SCHEDULING_VOLCANO
    kind: Literal["PodGroup"] = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
