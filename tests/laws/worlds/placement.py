"""Small worlds for placement, and exhaustive answers: every way to put the pods is tried."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from queues import kind_names
from queues.plan import Admit
from queues.quota.queue import Queue
from queues.resources import GPU, NOTHING, Resources
from queues.workload import (
    HostPort,
    NodeName,
    Partition,
    PodSet,
    Preference,
    QueueName,
    Requirement,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_node, a_snapshot

BLOCK, RACK = "block", "rack"

LEVELS = (BLOCK, RACK, HOST)
CPU = "cpu"
#: Sizes of nested parts, with the levels they may have.
PARTS = (
    (),
    ((2, RACK),),
    ((2, HOST),),
    ((3, RACK),),
    ((4, RACK), (2, HOST)),
    ((4, BLOCK), (2, RACK)),
    ((2, BLOCK), (1, HOST)),
)

Counts = tuple[int, ...]
Ports = Mapping[NodeName, tuple[HostPort, ...]]


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """At most five nodes in two racks of one block and one of another; some nodes are in none, and some are used in
    part: what would fit into an empty rack may not fit into any."""
    return [draw(_nodes(number)) for number in range(draw(st.integers(1, 5)))]


@st.composite
def _nodes(draw: st.DrawFn, number: int) -> Node:
    used = Resources({GPU: draw(st.integers(0, 4)) * 1000})
    free = Resources(
        {
            GPU: draw(st.integers(0, 4)) * 1000,
            CPU: draw(st.sampled_from([2, 4, 8])) * 1000,
            "pods": 10,
        }
    )
    return Node(
        name=NodeName(f"n{number}"),
        allocatable=free + used,
        used=used,
        labels={HOST: f"n{number}", "fast": str(draw(st.integers(0, 1)))}
        | ({} if draw(st.integers(0, 9)) == 5 else draw(st.sampled_from(_PLACES))),
    )


_PLACES = ({BLOCK: "a", RACK: "r0"}, {BLOCK: "a", RACK: "r1"}, {BLOCK: "b", RACK: "r0"})


@st.composite
def pod_sets(draw: st.DrawFn) -> PodSet:
    """Up to twelve pods of one GPU, in parts or not, with a level or not."""
    parts = draw(st.sampled_from(PARTS))
    size = parts[0][0] if parts else 1
    close = draw(st.sampled_from([(None, None), (RACK, None), (BLOCK, None), (HOST, None), (None, RACK)]))
    return PodSet(
        name="workers",
        count=size * draw(st.integers(1, max(1, 12 // size))),
        takes=Resources({GPU: 1000, CPU: draw(st.sampled_from([0, 1000])), "pods": 1}),
        required_topology=close[0],
        preferred_topology=close[1],
        partitions=tuple(Partition(size=size, level=level) for size, level in parts),
        balanced=draw(st.booleans()),
    )


def leader(cpu: int, required: str | None) -> PodSet:
    """One pod without a GPU that goes with the workers."""
    return PodSet(
        name="leader",
        count=1,
        takes=Resources({CPU: cpu * 1000, "pods": 1}),
        required_topology=required,
        together="both",
    )


def narrow(*machines: tuple[str, int, int]) -> list[Node]:
    """Nodes by block, CPUs and GPUs; each block has one rack."""
    return [
        a_node(
            f"n{number}",
            {GPU: gpus * 1000, CPU: cpus * 1000, "pods": 10},
            labels={"fast": "1", BLOCK: block, RACK: "r0"},
        )
        for number, (block, cpus, gpus) in enumerate(machines)
    ]


def in_racks(count: int, size: int) -> PodSet:
    """Pods of one CPU and one GPU, in parts that stay in one rack."""
    return PodSet(
        name="workers",
        count=count,
        takes=Resources({GPU: 1000, CPU: 1000, "pods": 1}),
        partitions=(Partition(size=size, level=RACK),),
    )


def answer(nodes: Sequence[Node], *sets: PodSet, ports: Ports | None = None) -> Admit | None:
    """What the engine does with one workload of these sets, alone in its queue."""
    workload = Workload(
        key=WorkloadKey(kind_names.JOB, "1"),
        namespace="team",
        name="one",
        queue=QueueName("q"),
        arrival=1,
        minimum=sum(pods.count for pods in sets),
        pod_sets=sets,
    )
    table = NodeTable.build(nodes, [LEVELS])
    snapshot = a_snapshot(
        workload, queues=[Queue(name=QueueName("q"))], nodes=table.with_ports(ports or {}), now=1
    )
    plan, _ = decide(snapshot, Memo())
    return plan.admits[0] if plan.admits else None


def domain(node: Node, level: str) -> tuple[str, ...] | None:
    """Labels down to the level; None: the node lacks one of them."""
    path = tuple(node.labels.get(key, "") for key in LEVELS[: LEVELS.index(level) + 1])
    return (node.name,) if level == HOST else path if all(path) else None


def room(node: Node, takes: Resources, without: Resources = NOTHING) -> int:
    """How many such pods a node takes beside another pod."""
    left = node.allocatable - node.used - without
    return max(0, min(left.get(name) // units for name, units in takes.items() if units))


def ways(nodes: Sequence[Node], pods: PodSet, rooms: Sequence[int]) -> Iterator[Counts]:
    """Every number of pods per node that keeps the level and the parts of the set."""
    for counts in product(*(range(min(most, pods.count) + 1) for most in rooms)):
        if sum(counts) == pods.count and is_kept(nodes, pods, counts):
            yield counts


def is_kept(nodes: Sequence[Node], pods: PodSet, counts: Sequence[int]) -> bool:
    """All in one domain of the required level, and in every domain of a part's level whole parts only."""
    for level, unit in [
        *([(pods.required_topology, pods.count)] if pods.required_topology else []),
        *((part.level, part.size) for part in pods.partitions if part.required),
    ]:
        sums: dict[tuple[str, ...] | None, int] = {}
        for node, count in zip(nodes, counts, strict=True):
            place = domain(node, level)
            sums[place] = sums.get(place, 0) + count
        if any(count % unit or (count and place is None) for place, count in sums.items()):
            return False
    return True


def ordinals_kept(nodes: Sequence[Node], pods: PodSet, admit: Admit) -> bool:
    """The same, part by part, by the ordinals that were given."""
    at = {node.name: node for node in nodes}
    seats = {seat.ordinal: at[seat.node] for seat in admit.seats if seat.pod_set == pods.name}
    return all(
        len({domain(seats[ordinal], part.level) for ordinal in range(first, first + part.size)}) == 1
        for part in pods.partitions
        for first in range(0, pods.count, part.size)
    )


def counted(nodes: Sequence[Node], admit: Admit, name: str) -> Counts:
    """Pods of a set per node."""
    return tuple(
        sum(seat.node == node.name and seat.pod_set == name for seat in admit.seats) for node in nodes
    )


def prefers(weight: int) -> tuple[Preference, ...]:
    """Nodes that are fast."""
    return (Preference(weight, (Requirement("fast", "In", ("1",)),)),)
