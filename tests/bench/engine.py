"""What a decision costs: ``decide`` alone, on worlds made up in memory, freezing and memo included.

``python -m tests.bench --only engine``, or ``python -m tests.bench.engine [CASE …]``. Times are of the processor,
so that others on the machine do not count. A decision is one workload that was admitted, or a class of equal
ones in one queue that got another reason.
"""

import gc
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from time import process_time

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan import Plan
from admission.engine.snapshot import Snapshot
from admission.engine.topology import HOST, Node, NodeTable
from admission.engine.verdicts import Verdicts
from queues.quota import Limits, Queue, QueuePolicy
from queues.resources import NOTHING, Resources
from queues.rows import Register
from queues.workload import (
    Admission,
    AdmissionId,
    AdmissionState,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadKind,
)
from tests.bench.report import Mark

GPU, CPU, MEMORY = "nvidia.com/gpu", "cpu", "memory"
NOW = 1_700_000_000
RACK = 16
NEVER = QueuePolicy(within_queue="never", reclaim="never", clear_after=10**9)


def node_table(count: int) -> NodeTable:
    """Nodes with 8 GPUs, 16 to a rack, 16 racks to a block."""
    offers = Resources({GPU: 8000, CPU: 128_000, MEMORY: 2**40, "pods": 110})
    nodes = (
        Node(
            name=NodeName(f"n{number:05}"),
            allocatable=offers,
            labels={HOST: f"n{number:05}", "rack": f"r{number // RACK:04}", "block": f"b{number // 256:03}"},
        )
        for number in range(count)
    )
    return NodeTable.build(nodes, [("block", "rack", HOST)])


def pods(count: int, gpus: int = 1, *, rack: bool = False) -> PodSet:
    """So many pods of one shape."""
    takes = Resources({GPU: gpus * 1000, CPU: gpus * 8000, MEMORY: gpus * 2**34, "pods": 1})
    return PodSet(name="main", count=count, takes=takes, required_topology="rack" if rack else None)


def workload(number: int, queue: str, asks: PodSet, *, priority: int = 0) -> Workload:
    """A gang that starts whole."""
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, f"00000000-0000-0000-0000-{number:012}"),
        namespace=f"team-{queue}",
        name=f"job-{number}",
        queue=QueueName(queue),
        priority=priority,
        arrival=number,
        created=NOW - 600,
        minimum=asks.count,
        pod_sets=(asks,),
        generation="1",
    )


def queue(name: str, parent: str = "root", *, policy: QueuePolicy = NEVER, **limits: int) -> Queue:
    """A queue with limits in GPUs."""
    gpus = {what: {GPU: units * 1000} for what, units in limits.items()}
    return Queue(
        name=QueueName(name),
        parent=QueueName(parent),
        limits=Limits(
            guarantee=Resources(gpus.get("guarantee", {})),
            deserved=gpus.get("deserved", {}),
            capability=gpus.get("capability", {}),
        ),
        policy=policy,
    )


@dataclass
class Yard:
    """A world in memory: everything that ``decide`` sees, changed as the controller's world is."""

    queues: Mapping[QueueName, Queue]
    nodes: NodeTable
    now: int = NOW
    pending: Register[WorkloadKey, Workload] = field(default_factory=Register)
    admissions: Register[AdmissionId, Admission] = field(default_factory=Register)
    holders: Register[WorkloadKey, Workload] = field(default_factory=Register)
    memo: Memo = field(default_factory=Memo)
    ended: dict[AdmissionId, frozenset[int]] = field(default_factory=dict)
    #: Seconds of the last turn, and of all.
    seconds: float = 0.0
    total: float = 0.0
    decisions: int = 0
    admitted: int = 0
    turns: int = 0
    _moved: dict[NodeName, Resources] = field(default_factory=dict)
    _last: int = 0

    def arrive(self, workloads: Iterable[Workload]) -> None:
        for each in workloads:
            self.pending.put(each.key, each)

    def turn(self) -> Plan:
        """Freeze and decide, timed; then apply, not timed."""
        began = process_time()
        if self._moved:
            self.nodes, self._moved = self.nodes.with_used(self._moved), {}
        snapshot = Snapshot(
            now=self.now,
            queues=self.queues,
            nodes=self.nodes,
            pending=self.pending.freeze(),
            admissions=self.admissions.freeze(),
            holders=self.holders.freeze(),
            ended=self.ended,
        )
        plan, self.memo = decide(snapshot, self.memo)
        self.seconds = process_time() - began
        self.total += self.seconds
        self.turns += 1
        self.admitted += len(plan.admits)
        self._apply(plan, snapshot)
        return plan

    def _apply(self, plan: Plan, snapshot: Snapshot) -> None:
        self.ended = {}
        for free in plan.frees:
            admission = snapshot.admissions[free.admission]
            self._post(admission, [admission.seats[index] for index in free.seats], -1)
            self.admissions.pop(free.admission)
            self.holders.pop(admission.workload)
        for evict in plan.evicts:
            admission = snapshot.admissions[evict.admission]
            self.admissions.put(evict.admission, replace(admission, state=AdmissionState.EVICTING))
        for admit in plan.admits:
            self._last += 1
            id_ = AdmissionId(self._last)
            admission = Admission(
                id=id_,
                workload=admit.workload,
                namespace=admit.namespace,
                name=admit.name,
                queue=admit.queue,
                priority=admit.priority,
                seats=admit.seats,
                started=True,
                opened_at=self.now,
                generation=admit.generation,
            )
            self.admissions.put(id_, admission)
            self._post(admission, admission.seats, 1)
            waiting = self.pending.get(admit.workload)
            assert waiting is not None
            self.holders.put(admit.workload, waiting)
            self.pending.pop(admit.workload)

    def _post(self, admission: Admission, seats: Iterable[object], sign: int) -> None:
        for seat in seats:
            takes = seat.takes if sign > 0 else NOTHING - seat.takes  # type: ignore[attr-defined]
            node = seat.node  # type: ignore[attr-defined]
            before = self._moved.get(node)
            self._moved[node] = takes if before is None else before + takes

    def end(self, id_: AdmissionId) -> None:
        """All pods of an admission are over."""
        admission = self.admissions.get(id_)
        assert admission is not None
        self.ended[id_] = frozenset(range(len(admission.seats)))


