"""Nodes with what is taken of them: resources by foreign pods and by seats, host ports by live pods and by seats.

Kept up to date object by object, so that a frozen ``NodeTable`` costs what changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from admission.engine.nodes.demand import Demand
from admission.engine.nodes.host_ports import NotedPorts
from admission.engine.nodes.table import Node, NodeTable
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import (
    ClosureFact,
    FlavorFact,
    HyperNodeFact,
    NodeFact,
    NodeRecoveryFact,
    TopologyFact,
)
from admission.facts.pods import PodFact
from admission.world.faulty_nodes import FaultyNodes
from admission.world.hypernodes import hypernode_tree
from admission.world.node_closures import NodeClosures
from queues.admissions import Admission, Seat
from queues.flavor_growth import FlavorGrowth
from queues.node_closures import ClosureKind
from queues.resources import DEVICE_MARK, MOST, NOTHING, WHOLE, Resources, is_device, total
from queues.workload import NO_FLAVOR, FlavorName, HostPort, NodeName, PodSet, WorkloadKey

#: Kinds of facts that ``NodeInventory.observe`` takes.
ABOUT_NODES: Final = frozenset(
    (
        FactKind.FLAVOR,
        FactKind.HYPERNODE,
        FactKind.TOPOLOGY,
        FactKind.NODE_RECOVERY,
        FactKind.RESERVATION,
        FactKind.NODE_DRAIN,
    )
)

Place = tuple[NodeName, tuple[HostPort, ...]]

Fact = TypeVar("Fact")


class PortsInUse:
    """Host ports by pod. Most pods have none, so this is small."""

    def __init__(self) -> None:
        self._of_pods: dict[str, Place] = {}
        #: Ports by pod set of the workloads that ask for any.
        self._asked: dict[WorkloadKey, dict[str, tuple[HostPort, ...]]] = {}

    def occupy(self, pod: str, place: Place | None) -> bool:
        """A pod has these ports of a node; None if none (any more). True if that is news."""
        if self._of_pods.get(pod) == place:
            return False
        self._of_pods.pop(pod, None)
        if place is not None:
            self._of_pods[pod] = place
        return True

    def update(self, key: WorkloadKey, pod_sets: Iterable[PodSet]) -> None:
        """What the pods of a workload will have in its seats."""
        self._asked.pop(key, None)
        asked = {pods.name: occupies for pods in pod_sets if (occupies := pods.occupies)}
        if asked:
            self._asked[key] = asked

    def by_node(
        self, admissions_of: Callable[[WorkloadKey], Sequence[Admission]], counted: Iterable[Place] = ()
    ) -> dict[NodeName, tuple[HostPort, ...]]:
        """Everything that is taken, by node. ``counted``: what pods without a seat count as."""
        noted = NotedPorts()
        for node, ports in (*self._of_pods.values(), *counted):
            noted.add(node, ports)
        for key, asked in self._asked.items():
            for admission in admissions_of(key):
                for seat in admission.holding():
                    if seat.pod_set in asked:
                        noted.add(seat.node, asked[seat.pod_set])
        return noted.by_node()


class NodeInventory:
    """Nodes, flavors and topologies, with the amounts taken on each node."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, NodeFact] = {}
        self.flavors: dict[str, FlavorFact] = {}
        self.topologies: dict[str, TopologyFact] = {}
        self.hypernodes: dict[str, HyperNodeFact] = {}
        #: Nodes whose limit (allocatable minus foreign pods) is not stored yet.
        self.unsaved: set[NodeName] = set()
        #: What the workloads that wait or run ask for.
        self.demand = Demand()
        self._foreign: dict[NodeName, Resources] = {}
        #: Nodes from which foreign pods take more than is counted: any number can name a node that rejects them all.
        self._beyond: set[NodeName] = set()
        self._foreign_pods: dict[str, tuple[NodeName, Resources]] = {}
        self._seats: dict[NodeName, Resources] = {}
        self.faulty = FaultyNodes()
        self.closures = NodeClosures()
        self.ports = PortsInUse()
        self._table: NodeTable | None = None
        self._changes: dict[NodeName, Resources] = {}

    def put_node(self, name: NodeName, fact: NodeFact | None) -> frozenset[NodeName]:
        """A node appeared, changed or went away; nodes from which gangs may be evicted now, or not any more."""
        before = self.nodes.pop(name, None)
        if fact is not None:
            self.nodes[name] = fact
        self.unsaved.add(name)
        self.closures.devices.put(name, fact)
        self._table = None
        return self.faulty.put_node(before, fact)

    def observe(self, change: Change) -> set[WorkloadKey]:
        """A ResourceFlavor, Topology, HyperNode, Reservation or NodeDrain appeared, changed or went away; or the
        recovery of a node asks for something else, of the workloads that are returned."""
        match change.kind, change.fact:
            case FactKind.NODE_RECOVERY, NodeRecoveryFact() | None:
                # Whether it takes gangs is in the table.
                self._table = None
                if change.key in self.nodes:
                    self.unsaved.add(NodeName(change.key))
                return self.faulty.put_recovery(NodeName(change.key), change.fact)
            case FactKind.FLAVOR, FlavorFact() | None:
                self.put_flavor(change.key, change.fact)
            case FactKind.TOPOLOGY, TopologyFact() | None:
                self._put(self.topologies, change.key, change.fact)
            case FactKind.RESERVATION, ClosureFact() | None:
                self.closures.put(ClosureKind.RESERVATION, change.key, change.fact)
            case FactKind.NODE_DRAIN, ClosureFact() | None:
                self.closures.put(ClosureKind.DRAIN, change.key, change.fact)
            case FactKind.HYPERNODE, HyperNodeFact() | None:
                self._put(self.hypernodes, change.key, change.fact)
            case _:
                raise AssertionError(f"a {change.kind} change carries {type(change.fact).__name__}")
        return set()

    def put_flavor(self, name: str, fact: FlavorFact | None) -> None:
        """A ResourceFlavor appeared, changed or went away."""
        self._put(self.flavors, name, fact)
        # The ledger bounds root per flavor, so it must learn each node's flavor again.
        self.unsaved.update(self.nodes)

    def _put(self, facts: dict[str, Fact], name: str, fact: Fact | None) -> None:
        facts.pop(name, None)
        if fact is not None:
            facts[name] = fact
        self._table = None

    def charge(self, pod: str, place: tuple[NodeName, Resources] | None) -> tuple[NodeName, ...]:
        """A pod takes this much on a node that is not in the books; None if it does not (any more).

        Returns the nodes on which that changed something.
        """
        before = self._foreign_pods.get(pod)
        if before == place:
            return ()
        if before is not None:
            del self._foreign_pods[pod]
            self._change_foreign(before[0], NOTHING - before[1])
        if place is not None:
            self._foreign_pods[pod] = place
            self._change_foreign(*place)
        return tuple(node for node, _ in filter(None, (before, place)))

    def foreign_on(self, node: NodeName) -> Iterator[tuple[str, Resources]]:
        """Pods of others on a node, with what they take of it."""
        if node not in self._foreign:
            return
        for uid, (place, takes) in self._foreign_pods.items():
            if place == node:
                yield uid, takes

    def charged_pods(self) -> Iterable[str]:
        """Pods that take something on their node that is not in the books."""
        return self._foreign_pods

    def is_charged(self, pod: str) -> bool:
        """Whether a pod takes something on its node that is not in the books."""
        return pod in self._foreign_pods

    def _change_foreign(self, node: NodeName, delta: Resources) -> None:
        taken = self._foreign[node] = self._foreign.get(node, NOTHING) + delta
        self.unsaved.add(node)
        self._change(node, self._offered(node, delta))
        beyond = any(taken[resource] > MOST for resource in taken)
        if beyond or node in self._beyond:
            (self._beyond.add if beyond else self._beyond.discard)(node)
            self._table = None

    def _offered(self, node: NodeName, amounts: Resources) -> Resources:
        """The part of what pods of others ask for that the node offers: only of that they can take something away.

        Any pod can name resources that no node has.
        """
        if amounts is NOTHING:
            return amounts
        fact = self.nodes.get(node)
        if fact is None or amounts.keys() <= fact.allocatable.keys():
            return amounts
        return Resources({name: amounts[name] for name in amounts if name in fact.allocatable})

    def hold(self, seats: Iterable[Seat]) -> None:
        """These seats are taken."""
        for node, takes in _takes_by_node(seats):
            self._seats[node] = self._seats.get(node, NOTHING) + takes
            self._change(node, takes)

    def give_back(self, seats: Iterable[Seat]) -> None:
        """These seats are free again."""
        for node, takes in _takes_by_node(seats):
            self._seats[node] = self._seats.get(node, NOTHING) - takes
            self._change(node, NOTHING - takes)

    def _change(self, node: NodeName, delta: Resources) -> None:
        if self._table is not None:
            self._changes[node] = self._changes.get(node, NOTHING) + delta

    def limit(self, node: NodeName) -> Resources | None:
        """What admissions may use of a node: allocatable minus foreign pods; None if there is no such node."""
        fact = self.nodes.get(node)
        if fact is None:
            return None
        return fact.allocatable - self._offered(node, self._foreign.get(node, NOTHING))

    def can_take_pods(self, node: NodeName) -> bool:
        """Whether a new pod could start there at all."""
        fact = self.nodes.get(node)
        return fact is not None and fact.ready and not fact.unschedulable

    def is_faulty(self, node: NodeName) -> bool:
        """Whether a device there is unhealthy."""
        fact = self.nodes.get(node)
        return fact is not None and bool(fact.faults)

    def offers_faulty_devices(self, node: NodeName) -> bool:
        """Whether a new pod may get it."""
        fact = self.nodes.get(node)
        return fact is not None and fact.offers_faulty_devices

    def silent(self, pods: Iterable[PodFact]) -> dict[NodeName, int | None]:
        """Nodes that are not ready, on which pods are being deleted: since when; None if confirmed to be off."""
        found = {pod.node: self.nodes[pod.node] for pod in pods if pod.deleting and pod.node in self.nodes}
        return {
            name: None if fact.out_of_service else fact.not_ready_since
            for name, fact in found.items()
            if not fact.ready
        }

    def room(self, node: NodeName) -> Resources:
        """What the node has beyond foreign pods and seats."""
        limit = self.limit(node)
        return NOTHING if limit is None else limit - self._seats.get(node, NOTHING)

    def is_overfull(self, node: NodeName, takes: Resources) -> bool:
        """Whether others have taken of what was promised to a seat there that takes this."""
        fact = self.nodes.get(node)
        if fact is None:
            return False
        # Asked for each seat: no vectors are made.
        foreign, seats = self._offered(node, self._foreign.get(node, NOTHING)), self._seats.get(node, NOTHING)
        short = [name for name in takes if fact.allocatable[name] < foreign[name] + seats[name]]
        # Where devices are no longer reported by number, whole ones are only counted.
        return any(not is_device(name) or takes[name] < WHOLE or _has_numbers(fact, name) for name in short)

    def lost(self, seats: Iterable[Seat]) -> tuple[frozenset[NodeName], frozenset[NodeName]]:
        """Nodes of these seats on which a pod that is not there yet can no longer start.

        All of them, and the nodes among them where foreign pods have taken the room.
        """
        places = {(seat.node, seat.takes) for seat in seats}
        if not places:
            return frozenset(), frozenset()
        gone = frozenset(node for node, _ in places if not self.can_take_pods(node))
        taken = frozenset(
            node for node, takes in places if node not in gone and self.is_overfull(node, takes)
        )
        return gone | taken, taken

    @property
    def must_be_built(self) -> bool:
        """Whether the next ``table`` visits all nodes, because of one that changed: a tenth of a second for 10,000."""
        return self._table is None

    def table(self) -> NodeTable:
        """The nodes as the engine sees them."""
        if self._table is None:
            tree = (
                hypernode_tree(self.hypernodes.values(), list(self.nodes.values())) if self.hypernodes else ()
            )
            self._table = NodeTable.build(self._rows(), self.levels(), tree, self._growth())
        elif self._changes:
            self._table = self._table.with_used(self._changes)
        self._changes = {}
        return self._table

    def _rows(self) -> Iterable[Node]:
        flavors = sorted(self.flavors.values(), key=lambda flavor: flavor.name)
        for name, fact in self.nodes.items():
            used = self._offered(name, self._foreign.get(name, NOTHING))
            if name in self._beyond:
                used = Resources({resource: min(used[resource], MOST) for resource in used})
            if (seats := self._seats.get(name)) is not None:
                used += seats
            why_not = self._why_not(fact)
            yield Node(
                name=name,
                allocatable=fact.allocatable,
                used=used,
                labels=fact.labels,
                taints=fact.taints,
                usable=not why_not,
                why_not=why_not,
                flavor=_flavor(fact.labels, flavors),
                devices=fact.devices,
                unhealthy=fact.unhealthy,
            )

    def _growth(self) -> tuple[FlavorGrowth, ...]:
        """What can be added to the flavors, if any of them states it."""
        if all(flavor.may_grow is None for flavor in self.flavors.values()):
            return ()
        return tuple(flavor.growth() for _, flavor in sorted(self.flavors.items()))

    def _why_not(self, fact: NodeFact) -> str:
        """Why a node may not take new pods, in words; "": it may."""
        if not fact.ready:
            return "not ready"
        if fact.is_recovered:
            # Its taint can be tolerated; what repairs the node would find pods of gangs on it.
            return "out of service because of its GPUs"
        return "unschedulable" if fact.unschedulable else self.faulty.closed(fact.name)

    def levels(self) -> list[tuple[str, ...]]:
        """Labels of topology levels, by Topology."""
        return [fact.levels for _, fact in sorted(self.topologies.items())]


def _has_numbers(fact: NodeFact, name: str) -> bool:
    """Whether a node offers devices of this one's resource by number."""
    start = f"{name.partition(DEVICE_MARK)[0]}{DEVICE_MARK}"
    return any(each.startswith(start) for each in fact.allocatable)


def _takes_by_node(seats: Iterable[Seat]) -> Iterator[tuple[NodeName, Resources]]:
    """What seats take together of each node: there may be thousands, most of them next to others."""
    by_node: dict[NodeName, list[Resources]] = {}
    for seat in seats:
        by_node.setdefault(seat.node, []).append(seat.takes)
    for node, takes in by_node.items():
        yield node, total(takes) if len(takes) > 1 else takes[0]


def _flavor(labels: Mapping[str, str], flavors: Sequence[FlavorFact]) -> FlavorName:
    for flavor in flavors:
        if flavor.node_labels and all(labels.get(key) == value for key, value in flavor.node_labels.items()):
            return FlavorName(flavor.name)
    return NO_FLAVOR
