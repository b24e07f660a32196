"""Reservation and NodeDrain, muster.dev/v1alpha1: nodes that are kept for a queue in a window, or out of service.

A Reservation keeps whole nodes. On drained nodes no work of queues is from some second on.
"""

from typing import Annotated, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Duration, Labels, Model, Quantities, Text, Time
from queues.api.names import MUSTER, OF_TENANT
from queues.errors import InvalidDocument
from queues.node_closures import ClosureKind, NodeClosure
from queues.resources import Resources
from queues.text_format import excerpt, second_at, seconds_of
from queues.workload import FlavorName, NodeName, QueueName

#: Nodes that a status or a drain names.
MOST_NODES = 5000

NodeNames = Annotated[tuple[Text, ...], Field(max_length=MOST_NODES)]


class ReservationSpec(Model):
    """Which nodes are kept, for which queue and when."""

    #: Name of the Queue. Work of the queues below it counts as its own.
    queue: Annotated[Text, Field(min_length=1, max_length=253)]
    #: What the nodes together have to offer, for instance ``nvidia.com/gpu: 64``. Whole nodes are kept.
    resources: Annotated[Quantities, Field(min_length=1, max_length=8)]
    #: Only nodes of this ResourceFlavor.
    flavor: Annotated[Text, Field(max_length=63)] = ""
    #: A topology level, by its node label key: all nodes are in one domain of it.
    topology: Annotated[Text, Field(max_length=317)] = ""
    #: The first second of the window.
    from_: Time = Field(alias="from")
    #: How long the window is.
    for_: Duration = Field(alias="for")
    #: So long before the window nodes are chosen, which then take only work that is known to end in time.
    lead_time: Duration = "1h"
    #: So long before the window what still runs there is evicted.
    clear_before: Duration = "2m"


class NodeClosureStatus(Model):
    """How far it is. Written by Muster."""

    #: ``Planned``, ``Active`` in its window, ``Ended``, or ``Refused``.
    phase: Text = ""
    #: Why it is refused, or what it lacks, in one word.
    reason: Text = ""
    #: The same as a sentence; of an active drain what still runs there.
    message: Text = ""
    #: Nodes that it is about. Of a reservation none before the lead time.
    nodes: NodeNames = ()
    #: When its nodes begin to take only work that is known to end in time.
    closes_from: Text = ""


class Reservation(Model):
    """A Reservation."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["Reservation"] = "Reservation"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReservationSpec
    status: NodeClosureStatus = NodeClosureStatus()

    def to_closure(self) -> NodeClosure:
        """What it means for nodes. Raises InvalidDocument, InvalidQuantity."""
        spec = self.spec
        start = second_of(spec.from_, "spec.from")
        clear_at = start - duration_of(spec.clear_before, "spec.clearBefore")
        return NodeClosure(
            kind=ClosureKind.RESERVATION,
            name=self.metadata.name,
            lead_from=min(clear_at, start - duration_of(spec.lead_time, "spec.leadTime")),
            clear_at=clear_at,
            start=start,
            end=start + max(1, duration_of(spec.for_, "spec.for")),
            queue=QueueName(spec.queue),
            amounts=Resources.parse(spec.resources),
            flavor=FlavorName(spec.flavor),
            level=spec.topology,
            nodes=tuple(NodeName(name) for name in self.status.nodes),
            of_tenant=self.metadata.annotations.get(OF_TENANT) == "true",
        )


class NodeDrainSpec(Model):
    """Which nodes, and when."""

    #: Names of nodes.
    nodes: NodeNames = ()
    #: Nodes with all of these labels as well.
    node_selector: Labels = Field(default_factory=dict)
    #: The second at which what still runs there is evicted.
    at: Time
    #: How long the nodes stay closed. Without it until the object is deleted.
    for_: Duration | None = Field(default=None, alias="for")
    #: So long before, the nodes take only work that is known to end in time.
    lead_time: Duration = "1h"


class NodeDrain(Model):
    """A NodeDrain."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["NodeDrain"] = "NodeDrain"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeDrainSpec
    status: NodeClosureStatus = NodeClosureStatus()

    def to_closure(self) -> NodeClosure:
        """What it means for nodes. Raises InvalidDocument."""
        spec = self.spec
        start = second_of(spec.at, "spec.at")
        lasts = None if spec.for_ is None else max(1, duration_of(spec.for_, "spec.for"))
        return NodeClosure(
            kind=ClosureKind.DRAIN,
            name=self.metadata.name,
            lead_from=start - duration_of(spec.lead_time, "spec.leadTime"),
            clear_at=start,
            start=start,
            end=None if lasts is None else start + lasts,
            nodes=tuple(NodeName(name) for name in spec.nodes),
            selector=tuple(sorted(spec.node_selector.items())),
        )


def second_of(text: str, where: str) -> int:
    """A time as seconds since the epoch. Raises InvalidDocument."""
    seconds = second_at(text)
    if seconds is None:
        expected = "a time such as 2026-11-20T14:00:00Z"
        raise InvalidDocument(where=where, found=excerpt(text), expected=expected)
    return seconds


def duration_of(text: str, where: str) -> int:
    """A duration in whole seconds. Raises InvalidDocument."""
    seconds = seconds_of(text)
    if seconds is None:
        expected = "a duration such as 90s, 30m or 2h"
        raise InvalidDocument(where=where, found=excerpt(text), expected=expected)
    return int(seconds)
