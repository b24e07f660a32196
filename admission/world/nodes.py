"""Nodes with what is taken of them: resources by foreign pods and by seats, host ports by live pods and by seats.

Kept up to date object by object, so that a frozen ``NodeTable`` costs what changed.

Of nodes with unhealthy devices it is known which pods that is about, and which gangs may be evicted for it. A circuit
breaker bounds how many nodes are closed, and from how many gangs are evicted, at one time: if the agents of all nodes
call their devices unhealthy, that is a fault of the agents. Nodes that failed first come first. The others are only
reported. Where no nodes are closed, a GPU that waits for weeks to be replaced keeps no other gang on a device that
fails.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

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
    QueueFact,
    TopologyFact,
)
from admission.facts.devices import DeviceFault
from admission.facts.pods import PodFact
from admission.node_recovery.state import RecoveryPhase, read_state
from admission.world.admissions import replaced
from admission.world.hypernodes import hypernode_tree
from admission.world.node_closures import NodeClosures
from queues.admissions import Admission, Seat
from queues.flavor_growth import FlavorGrowth
from queues.node_closures import ClosureKind
from queues.quota.queue import NodeRecoveryRules
from queues.resources import DEVICE_MARK, MOST, NOTHING, WHOLE, Resources, is_device, total
from queues.text_format import counted
from queues.workload import NO_FLAVOR, FlavorName, HostPort, NodeName, PodSet, Toleration, WorkloadKey

#: Seconds before the last fault of the cluster in which others count as of the same time.
_SAME_TIME: Final = 1800


class FaultyNodes:
    """Part of the world."""

    def __init__(self) -> None:
        self.rules = NodeRecoveryRules()
        #: Nodes with devices, healthy or not.
        self.with_devices: set[NodeName] = set()
        #: Nodes of which a recovery is under way or remembered.
        self._in_recovery: set[NodeName] = set()
        #: Nodes from which gangs may be evicted, and that may be closed.
        self.granted: frozenset[NodeName] = frozenset()
        #: Since when (seconds) nodes have an unhealthy device that no person has accepted; 0: not known.
        self._since: dict[NodeName, int] = {}
        #: Faults of devices that pods have, by node and the pod's uid: an agent reports no pods of another node.
        self._of_pods: dict[NodeName, Mapping[str, DeviceFault]] = {}
        #: Nodes that are out of service because of faults; and nodes with devices that are cordoned or not ready.
        self._tainted: set[NodeName] = set()
        self._away: set[NodeName] = set()
        self._recoveries: dict[NodeName, NodeRecoveryFact] = {}
        #: Gangs that recoveries evict, from which nodes and why.
        self._evicted: dict[WorkloadKey, dict[NodeName, str]] = {}
        #: The time of the last ``tell_time``: a later time of a Device is not believed, clocks of nodes may be wrong.
        self._now = 0
        #: Something has changed since then.
        self._is_stale = False

    def put_node(self, name: NodeName, fact: NodeFact | None) -> None:
        """A node appeared, changed or went away."""
        self._is_stale = True
        for nodes in (self.with_devices, self._in_recovery, self._tainted, self._away):
            nodes.discard(name)
        self._since.pop(name, None)
        self._of_pods.pop(name, None)
        if fact is None:
            return
        if any("/" in resource for resource in (*fact.allocatable, *fact.withheld)):
            self.with_devices.add(name)
            if fact.unschedulable or not fact.ready:
                self._away.add(name)
        if fact.recovery or fact.is_recovered:
            self._in_recovery.add(name)
        if fact.fault_taint is not None:
            self._tainted.add(name)
        left = [fault.beyond(fact.accepted) for fault in fact.faults]
        if since := [fault.since for fault in left if fault is not None]:
            self._since[name] = min(since)
        if fact.faulty_pods:
            self._of_pods[name] = fact.faulty_pods

    def put_root(self, root: QueueFact | None) -> None:
        """The queue root, which says what is done about faults."""
        self.rules = NodeRecoveryRules() if root is None else root.queue.node_recovery
        self._is_stale = True

    def put_recovery(self, name: NodeName, fact: NodeRecoveryFact | None) -> set[WorkloadKey]:
        """What the recovery of a node asks for has changed; None if nothing any more.

        Returns the workloads that this is about.
        """
        self._is_stale = True
        before = replaced(self._recoveries, name, fact)
        about = {key for each in (before, fact) if each is not None for key in each.evicted}
        for key in about:
            self._evicted.pop(key, None)
        for each in self._recoveries.values():
            for key in about & each.evicted.keys():
                self._evicted.setdefault(key, {})[each.node] = each.evicted[key]
        return about

    def tell_time(self, now: int) -> frozenset[NodeName]:
        """It is this second; nodes for which the circuit breaker decides otherwise now."""
        before, self._now = self._now, now
        if not (self._is_stale or any(since > before for since in self._since.values())):
            return frozenset()
        self._is_stale = False
        granted = self._granted()
        changed = granted ^ self.granted
        self.granted = granted
        return changed

    def _granted(self) -> frozenset[NodeName]:
        """The circuit breaker: nodes with faults on which something may be done about them.

        Those that are out of service because of faults; then, as long as no more are out than may be, nodes that kill
        pods, which get every gang in turn, and those that failed first. A node that is out anyway, cordoned or not
        ready, needs no second place. If no nodes are closed, a node counts while pods have its unhealthy devices, and
        if it failed not much earlier than the last one.
        """
        last = min(max(self._since.values(), default=0), self._now)
        faulty = {
            name: (True, since)
            for name, since in self._since.items()
            if self.rules.recovers or name in self._of_pods or since > last - _SAME_TIME
        }
        for name, fact in self._recoveries.items():
            if fact.kills_pods and name in self.with_devices:
                faulty[name] = (False, fact.since)
        granted, out, most = set[NodeName](), self._tainted | self._away, self._most_out()
        for name in sorted(faulty, key=lambda name: (*faulty[name], name)):
            if name in self._tainted or len(out) + (name not in out) <= most:
                granted.add(name)
                out.add(name)
        return frozenset(granted)

    def _most_out(self) -> int:
        """The most nodes that may be out of service."""
        most = self.rules.max_nodes_out
        return max(1, len(self.with_devices) // 10) if most is None else most

    def why_held_back(self) -> str:
        """How many nodes are out of service, and how many may be, in words."""
        out = counted(len(self._tainted | self._away), "node")
        return (
            f"{out} out of service, cordoned or not ready; policy.health.recovery.maxNodesOut of queue root allows "
            f"{self._most_out()}"
        )

    def to_recover(self) -> set[NodeName]:
        """Nodes with faults, or with a recovery that is under way or remembered."""
        return self._since.keys() | self._in_recovery

    def faults_of(self, pods: Iterable[PodFact]) -> dict[str, DeviceFault]:
        """Faults of the devices that these pods have, by the pod's uid, as far as gangs may be evicted for them."""
        if not self._of_pods:
            return {}
        return {
            pod.uid: self._of_pods[pod.node][pod.uid]
            for pod in pods
            if pod.node in self.granted and pod.uid in self._of_pods.get(pod.node, ())
        }

    def held_back(self) -> frozenset[NodeName]:
        """Nodes with pods on unhealthy devices that the circuit breaker keeps from being evicted."""
        return frozenset(self._of_pods.keys() - self.granted)

    def closed(self, name: NodeName) -> str:
        """Why a node takes no gangs, in words; "": it does."""
        fact = self._recoveries.get(name)
        if fact is None or not fact.kills_pods or name not in self.granted:
            return ""
        return f"closed to gangs: {fact.kills_pods}"

    def why_evicted(self, key: WorkloadKey) -> Mapping[NodeName, str]:
        """Nodes that are being recovered and from which a gang is evicted, each with why, in words."""
        return self._evicted.get(key, {})


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


