"""What a decision costs: ``decide`` alone, freezing and memo included.

The default policy counts, but for Kueue's large case.

``python -m tests.bench --only engine``, or ``python -m tests.bench.engine [CASE …]``. Times are of the processor,
so that others on the machine do not count. A decision is one workload that was admitted, or a class of equal
ones in one queue that got another reason.
"""

import gc
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from admission.containment.decision_child import DecisionChild
from admission.engine.memo import Memo
from admission.engine.pending.classes import ClassAnswers
from admission.garbage_collection import collect_seldom
from queues.plan import Plan
from queues.quota.queue import Queue, QueuePolicy
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey
from tests.bench.mark import Mark
from tests.bench.synthetic_world import DEFAULT, KEEP, NOW, SyntheticWorld, node_table, pods, queue, workload


def _quiet() -> None:
    """Garbage is collected as the controller does it."""
    collect_seldom()
    gc.collect()
    gc.freeze()


def empty_cluster() -> list[Mark]:
    """1,000 gangs of 8 pods onto 10,000 empty nodes, in one turn."""
    best = 9.9
    for _ in range(3):
        world = SyntheticWorld({QueueName(f"q{n}"): queue(f"q{n}") for n in range(10)}, node_table(10_000))
        world.arrive(workload(n + 1, f"q{n % 10}", pods(8, 1 + n % 2 * 3)) for n in range(1000))
        _quiet()
        plan = world.turn()
        assert len(plan.admits) == 1000
        best = min(best, world.seconds)
    return [_ms("1,000 gangs × 8 pods onto 10,000 empty nodes, one turn", best, 300, 150)]


