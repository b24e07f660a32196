"""The devices of nodes, as far as reservations of tenants' administrators count them. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from admission.facts.cluster import NodeFact
from queues.api.validation.closures.whole_nodes import NodeShape, kept_devices, node_shape
from queues.node_closures import NodeClosure
from queues.workload import NodeName


class NodeDevices:
    """Part of the world: kept up to date node by node."""

    def __init__(self) -> None:
        self._of_nodes: dict[NodeName, NodeShape] = {}
        #: Each combination once; None if nodes have changed.
        self._shapes: Sequence[NodeShape] | None = None

    def put(self, name: NodeName, fact: NodeFact | None) -> None:
        """A node appeared, changed or went away."""
        before = self._of_nodes.pop(name, None)
        after = None if fact is None else node_shape(fact.allocatable)
        if after is not None:
            self._of_nodes[name] = after
        if before != after:
            self._shapes = None

    def kept(self, closure: NodeClosure) -> Mapping[str, int]:
        """What the whole nodes of a reservation have, also of devices that it does not ask for.

        Nodes that were chosen count as they are. Until they have all that is asked, those count that the webhook
        expects. No less than is asked for.
        """
        kept = Counter[str]()
        for name in closure.nodes:
            kept.update(self._of_nodes.get(name, {}))
        if any(kept[name] < units for name, units in closure.amounts.items()):
            kept |= Counter(kept_devices(closure.amounts, self._all_shapes()))
        return kept | Counter(dict(closure.amounts))

    def _all_shapes(self) -> Sequence[NodeShape]:
        if self._shapes is None:
            found = {frozenset(shape.items()) for shape in self._of_nodes.values()}
            self._shapes = [dict(shape) for shape in sorted(found, key=sorted)]
        return self._shapes