def _quiet() -> None:
    gc.collect()
    gc.freeze()


def empty_cluster() -> list[Mark]:
    """1,000 gangs of 8 pods onto 10,000 empty nodes, in one turn."""
    best = 9.9
    for _ in range(3):
        yard = Yard({QueueName(f"q{n}"): queue(f"q{n}") for n in range(10)}, node_table(10_000))
        yard.arrive(workload(n + 1, f"q{n % 10}", pods(8, 1 + n % 2 * 3)) for n in range(1000))
        _quiet()
        plan = yard.turn()
        assert len(plan.admits) == 1000
        best = min(best, yard.seconds)
    return [_ms("1,000 gangs × 8 pods onto 10,000 empty nodes, one turn", best, 300, 150)]


def full_cluster() -> Yard:
    """10,000 full nodes, 50,000 pending in 1,000 queues."""
    names = [f"q{n:03}" for n in range(1000)]
    yard = Yard({QueueName(name): queue(name) for name in names}, node_table(10_000))
    yard.arrive(workload(n + 1, names[n % 1000], pods(4, 1)) for n in range(20_000))
    yard.turn()
    shapes = [pods(8, 1), pods(1, 8), pods(4, 2), pods(16, 4), pods(2, 1)]
    yard.arrive(workload(100_000 + n, names[n % 1000], shapes[n // 1000 % 5]) for n in range(50_000))
    yard.turn()
    yard.turn()
    return yard


def steady() -> list[Mark]:
    """A turn with 50,000 pending on a full cluster: nothing changed, one gang ended, one that cannot fit."""
    yard = full_cluster()
    _quiet()
    still, ended, refused = [], [], []
    for step in range(7):
        yard.turn()
        yard.now += 1
        plan = yard.turn()
        assert not plan.changes_ledger()
        still.append(yard.seconds)
        yard.end(next(iter(yard.admissions.freeze())))
        plan = yard.turn()
        assert plan.frees
        ended.append(yard.seconds)
        yard.turn()
        yard.arrive([workload(900_000 + step, "q007", pods(64, 8, rack=True))])
        plan = yard.turn()
        refused.append(yard.seconds)
    return [
        _ms("50,000 pending, 1,000 queues, 10,000 full nodes: nothing changed", min(still), 10, 5),
        _ms("50,000 pending, 1,000 queues, 10,000 full nodes: one gang ended", min(ended), 40, 20),
        _ms("the same: a required-rack gang comes and does not fit", min(refused), 2, 0.5),
    ]


def rack_gang() -> list[Mark]:
    """A required-rack gang on a full cluster of 10,000 nodes: refused with its reason."""
    yard = Yard({QueueName("a"): queue("a"), QueueName("b"): queue("b")}, node_table(10_000))
    yard.arrive(workload(n + 1, "a", pods(8, 8)) for n in range(1250))
    yard.turn()
    yard.turn()
    _quiet()
    took = []
    for step in range(20):
        yard.arrive([workload(900_000 + step, "b", pods(8 + step % 3, 8, rack=True))])
        plan = yard.turn()
        assert next(iter(plan.reasons.values())).code == "TopologyNoFit"
        took.append(yard.seconds)
        yard.pending.pop(next(iter(yard.pending.freeze())))
        yard.turn()
    return [_ms("required-rack gang on 10,000 full nodes: does not fit", min(took), 2, 0.5)]


#: Kueue's baseline generator: (workloads, milliseconds between arrivals, GPUs, runs for ms, priority) per queue.
BASELINE = ((350, 100, 1, 200, 50), (100, 500, 5, 500, 100), (50, 1200, 20, 1000, 200))
LARGE = ((35, 100, 1, 200, 50), (11, 500, 5, 500, 100), (4, 1200, 20, 1000, 200))


def kueue(
    cohorts: int, queues: int, nodes: int, classes: tuple[tuple[int, int, int, int, int], ...]
) -> tuple[float, float, Yard]:
    """Seconds per decision, per admission.

    Virtual time in milliseconds; a turn every 10 ms in which something happened.
    """
    tree: dict[QueueName, Queue] = {}
    events: list[tuple[int, int, int]] = []
    arrivals: dict[int, Workload] = {}
    runs: dict[WorkloadKey, int] = {}
    shapes = {gpus: pods(gpus, 1) for _, _, gpus, _, _ in classes}
    for cohort in range(cohorts):
        name = f"c{cohort}"
        tree[QueueName(name)] = queue(name, deserved=queues * 20, capability=queues * 20)
        for index in range(queues):
            own = f"c{cohort}-q{index}"
            tree[QueueName(own)] = queue(own, name, deserved=20, capability=120)
            for count, every, gpus, lasts, priority in classes:
                for number in range(count):
                    arrival = len(arrivals) + 1
                    each = workload(arrival, own, shapes[gpus], priority=priority)
                    arrivals[arrival], runs[each.key] = each, lasts
                    heappush(events, ((number + 1) * every, 0, arrival))
    yard = Yard(tree, node_table(nodes))
    plan: Plan | None = None
    _quiet()
    while events:
        tick = events[0][0] // 10 * 10 + 10
        arrived = []
        while events and events[0][0] < tick:
            _, what, number = heappop(events)
            if what == 0:
                arrived.append(arrivals[number])
            else:
                yard.end(AdmissionId(number))
        yard.now = NOW + tick
        yard.arrive(arrived)
        first = yard._last
        plan, before = yard.turn(), plan
        yard.decisions += len(plan.admits) + _refused(plan, before)
        for index, admit in enumerate(plan.admits):
            heappush(events, (tick + runs[admit.workload], 1, first + index + 1))
    assert yard.admitted == len(arrivals), (yard.admitted, len(arrivals))
    return yard.total / yard.decisions, yard.total / yard.admitted, yard


def _refused(plan: Plan, before: Plan | None) -> int:
    """Classes that got another reason, or whose members changed, since the turn before."""
    assert isinstance(plan.reasons, Verdicts)
    known = before.reasons.classes if before is not None and isinstance(before.reasons, Verdicts) else {}
    return sum(known.get(name) is not verdict for name, verdict in plan.reasons.classes.items())


def _ms(name: str, seconds: float, must: float, aim: float) -> Mark:
    return Mark(name=name, reached=seconds * 1000, unit="ms", must=must, aim=aim, upwards=False)


def generator() -> list[Mark]:
    """Kueue's baseline in virtual time, and its large case."""
    small, _, _ = kueue(5, 6, 75, BASELINE)
    large, _, _ = kueue(10, 100, 2500, LARGE)
    return [
        Mark(
            name="Kueue's baseline generator",
            reached=1 / small,
            unit="decisions/s",
            must=8000,
            aim=20000,
            upwards=True,
        ),
        Mark(
            name="large case: cost per decision ÷ the above",
            reached=large / small,
            unit="×",
            must=2,
            aim=1,
            upwards=False,
        ),
    ]


def memory() -> list[Mark]:
    """10,000 nodes, 50,000 pending, 20,000 running."""
    yard = full_cluster()
    yard.turn()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Mark(
            name="10,000 nodes, 50,000 pending, 20,000 running: memory",
            reached=peak,
            unit="MB",
            must=400,
            aim=250,
            upwards=False,
        )
    ]


CASES: Mapping[str, Callable[[], list[Mark]]] = {
    "memory": memory,  # first: it is the peak of the process
    "empty": empty_cluster,
    "steady": steady,
    "rack": rack_gang,
    "generator": generator,
}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        for mark in CASES[case]():
            print(mark.line(), flush=True)
