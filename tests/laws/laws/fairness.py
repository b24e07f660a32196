"""Laws of sharing, and the small worlds they are stated for. Each takes a snapshot and raises AssertionError.

The properties are those of dominant resource fairness (Ghodsi et al., NSDI 2011, section 3): sharing incentive,
strategy-proofness, and in the place of resource monotonicity, which DRF does not have, that more capacity does not
hurt everybody. They are proved there for work that can be divided at will. Pods cannot, so each law says what is
left of the property, and the worlds are those in which that much is exact: nothing is lost between nodes (a pool),
and every queue asks in one shape, as every user of the paper does.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product

from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.plan import Plan
from queues.quota.accounts import Account
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload, WorkloadKey
from tests.laws.worlds.fairness import (
    Amounts,
    at_rest,
    held,
    plan_of,
    pool,
    shape_of,
    tree_of,
    vector,
    wanted,
    work,
    world,
)

# ── sharing incentive ───────────────────────────────────────────────────────────────────────────────────────────


def slice_holds(tree: QueueTree, queue: QueueName, shape: Resources) -> int:
    """How many workloads of that shape a cluster of its own of what the queue deserves would hold."""
    return min(tree.deserved(queue, Account(NO_FLAVOR, name)) // units for name, units in shape.items())


def sharing_incentive(snapshot: Snapshot, first: frozenset[QueueName]) -> None:
    """Every queue holds at least what a cluster of its own, of what it deserves, would hold; or all it wants.

    Exactly, and whoever was there before: the work of the queues ``first`` comes first and takes what it can, the
    others get theirs back by reclaim. It is assumed that the children of a queue do not deserve more than it does
    and that nothing is protected. The property is that of section 3 of the paper with ``deserved`` for 1/n.
    """
    early = {key: each for key, each in snapshot.pending.items() if each.queue in first}
    begun = at_rest(replace(snapshot, pending=early))
    late = {key: each for key, each in snapshot.pending.items() if each.queue not in first}
    rest = at_rest(replace(begun, pending={**begun.pending, **late}))
    _holds_its_slice(rest)


def _holds_its_slice(rest: Snapshot) -> None:
    """No queue wants more and has less than its slice."""
    tree, has, wants = tree_of(rest), held(rest), wanted(rest)
    for queue in wants:
        due = min(wants[queue], slice_holds(tree, queue, shape_of(rest, queue)))
        assert has[queue] >= due, f"{queue} holds {has[queue]}, a slice of its own would hold {due}"


def below_share_before_above_share(snapshot: Snapshot) -> None:
    """Nobody who has what it deserves is admitted while somebody who has less waits and would fit.

    In one turn, for queues without guarantees, over all that is asked; who has less is asked where the paths of the
    two queues meet.
    """
    tree, plan = tree_of(snapshot), plan_of(snapshot)
    used: dict[QueueName, Resources] = dict.fromkeys(tree.paths, Resources())
    left = {queue: list(_waiting_in(snapshot, queue)) for queue in snapshot.queues}
    free = snapshot.nodes.capacity()

    def below(queue: QueueName, other: QueueName, shape: Resources) -> bool:
        top = next(name for name in reversed(tree.paths[queue]) if name not in tree.paths[other])
        return all(used[top][name] < tree.deserved(top, Account(NO_FLAVOR, name)) for name in shape)

    for admit in plan.admits:
        mine, shape = admit.queue, shape_of(snapshot, admit.queue)
        for other in (queue for queue, waits in left.items() if waits and queue != mine):
            asks = shape_of(snapshot, other)
            if all(units <= free[name] for name, units in asks.items()) and below(other, mine, asks):
                assert below(mine, other, shape), f"{mine} before {other}"
        left[mine].remove(admit.workload)
        for name in tree.paths[mine]:
            used[name] = used[name] + shape
        free = free - shape


def _waiting_in(snapshot: Snapshot, queue: QueueName) -> Iterator[WorkloadKey]:
    return (key for key, each in snapshot.pending.items() if each.queue == queue)


def guarantee_is_there_at_once(snapshot: Snapshot, owner: QueueName) -> None:
    """What is guaranteed to a queue that was idle goes to it in the turn in which it asks; nobody is evicted for it."""
    mine = {key: each for key, each in snapshot.pending.items() if each.queue == owner}
    others = {key: each for key, each in snapshot.pending.items() if each.queue != owner}
    rest = at_rest(replace(snapshot, pending=others))
    plan = plan_of(replace(rest, pending={**rest.pending, **mine}))
    got = sum(admit.queue == owner for admit in plan.admits)
    tree = tree_of(snapshot)
    guaranteed = [
        tree.guarantee(owner, Account(NO_FLAVOR, name)) // units
        for name, units in (shape_of(snapshot, owner).items() if mine else ())
    ]
    assert got >= min(len(mine), min(guaranteed, default=0))


# ── who asks for more than it needs ─────────────────────────────────────────────────────────────────────────────


def surplus_gains_nothing(snapshot: Snapshot, queue: QueueName, surplus: int) -> None:
    """Work that a queue adds behind its own brings none of its own in, and keeps none of it out.

    In every world, for gangs of any shape, in one turn without evictions: until the first surplus workload is
    tried the turn goes as it would without it, and who was refused before stays refused as room only shrinks. Only
    elastic members of gangs that run already are tried later than that.
    """
    snapshot = _in_order_of_arrival(snapshot, queue)
    mine = [each for each in snapshot.pending.values() if each.queue == queue]
    if not mine:
        return
    last = max(each.arrival for each in snapshot.pending.values())
    like = max(mine, key=lambda each: each.arrival)
    more = [
        replace(
            like,
            key=WorkloadKey(kind_names.JOB, f"surplus{number}"),
            name=f"surplus{number}",
            arrival=last + 1 + number,
            created=snapshot.now,
        )
        for number in range(surplus)
    ]
    inflated = replace(snapshot, pending={**snapshot.pending, **{each.key: each for each in more}})
    running = {each.workload for each in snapshot.admissions.values()}
    assert _own(plan_of(inflated), mine) - running == _own(plan_of(snapshot), mine) - running


def _in_order_of_arrival(snapshot: Snapshot, queue: QueueName) -> Snapshot:
    if queue not in snapshot.queues:
        return snapshot
    mine = replace(snapshot.queues[queue], order="fifo", max_pending=None)
    return replace(snapshot, queues={**snapshot.queues, queue: mine})


def _own(plan: Plan, mine: Iterable[Workload]) -> set[WorkloadKey]:
    return {admit.workload for admit in plan.admits} & {each.key for each in mine}


def inflation_gains_nothing(snapshot: Snapshot, queue: QueueName, more: Amounts) -> None:
    """A queue whose workloads all ask for more than they need does not get more of them in.

    Exactly, where nobody else's workload is larger, in any resource, than what it asks for then, and where it asks
    for nothing that it is guaranteed and did not ask for. (A larger one it can keep out by the room that it does not
    need; but what others deserve they get back whatever it asks for: ``sharing_incentive``. What is guaranteed
    comes first, that is a right.) The paper's proof, step by step: whoever went before it at some number of its
    workloads goes before it at that number still.
    """
    mine = [each for each in snapshot.pending.values() if each.queue == queue]
    if not mine:
        return
    tree, honest = tree_of(snapshot), shape_of(snapshot, queue)
    asked = honest + vector(more)
    for name in asked.keys() - honest.keys():
        if any(tree.guarantee(each, Account(NO_FLAVOR, name)) for each in tree.paths[queue]):
            return
    others = [each for each in snapshot.pending.values() if each.queue != queue]
    for each in others:
        if any(units > asked[name] for name, units in shape_of(snapshot, each.queue).items()):
            return
    bigger = {each.key: _asking(each, asked) for each in mine}
    truth = plan_of(snapshot)
    lie = plan_of(replace(snapshot, pending={**snapshot.pending, **bigger}))
    assert len(_own(lie, mine)) <= len(_own(truth, mine)), (honest, asked)


def _asking(workload: Workload, takes: Resources) -> Workload:
    (pods,) = workload.pod_sets
    return replace(workload, pod_sets=(replace(pods, takes=takes + Resources({"pods": 1})),))


# ── more capacity ───────────────────────────────────────────────────────────────────────────────────────────────


def more_never_stops_everybody(less: Snapshot, more: Snapshot) -> None:
    """Where somebody is admitted, somebody is admitted with more nodes or higher limits.

    In every world, whatever the shapes: who fits into less fits into more.
    """
    if plan_of(less).admits:
        assert plan_of(more).admits


def more_never_hurts_everybody(less: Snapshot, more: Snapshot) -> None:
    """With more nodes or higher limits no queue holds less than it would without, unless another holds more.

    For pools, at rest from empty. Who gains and who loses may change, as the order does with what is deserved; DRF
    has no resource monotonicity. But if one had less and nobody more, what it had would fit still, and nothing that
    fits is left out.
    """
    before, after = held(at_rest(less)), held(at_rest(more))
    lost = [queue for queue, number in before.items() if after[queue] < number]
    assert not lost or any(number > before[queue] for queue, number in after.items()), (before, after)


# ── exhaustive ──────────────────────────────────────────────────────────────────────────────────────────────────


def divisions(
    capacity: Resources, shapes: Mapping[QueueName, Resources], most: Mapping[QueueName, int]
) -> Iterator[dict[QueueName, int]]:
    """Every number of workloads per queue that the pool holds."""
    for numbers in product(*(range(most[queue] + 1) for queue in shapes)):
        sums = sum(
            (shapes[queue] * number for queue, number in zip(shapes, numbers, strict=True)), Resources()
        )
        if all(units <= capacity[name] for name, units in sums.items()):
            yield dict(zip(shapes, numbers, strict=True))


def as_even_as_can_be(snapshot: Snapshot) -> None:
    """No division of the pool gives the poorest of those who want more a share larger by more than one workload.

    Nor is there one that gives somebody more and nobody less. In one turn, all divisions are tried.
    """
    tree, most = tree_of(snapshot), wanted(snapshot)
    has = Counter(admit.queue for admit in plan_of(snapshot).admits)
    shapes = {queue: shape_of(snapshot, queue) for queue in sorted(most)}
    step = {queue: _dominant(tree, queue, shape) for queue, shape in shapes.items()}

    def poorest(division: Mapping[QueueName, int]) -> Fraction:
        shares = [step[queue] * division[queue] for queue in shapes if division[queue] < most[queue]]
        return min(shares, default=Fraction(10**9))

    every = list(divisions(snapshot.nodes.capacity(), shapes, most))
    mine = {queue: has[queue] for queue in shapes}
    assert mine in every
    best = max(every, key=poorest)
    assert poorest(best) <= poorest(mine) + max(step.values()), (mine, best)
    assert not any(other != mine and all(other[q] >= mine[q] for q in shapes) for other in every), mine


def _dominant(tree: QueueTree, queue: QueueName, shape: Resources) -> Fraction:
    return max(
        Fraction(units, tree.deserved(queue, Account(NO_FLAVOR, name))) for name, units in shape.items()
    )


def small_pools(gpus: int) -> Iterator[Snapshot]:
    """Pools of two queues with so many GPUs and CPUs, by weights, shapes and amounts of work."""
    shapes: tuple[tuple[Amounts, Amounts], ...] = (
        ((1, 0), (1, 0)),
        ((1, 0), (2, 0)),
        ((1, 1), (2, 1)),
        ((2, 1), (1, 2)),
        ((3, 1), (0, 1)),
    )
    for weights, pair, counts in product(((1, 1), (1, 3), (2, 1)), shapes, ((12, 12), (1, 12), (12, 2))):
        queues = [Queue(name=QueueName(f"q{number}"), weight=weight) for number, weight in enumerate(weights)]
        waiting = [
            work(queue.name, number, shape, 1 + 2 * number + place)
            for place, (queue, shape, count) in enumerate(zip(queues, pair, counts, strict=True))
            for number in range(count)
        ]
        yield world(pool((gpus, gpus)), queues, waiting)