class NodeHealth(NamedTuple):
    """The health of the nodes of a cluster at one moment."""

    #: Nodes with an unhealthy device.
    nodes: int = 0
    #: Unhealthy devices, by reason.
    faults: Mapping[str, int] = {}
    #: Closed nodes, by phase.
    closed: Mapping[str, int] = {}


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
        #: What pods get on the nodes of flavors, of those that state it.
        self.tolerations: Mapping[FlavorName, tuple[Toleration, ...]] = {}
        self.topologies: dict[str, TopologyFact] = {}
        self.hypernodes: dict[str, HyperNodeFact] = {}
        #: Nodes whose limit (allocatable minus foreign pods) is not stored yet.
        self.unsaved: dict[NodeName, None] = {}
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

    def put_node(self, name: NodeName, fact: NodeFact | None) -> None:
        """A node appeared, changed or went away."""
        replaced(self.nodes, name, fact)
        self.unsaved[name] = None
        self.closures.devices.put(name, fact)
        self._table = None
        self.faulty.put_node(name, fact)

    def tell_time(self, now: int) -> frozenset[NodeName]:
        """It is this second; nodes that may be closed now, or from which gangs may be evicted, or not any more."""
        changed = self.faulty.tell_time(now)
        if changed:
            self.unsaved.update(dict.fromkeys(changed & self.nodes.keys()))
            self._table = None
        return changed

    def health(self) -> NodeHealth:
        """The health of nodes as it is now."""
        faulty = [fact for fact in self.nodes.values() if fact.faults]
        closed = Counter({phase.value: 0 for phase in RecoveryPhase if phase.is_out})
        phases = (read_state(fact.recovery).phase for fact in self.nodes.values() if fact.recovery)
        closed.update(phase.value for phase in phases if phase.is_out)
        faults = Counter(fault.reason for fact in faulty for fault in fact.faults)
        return NodeHealth(nodes=len(faulty), faults=faults, closed=closed)

    def observe(self, change: Change) -> set[WorkloadKey]:
        """A ResourceFlavor, Topology, HyperNode, Reservation or NodeDrain appeared, changed or went away; or the
        recovery of a node asks for something else, of the workloads that are returned."""
        match change.kind, change.fact:
            case FactKind.NODE_RECOVERY, NodeRecoveryFact() | None:
                # Whether it takes gangs is in the table.
                self._table = None
                if change.key in self.nodes:
                    self.unsaved[NodeName(change.key)] = None
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
        self.tolerations = {
            FlavorName(each.name): each.tolerations for each in self.flavors.values() if each.tolerations
        }
        # The ledger bounds root per flavor, so it must learn each node's flavor again.
        self.unsaved.update(dict.fromkeys(self.nodes))

    def _put(self, facts: dict[str, Fact], name: str, fact: Fact | None) -> None:
        replaced(facts, name, fact)
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
        self.unsaved[node] = None
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

    def seats_on(self, node: NodeName) -> Resources:
        """What seats hold of a node."""
        return self._seats.get(node, NOTHING)

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
            self._table = NodeTable.build(self._rows(), self.levels(), tree, self._growth(), self.tolerations)
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
            why_not = self.why_not(name)
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
                load=fact.load,
                unhealthy=fact.unhealthy,
            )

    def _growth(self) -> tuple[FlavorGrowth, ...]:
        """What can be added to the flavors, if any of them states it."""
        if all(flavor.may_grow is None for flavor in self.flavors.values()):
            return ()
        return tuple(flavor.growth() for _, flavor in sorted(self.flavors.items()))

    def flavor(self, node: NodeName) -> FlavorName:
        """The flavor of a node that is there."""
        return _flavor(self.nodes[node].labels, sorted(self.flavors.values(), key=lambda flavor: flavor.name))

    def why_not(self, node: NodeName) -> str:
        """Why a node that is there may not take new pods, in words; "": it may."""
        fact = self.nodes[node]
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
