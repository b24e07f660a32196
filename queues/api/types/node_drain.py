"""NodeDrain, muster.dev/v1alpha1: nodes that are out of service from some second on, free of work of queues."""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Duration, Labels, Model, Text, Time
from queues.api.names import MUSTER
from queues.api.types.reservation import NodeNames, duration_of, second_of
from queues.node_closures import ClosureKind, NodeClosure
from queues.workload import NodeName


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


class NodeDrainStatus(Model):
    """How far the drain is. Written by Muster."""

    #: ``Planned``, ``Active``, ``Ended``, or ``Refused``.
    phase: Text = ""
    #: Why it is refused, in one word.
    reason: Text = ""
    #: The same as a sentence; of an active drain what still runs there.
    message: Text = ""
    #: Nodes that it is about.
    nodes: NodeNames = ()


class NodeDrain(Model):
    """A NodeDrain."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["NodeDrain"] = "NodeDrain"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeDrainSpec
    status: NodeDrainStatus = NodeDrainStatus()

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
