"""The line of heads is the plain form of the order (docstring of queues.ordering), only faster."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.fairshare import Users
from queues.ordering import Alike, Candidate, Keys, Line, rank
from queues.quota import ROOT, Account, QueueTree
from queues.resources import Resources
from queues.usage import Usage
from queues.workload import NO_FLAVOR, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.laws.strategies import GPU, NOW, trees

ACCOUNT = Account(NO_FLAVOR, GPU)
ORDERS = ("priority", "fifo", "strict-fifo", "shortest", "round-robin")


@st.composite
def workloads(draw: st.DrawFn, number: int, leaves: list[QueueName]) -> Workload:
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, f"u{number}"),
        namespace="n",
        name=f"w{number}",
        queue=draw(st.sampled_from(leaves)),
        priority=draw(st.integers(0, 2)),
        arrival=number,
        created=NOW - draw(st.sampled_from([0, 3600])),
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=Resources({GPU: draw(st.integers(1, 3)) * 1000})),),
        user=draw(st.sampled_from(["ann", "bob"])),
        run_time=draw(st.sampled_from([None, 60, 7200])),
    )


@st.composite
def lines(draw: st.DrawFn) -> tuple[QueueTree, list[Candidate]]:
    queues = {
        name: replace(queue, order=draw(st.sampled_from([None, *ORDERS])))
        for name, queue in draw(trees()).items()
    }
    tree = QueueTree.build(queues, Resources({GPU: 16_000}))
    leaves = [name for name in tree.queues if tree.leaf(name)]
    if not leaves:
        return tree, []
    every = [draw(workloads(number, leaves)) for number in range(draw(st.integers(0, 12)))]
    return tree, [
        Candidate(workload=each, shape=each.pod_sets, joins=draw(st.booleans()), accounts=(ACCOUNT,))
        for each in every
    ]


def classes_of(tree: QueueTree, candidates: list[Candidate]) -> list[Alike]:
    classes: dict[object, Alike] = {}
    for each in candidates:
        queue = each.workload.queue
        user = each.workload.user if tree.order(queue) == "round-robin" else ""
        alike = classes.setdefault((queue, each.shape, user), Alike(queue, each.shape, user))
        alike.add(rank(tree, each), each)
    return list(classes.values())


class Plain:
    """The plain form: a list, searched from the root down each time. Struck ones go when they come to the head."""

    def __init__(self, usage: Usage, users: Users, waiting: list[Candidate]) -> None:
        self.usage, self.tree, self.users = usage, usage.tree, users
        self.waiting = list(waiting)
        self.struck: set[object] = set()

    def lanes(self, queue: QueueName) -> list[object]:
        """Children of a queue with candidates; of a queue in which users take turns, the users."""
        below = [each for each in self.waiting if queue in self.tree.paths[each.workload.queue]]
        if not self.tree.leaf(queue):
            depth = len(self.tree.paths[queue])
            return list({self.tree.paths[each.workload.queue][-depth - 1]: None for each in below})
        if self.tree.order(queue) == "round-robin":
            return list({(queue, each.workload.user): None for each in below})
        return []

    def first_in(self, lane: object) -> Candidate:
        """The head of a lane that has no lanes."""
        queue, user = lane if isinstance(lane, tuple) else (lane, None)
        mine = [
            each
            for each in self.waiting
            if each.workload.queue == queue and user in (None, each.workload.user)
        ]
        return min(mine, key=self.in_queue)

    def head_of(self, lane: object) -> Candidate:
        lanes = [] if isinstance(lane, tuple) else self.lanes(QueueName(str(lane)))
        return self.head_of(min(lanes, key=self.key)) if lanes else self.first_in(lane)

    def head(self) -> Candidate | None:
        while any(each.shape not in self.struck for each in self.waiting):
            first = self.head_of(ROOT)
            if first.shape not in self.struck:
                return first
            self.drop(first)
        return None

    def drop(self, first: Candidate) -> list[Candidate]:
        queue = first.workload.queue
        turns = self.tree.order(queue) == "round-robin"
        gone = [
            each
            for each in self.waiting
            if each.workload.queue == queue
            and (each.shape == first.shape or self.tree.order(queue) == "strict-fifo")
            and (not turns or each.workload.user == first.workload.user)
        ]
        self.waiting = [each for each in self.waiting if each not in gone]
        return gone

    def in_queue(self, each: Candidate) -> tuple[object, ...]:
        workload, order = each.workload, self.tree.order(each.workload.queue)
        urgency, small = Fraction(0), 0
        if order == "priority":
            urgency = -self.points(each)
            # Who asks for a device less counts as if it had come a day earlier.
            small = workload.created + 86_400 * (workload.pod_sets[0].takes[GPU] // 1000)
        elif order == "shortest":
            longest = self.tree.queues[workload.queue].max_run_time or 30 * 24 * 3600
            seconds = longest if workload.run_time is None else workload.run_time
            urgency = Fraction(workload.created + 10 * seconds)
        return each.joins, urgency, small, workload.arrival

    def points(self, each: Candidate) -> Fraction:
        workload = each.workload
        if self.tree.order(workload.queue) != "priority":
            return Fraction(0)
        waited = Fraction(NOW - workload.created, 3600)
        return workload.priority + self.tree.ageing_per_hour(workload.queue) * waited

    def key(self, lane: object) -> tuple[object, ...]:
        head = self.head_of(lane)
        if isinstance(lane, tuple):
            queue, user = lane
            return self.users.share(self.tree, queue, user), head.joins, head.workload.arrival, user
        queue = QueueName(str(lane))
        tree, usage = self.tree, self.usage
        used, deserved = usage.used(queue, ACCOUNT), tree.deserved(queue, ACCOUNT)
        shares = [
            Fraction(units, tree.deserved(queue, account))
            if tree.deserved(queue, account)
            else Fraction(10**9)
            for account, units in usage.book(queue).items()
        ]
        return (
            not used < tree.guarantee(queue, ACCOUNT),
            not used < deserved,
            max(shares, default=Fraction(0)),
            -tree.queues[queue].priority,
            -self.points(head),
            head.workload.arrival,
            queue,
        )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines(), st.data())
def test_heads_come_in_the_order_of_the_plain_form(
    made: tuple[QueueTree, list[Candidate]], data: st.DataObject
) -> None:
    tree, waiting = made
    usage, users, keys = Usage(tree), Users(), Keys()
    for _ in range(2):  # the second time with keys from the first
        plain = Plain(usage, users, waiting)
        line = Line(usage, classes_of(tree, waiting), NOW, users=users, keys=keys)
        while (alike := line.head()) is not None:
            head = alike.head()
            assert head is plain.head()
            queue = head.workload.queue
            answer = data.draw(st.sampled_from(["admitted", "refused", "refused everywhere"]))
            if answer == "admitted":
                amounts = {ACCOUNT: head.workload.pod_sets[0].takes[GPU]}
                usage.add(queue, amounts)
                if alike.user:
                    users.add(queue, alike.user, amounts)
                line.admitted()
                plain.waiting.remove(head)
            elif answer == "refused":
                line.refused()
                plain.drop(head)
            else:
                line.refuse_kind(alike.kind)
                plain.struck.add(alike.kind)
                plain.drop(head)
        assert plain.head() is None