def full_cluster() -> SyntheticWorld:
    """10,000 full nodes, 50,000 pending in 1,000 queues."""
    names = [f"q{n:03}" for n in range(1000)]
    world = SyntheticWorld({QueueName(name): queue(name) for name in names}, node_table(10_000))
    world.arrive(workload(n + 1, names[n % 1000], pods(4, 1)) for n in range(20_000))
    world.turn()
    shapes = [pods(8, 1), pods(1, 8), pods(4, 2), pods(16, 4), pods(2, 1)]
    world.arrive(workload(100_000 + n, names[n % 1000], shapes[n // 1000 % 5]) for n in range(50_000))
    world.turn()
    world.turn()
    return world


def steady() -> list[Mark]:
    """A turn with 50,000 pending on a full cluster: nothing changed, one gang ended, one that cannot fit."""
    world = full_cluster()
    _quiet()
    still, ended, refused = [], [], []
    for step in range(7):
        world.turn()
        world.now += 1
        plan = world.turn()
        assert not plan.changes_ledger()
        still.append(world.seconds)
        world.end(next(iter(world.admissions.freeze())))
        plan = world.turn()
        assert plan.frees
        ended.append(world.seconds)
        world.turn()
        world.arrive([workload(900_000 + step, "q007", pods(64, 8, rack=True))])
        plan = world.turn()
        refused.append(world.seconds)
    return [
        _ms("50,000 pending, 1,000 queues, 10,000 full nodes: nothing changed", min(still), 10, 5),
        _ms("50,000 pending, 1,000 queues, 10,000 full nodes: one gang ended", min(ended), 40, 20),
        _ms("the same: a required-rack gang comes and does not fit", min(refused), 2, 0.5),
    ]


def with_plugins() -> list[Mark]:
    """A turn in which one gang ended, 10,000 pending on 1,000 full nodes: in the process of plug-ins, and here."""
    took: dict[bool, float] = {}
    for in_child in (False, True):
        names = [f"q{n:02}" for n in range(100)]
        world = SyntheticWorld({QueueName(name): queue(name) for name in names}, node_table(1000))
        world.child = DecisionChild() if in_child else None
        world.arrive(workload(n + 1, names[n % 100], pods(4, 1)) for n in range(2000))
        world.turn()
        world.arrive(workload(100_000 + n, names[n % 100], pods(1 + n % 5, 2)) for n in range(10_000))
        world.turn()
        world.turn()
        _quiet()
        turns = []
        for _ in range(5):
            world.end(next(iter(world.admissions.freeze())))
            world.turn()
            turns.append(world.seconds)
            world.turn()
        took[in_child] = min(turns)
        if world.child is not None:
            world.child.end()
    return [
        _ms(
            "one gang ended, 10,000 pending, 1,000 nodes: with plug-ins, in their process",
            took[True],
            40,
            20,
        ),
        _ms("the same without plug-ins", took[False], 40, 20),
    ]


def rack_gang() -> list[Mark]:
    """A required-rack gang of the queue that fills 10,000 nodes: refused with its reason."""
    world = SyntheticWorld({QueueName("a"): queue("a"), QueueName("b"): queue("b")}, node_table(10_000))
    world.arrive(workload(n + 1, "a", pods(8, 8)) for n in range(1250))
    world.turn()
    world.turn()
    _quiet()
    took = []
    for step in range(20):
        world.arrive([workload(900_000 + step, "a", pods(8 + step % 3, 8, rack=True))])
        plan = world.turn()
        assert next(iter(plan.reasons.values())).code == "TopologyNoFit"
        took.append(world.seconds)
        world.pending.pop(next(iter(world.pending.freeze())))
        world.turn()
    return [_ms("required-rack gang on 10,000 full nodes: does not fit", min(took), 2, 0.5)]


#: Kueue's baseline generator: (workloads, milliseconds between arrivals, GPUs, runs for ms, priority) per queue.
BASELINE = ((350, 100, 1, 200, 50), (100, 500, 5, 500, 100), (50, 1200, 20, 1000, 200))
LARGE = ((35, 100, 1, 200, 50), (11, 500, 5, 500, 100), (4, 1200, 20, 1000, 200))


def kueue(
    cohorts: int,
    queues: int,
    nodes: int,
    classes: tuple[tuple[int, int, int, int, int], ...],
    policy: QueuePolicy = DEFAULT,
) -> tuple[float, float, SyntheticWorld]:
    """Seconds per decision, per admission.

    Virtual time in milliseconds; a turn every 10 ms in which something happened. Who is taken back for others
    comes again at once and runs as long as he would have at first.
    """
    tree: dict[QueueName, Queue] = {}
    events: list[tuple[int, int, int]] = []
    arrivals: dict[int, Workload] = {}
    runs: dict[WorkloadKey, int] = {}
    shapes = {gpus: pods(gpus, 1) for _, _, gpus, _, _ in classes}
    for cohort in range(cohorts):
        name = f"c{cohort}"
        tree[QueueName(name)] = queue(name, policy=policy, deserved=queues * 20, capability=queues * 20)
        for index in range(queues):
            own = f"c{cohort}-q{index}"
            tree[QueueName(own)] = queue(own, name, policy=policy, deserved=20, capability=120)
            for count, every, gpus, lasts, priority in classes:
                for number in range(count):
                    arrival = len(arrivals) + 1
                    comes = (number + 1) * every
                    created = NOW + comes // 1000
                    each = workload(arrival, own, shapes[gpus], priority=priority, created=created)
                    arrivals[arrival], runs[each.key] = each, lasts
                    heappush(events, (comes, 0, arrival))
    world = SyntheticWorld(tree, node_table(nodes))
    plan: Plan | None = None
    _quiet()
    tick = 0
    while events or world.ended:
        tick = tick + 10 if world.ended else events[0][0] // 10 * 10 + 10
        arrived = []
        while events and events[0][0] < tick:
            _, what, number = heappop(events)
            if what == 0:
                arrived.append(arrivals[number])
            else:
                world.end(AdmissionId(number))
        world.now = NOW + tick // 1000
        world.arrive(arrived)
        first = world._last
        plan, before = world.turn(), plan
        world.decisions += len(plan.admits) + _refused(plan, before)
        for index, admit in enumerate(plan.admits):
            heappush(events, (tick + runs[admit.workload], 1, first + index + 1))
    assert world.admitted - world.evicted == len(arrivals), (world.admitted, world.evicted, len(arrivals))
    return world.total / world.decisions, world.total / world.admitted, world


def _refused(plan: Plan, before: Plan | None) -> int:
    """Classes that got another reason, or whose members changed, since the turn before."""
    assert isinstance(plan.reasons, ClassAnswers)
    known = before.reasons.classes if before is not None and isinstance(before.reasons, ClassAnswers) else {}
    return sum(known.get(name) is not verdict for name, verdict in plan.reasons.classes.items())


def reclaiming() -> SyntheticWorld:
    """500 full nodes: 4,000 one-GPU jobs of a queue that has twice its share."""
    world = SyntheticWorld({QueueName(name): queue(name) for name in ("over", "under")}, node_table(500))
    world.now -= 4000
    for part in range(10):
        world.arrive(workload(part * 400 + n, "over", pods(1, 1)) for n in range(400))
        world.turn()
        world.now += 60 * (part + 1)
    world.now = NOW
    world.turn()
    assert world.admitted == 4000
    return world


def reclaim() -> list[Mark]:
    """4,000 single jobs, or one gang of 50 whole nodes, get back what was lent; with and without a memo."""
    took: dict[tuple[str, bool], list[float]] = {}
    for step in range(6):
        for what in ("jobs", "gang"):
            world, warm = reclaiming(), step % 2 == 0
            if what == "jobs":
                world.arrive(workload(10_000 + n, "under", pods(1, 1)) for n in range(4000))
            else:
                world.arrive([workload(10_000, "under", pods(50, 8))])
            if not warm:
                world.memo = Memo()
            _quiet()
            plan = world.turn()
            assert len(plan.evicts) == (2000 if what == "jobs" else 400), len(plan.evicts)
            took.setdefault((what, warm), []).append(world.seconds)
    return [
        _ms("reclaim, 500 nodes: 4,000 jobs of 1 GPU from 4,000 others", min(took["jobs", True]), 1000, 200),
        _ms("the same without a memo", min(took["jobs", False]), 1000, 200),
        _ms("reclaim, 500 nodes: one gang of 50 × 8 GPUs", min(took["gang", True]), 100, 30),
        _ms("the same without a memo", min(took["gang", False]), 100, 30),
    ]


def _ms(name: str, seconds: float, must: float, aim: float) -> Mark:
    return Mark(name=name, reached=seconds * 1000, unit="ms", must=must, aim=aim, upwards=False)


def generator() -> list[Mark]:
    """Kueue's baseline in virtual time, and its large case beside it: as rules are by default, and nobody evicted."""
    small, _, _ = kueue(5, 6, 75, BASELINE)
    large, _, _ = kueue(10, 100, 2500, LARGE)
    kept, _, _ = kueue(5, 6, 75, BASELINE, KEEP)
    large_kept, _, _ = kueue(10, 100, 2500, LARGE, KEEP)
    return [
        Mark(
            name="Kueue's baseline generator",
            reached=1 / small,
            unit="decisions/s",
            must=14_000,
            aim=25_000,
            upwards=True,
        ),
        _ratio("large case ÷ the above, cost per decision", large / small, must=1.3),
        _ratio("the same, nobody evicted", large_kept / kept, must=2),
    ]


def _ratio(name: str, reached: float, must: float) -> Mark:
    return Mark(name=name, reached=reached, unit="×", must=must, aim=1, upwards=False)


def memory() -> list[Mark]:
    """10,000 nodes, 50,000 pending, 20,000 running, in a process of its own that loads nothing but the engine."""
    command = "from tests.bench.engine import peak_of_full_cluster; print(peak_of_full_cluster())"
    printed = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True)
    return [
        Mark(
            name="10,000 nodes, 50,000 pending, 20,000 running: memory",
            reached=float(printed.stdout),
            unit="MB",
            must=400,
            aim=250,
            upwards=False,
        )
    ]


def peak_of_full_cluster() -> float:
    """The most MB that this process ever had, with such a cluster in it."""
    full_cluster().turn()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CASES: Mapping[str, Callable[[], list[Mark]]] = {
    "memory": memory,
    "empty": empty_cluster,
    "steady": steady,
    "rack": rack_gang,
    "plugins": with_plugins,
    "reclaim": reclaim,
    "generator": generator,
}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        for mark in CASES[case]():
            print(mark.line(), flush=True)
