"""The line of heads is the plain form of the order (docstring of queues.ordering), only faster."""

from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.ordering import Candidate, Line
from queues.quota import ROOT, Account, QueueTree
from queues.resources import Resources
from queues.usage import Usage
from queues.workload import NO_FLAVOR, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.laws.strategies import GPU, NOW, trees

ACCOUNT = Account(NO_FLAVOR, GPU)


def workload(number: int, queue: QueueName, priority: int, gpus: int, created: int) -> Workload:
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, f"u{number}"),
        namespace="n",
        name=f"w{number}",
        queue=queue,
        priority=priority,
        arrival=number,
        created=created,
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=Resources({GPU: gpus * 1000})),),
    )


@st.composite
def lines(draw: st.DrawFn) -> tuple[QueueTree, list[Candidate]]:
    tree = QueueTree.build(draw(trees()), Resources({GPU: 16_000}))
    leaves = [name for name in tree.queues if tree.leaf(name)]
    if not leaves:
        return tree, []
    candidates = []
    for number in range(draw(st.integers(0, 10))):
        asks = draw(st.integers(1, 3))
        each = workload(
            number,
            draw(st.sampled_from(leaves)),
            draw(st.integers(0, 2)),
            asks,
            NOW - draw(st.sampled_from([0, 3600])),
        )
        candidates.append(
            Candidate(workload=each, shape=each.pod_sets, joins=draw(st.booleans()), accounts=(ACCOUNT,))
        )
    return tree, candidates


def first(usage: Usage, waiting: list[Candidate], queue: QueueName = ROOT) -> Candidate:
    """The plain form: walk down, at each queue the child with the smallest key."""
    tree = usage.tree
    children = {tree.paths[each.workload.queue][-len(tree.paths[queue]) - 1] for each in waiting}
    best = min(children, key=lambda child: key(usage, child, head_of(usage, waiting, child)))
    return head_of(usage, waiting, best)


def head_of(usage: Usage, waiting: list[Candidate], queue: QueueName) -> Candidate:
    below = [each for each in waiting if queue in usage.tree.paths[each.workload.queue]]
    if usage.tree.leaf(queue):
        return min(
            below,
            key=lambda each: (each.joins, -urgency(usage, each), small(usage, each), each.workload.arrival),
        )
    return first(usage, below, queue)


def urgency(usage: Usage, candidate: Candidate) -> Fraction:
    each = candidate.workload
    if usage.tree.order(each.queue) != "priority":
        return Fraction(0)
    waited = Fraction(NOW - each.created, 3600)
    return each.priority + usage.tree.ageing_per_hour(each.queue) * waited


def small(usage: Usage, candidate: Candidate) -> int:
    """Who asks for a device less counts as if it had come a day earlier."""
    each = candidate.workload
    if usage.tree.order(each.queue) != "priority":
        return 0
    return each.created + 86_400 * (each.pod_sets[0].takes[GPU] // 1000)


def key(usage: Usage, queue: QueueName, head: Candidate) -> tuple[object, ...]:
    tree = usage.tree
    used, deserved = usage.used(queue, ACCOUNT), tree.deserved(queue, ACCOUNT)
    shares = [
        Fraction(units, tree.deserved(queue, account)) if tree.deserved(queue, account) else Fraction(10**9)
        for account, units in usage.book(queue).items()
    ]
    return (
        not used < tree.guarantee(queue, ACCOUNT),
        not used < deserved,
        max(shares, default=Fraction(0)),
        -tree.queues[queue].priority,
        -urgency(usage, head),
        head.workload.arrival,
        queue,
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines(), st.data())
def test_heads_come_in_the_order_of_the_plain_form(
    made: tuple[QueueTree, list[Candidate]], data: st.DataObject
) -> None:
    tree, waiting = made
    usage = Usage(tree)
    line = Line(usage, waiting, NOW)
    while waiting:
        head = line.head()
        assert head is first(usage, waiting)
        assert head is not None
        queue = head.workload.queue
        if data.draw(st.booleans()):
            usage.add(queue, {ACCOUNT: head.workload.pod_sets[0].takes[GPU]})
            line.admitted()
            waiting = [each for each in waiting if each is not head]
            continue
        refused = line.refused()
        alike = [e for e in waiting if e.workload.queue == queue and e.shape == head.shape]
        assert {e.workload.key for e in refused.alike} == {e.workload.key for e in alike}
        rest = [each for each in waiting if each not in alike]
        if tree.order(queue) == "strict-fifo":
            behind = [each for each in rest if each.workload.queue == queue]
            assert {e.workload.key for e in refused.behind} == {e.workload.key for e in behind}
            rest = [each for each in rest if each not in behind]
        waiting = rest
    assert line.head() is None
