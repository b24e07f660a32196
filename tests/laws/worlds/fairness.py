"""Small worlds in which nothing is lost between nodes, and every queue asks in one shape: those of fairness.py."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey
from tests.builders.decided_work import a_snapshot
from tests.laws.worlds.plan_effects import apply, drained
from tests.laws.worlds.snapshots import CPU, GPU, NOW

#: Resources of a pool; amounts are whole units of them.
POOLED = (GPU, CPU)
#: Seconds after which everybody has waited for long, and nobody is protected because of evictions: what was lent is got
#: back even in pieces larger than the loan.
LONG = 86_400

Amounts = tuple[int, int]


def vector(units: Amounts) -> Resources:
    """Whole GPUs and CPUs."""
    return Resources({name: number * 1000 for name, number in zip(POOLED, units, strict=True) if number})


def pool(units: Amounts) -> NodeTable:
    """One machine: what fits into the sum fits."""
    name = NodeName("n0")
    return NodeTable.build(
        [Node(name=name, allocatable=vector(units) + Resources({"pods": 500}), labels={HOST: name})]
    )


def racks(nodes: int, gpus: int) -> NodeTable:
    """Machines of one kind: what fits into the sum fits if nobody asks for more than one GPU."""
    return NodeTable.build(
        [
            Node(
                name=NodeName(f"n{number}"),
                allocatable=vector((gpus, 4 * gpus)) + Resources({"pods": 100}),
                labels={HOST: f"n{number}", "rack": f"r{number // 2}"},
            )
            for number in range(nodes)
        ],
        [("rack", HOST)],
    )


def work(queue: QueueName, number: int, units: Amounts, arrival: int) -> Workload:
    """One pod of a shape."""
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"{queue}-{number:03}"),
        namespace="team",
        name=f"{queue}-{number:03}",
        queue=queue,
        arrival=arrival,
        created=NOW - 10,
        minimum=1,
        generation="1",
        pod_sets=(PodSet(name="main", count=1, takes=vector(units) + Resources({"pods": 1})),),
    )


def world(nodes: NodeTable, queues: Iterable[Queue], waiting: Iterable[Workload]) -> Snapshot:
    """Nothing runs yet."""
    return a_snapshot(*waiting, queues=queues, nodes=nodes, now=NOW)


_shapes = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any)


@st.composite
def pools(draw: st.DrawFn, *, plain: bool = False) -> Snapshot:
    """A few queues, one shape each, more work than the cluster holds or less. ``plain``: weights are all they have."""
    flat = draw(st.booleans())
    spread = draw(st.booleans())
    nodes = (
        racks(draw(st.integers(1, 4)), draw(st.sampled_from([2, 4])))
        if spread
        else pool((draw(st.integers(2, 14)), draw(st.integers(2, 14))))
    )
    queues = draw(_queues(nodes.capacity(), flat=flat, plain=plain))
    parents = {each.parent for each in queues}
    leaves = [each.name for each in queues if each.name not in parents]
    # In a tree a queue is represented by the head of one child; what another child asks else has no say.
    one = draw(st.sampled_from([(1, 0), (2, 0)]))
    waiting: list[Workload] = []
    for name in leaves:
        shape: Amounts = draw(st.just((1, 0)) if spread else st.just(one) if not flat else _shapes)
        for number in range(draw(st.sampled_from([0, 1, 2, 3, 5, 16]))):
            arrival = 1 + len(leaves) * number + leaves.index(name)
            waiting.append(work(name, number, shape, arrival))
    return world(nodes, queues, waiting)


def enlarged(snapshot: Snapshot, more: int) -> Snapshot:
    """More of the same: a larger machine, or more machines."""
    layout = snapshot.nodes.layout
    allocatable, _ = snapshot.nodes[layout.names[0]]
    if len(layout.names) == 1:
        units = (allocatable[GPU] // 1000 + more, allocatable[CPU] // 1000 + more // 2)
        return replace(snapshot, nodes=pool(units))
    return replace(snapshot, nodes=racks(len(layout.names) + more, allocatable[GPU] // 1000))


def capped(snapshot: Snapshot, limits: Mapping[QueueName, int]) -> Snapshot:
    """The same with queues that may use so many GPUs, or what they are guaranteed or deserve if that is more."""
    queues = dict(snapshot.queues)
    for name in limits.keys() & queues.keys():
        mine = queues[name].limits
        least = max(mine.deserved.get(GPU, 0), mine.guarantee[GPU], limits[name] * 1000)
        queues[name] = replace(queues[name], limits=replace(mine, capability={GPU: least}))
    return replace(snapshot, queues=queues)


@st.composite
def _queues(draw: st.DrawFn, capacity: Resources, *, flat: bool, plain: bool) -> list[Queue]:
    """Children never deserve more together than their parent, or the parent could not keep the promise."""
    left = {name: capacity[name] // 1000 for name in POOLED}
    queues = []
    for number in range(draw(st.integers(2, 4))):
        deserved, guarantee = {}, {}
        for name in () if plain else POOLED:
            if draw(st.integers(0, 2)) == 0:
                units = draw(st.integers(0, left[name]))
                left[name] -= units
                deserved[name] = units * 1000
                guarantee[name] = draw(st.integers(0, units)) * 1000
        queues.append(
            Queue(
                name=QueueName(f"q{number}"),
                weight=draw(st.integers(1, 3)),
                limits=Limits(deserved=deserved, guarantee=Resources(guarantee)),
            )
        )
    if not flat:
        inner = queues[0].name
        queues += [
            Queue(name=QueueName(f"{inner}-{each}"), parent=inner, weight=draw(st.integers(1, 3)))
            for each in "ab"
        ]
    return queues


# ── what comes out ──────────────────────────────────────────────────────────────────────────────────────────────


def plan_of(snapshot: Snapshot) -> Plan:
    """The plan without any memo."""
    return engine.decide(snapshot, Memo())[0]


def tree_of(snapshot: Snapshot) -> QueueTree:
    """The queues with what they deserve."""
    return QueueTree.build(snapshot.queues, snapshot.nodes.capacity())


def shape_of(snapshot: Snapshot, queue: QueueName) -> Resources:
    """What one workload of the queue takes of what is shared."""
    every = [*snapshot.pending.values(), *snapshot.holders.values()]
    takes = next(each.pod_sets[0].takes for each in every if each.queue == queue)
    return Resources({name: units for name, units in takes.items() if name in POOLED})


def held(snapshot: Snapshot) -> Counter[QueueName]:
    """Workloads that run, by queue."""
    return Counter(each.queue for each in snapshot.admissions.values())


def wanted(snapshot: Snapshot) -> Counter[QueueName]:
    """Workloads that run or wait, by queue."""
    keys = {**snapshot.pending, **snapshot.holders}
    return Counter(each.queue for each in keys.values())


def at_rest(snapshot: Snapshot, turns: int = 200) -> Snapshot:
    """The world when nobody is moved any more, who ever has waited for long."""
    rested = False
    for _ in range(turns):
        plan = plan_of(snapshot)
        if plan.changes_ledger():
            in_now = {admit.workload: snapshot.pending[admit.workload] for admit in plan.admits}
            snapshot = drained(apply(snapshot, plan))
            snapshot = replace(snapshot, holders={**snapshot.holders, **in_now})
        elif rested:
            return snapshot
        else:
            rested, snapshot = True, replace(snapshot, now=snapshot.now + LONG)
    raise AssertionError("still moving")
