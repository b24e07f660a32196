"""The line of heads is the plain form of the order (docstring of queues.order.line), only faster."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from queues import kind_names
from queues.order.line import ClassQueue, Line, QueueKeys
from queues.order.policies import LineEntry, by_user, devices, rank
from queues.order.shares import UserShares
from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage, UsageRecorder, half_lives, slot_ends, weight
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import NO_FLAVOR, PodSet, QueueName, Workload, WorkloadKey
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import GPU, NOW, trees

ACCOUNT = Account(NO_FLAVOR, GPU)
#: Seconds; a slot of it begins with ``NOW`` and takes whole seconds.
HALF_LIFE = 6400
ORDERS = ("priority", "fifo", "strict-fifo", "shortest", "round-robin")


@st.composite
def workloads(draw: st.DrawFn, number: int, leaves: list[QueueName]) -> Workload:
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"u{number}"),
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
def lines(draw: st.DrawFn) -> tuple[QueueTree, list[LineEntry]]:
    queues = {
        name: replace(
            queue,
            order=draw(st.sampled_from([None, *ORDERS])),
            policy=replace(queue.policy, usage_half_life=draw(st.sampled_from([None, None, 0, HALF_LIFE]))),
        )
        for name, queue in draw(trees()).items()
    }
    tree = QueueTree.build(queues, Resources({GPU: 16_000}))
    leaves = [name for name in tree.queues if tree.leaf(name)]
    if not leaves:
        return tree, []
    every = [draw(workloads(number, leaves)) for number in range(draw(st.integers(0, 12)))]
    return tree, [
        LineEntry(
            workload=each,
            shape=each.pod_sets,
            devices=devices(each),
            joins=draw(st.booleans()),
            accounts=(ACCOUNT,),
        )
        for each in every
    ]


#: (queue, user, GPUs taken or given back, when)
Posted = tuple[QueueName, str, int, int]


@st.composite
def postings(draw: st.DrawFn, tree: QueueTree) -> list[Posted]:
    """What was taken for a time, and given back."""
    leaves = [name for name in tree.queues if tree.leaf(name)]
    found: list[Posted] = []
    for _ in range(draw(st.integers(0, 4)) if leaves else 0):
        queue, user = draw(st.sampled_from(leaves)), draw(st.sampled_from(["ann", "bob"]))
        units, since = draw(st.integers(1, 4)) * 1000, draw(st.integers(2, 5 * HALF_LIFE))
        until = draw(st.integers(1, since))
        found += [(queue, user, units, NOW - since), (queue, user, -units, NOW - until)]
    return found


def phi(moment: int) -> Fraction:
    block, units = weight(moment, HALF_LIFE)
    return Fraction(units) * Fraction(2) ** (block - NOW // HALF_LIFE)


def classes_of(tree: QueueTree, candidates: list[LineEntry]) -> list[ClassQueue]:
    classes: dict[object, ClassQueue] = {}
    for each in candidates:
        queue = each.workload.queue
        user = each.workload.user if by_user(tree, queue) else ""
        alike = classes.setdefault((queue, each.shape, user), ClassQueue(queue, each.shape, user))
        alike.add(rank(tree, each), each)
    return list(classes.values())


class Plain:
    """The plain form: a list, searched from the root down each time. Struck ones go when they come to the head."""

    def __init__(
        self, usage: Usage, users: UserShares, waiting: list[LineEntry], posted: list[Posted], begun: Usage
    ) -> None:
        self.usage, self.tree, self.users = usage, usage.tree, users
        self.posted = posted
        #: Books at the start of the turn.
        self.begun, self.users_then = begun, users.copy()
        self.waiting = list(waiting)
        self.struck: set[object] = set()

    def lanes(self, queue: QueueName) -> list[object]:
        """Children of a queue with candidates; of a queue in which users take turns, the users."""
        below = [each for each in self.waiting if queue in self.tree.paths[each.workload.queue]]
        if not self.tree.leaf(queue):
            depth = len(self.tree.paths[queue])
            return list({self.tree.paths[each.workload.queue][-depth - 1]: None for each in below})
        if by_user(self.tree, queue):
            return list({(queue, each.workload.user): None for each in below})
        return []

    def first_in(self, lane: object) -> LineEntry:
        """The head of a lane that has no lanes."""
        queue, user = lane if isinstance(lane, tuple) else (lane, None)
        mine = [
            each
            for each in self.waiting
            if each.workload.queue == queue and user in (None, each.workload.user)
        ]
        return min(mine, key=self.in_queue)

    def head_of(self, lane: object) -> LineEntry:
        lanes = [] if isinstance(lane, tuple) else self.lanes(QueueName(str(lane)))
        return self.head_of(min(lanes, key=self.key)) if lanes else self.first_in(lane)

    def head(self) -> LineEntry | None:
        while any(each.shape not in self.struck for each in self.waiting):
            first = self.head_of(ROOT)
            if first.shape not in self.struck:
                return first
            self.drop(first)
        return None

    def drop(self, first: LineEntry) -> list[LineEntry]:
        queue = first.workload.queue
        turns = by_user(self.tree, queue)
        gone = [
            each
            for each in self.waiting
            if each.workload.queue == queue
            and (each.shape == first.shape or self.tree.order(queue).name == "strict-fifo")
            and (not turns or each.workload.user == first.workload.user)
        ]
        self.waiting = [each for each in self.waiting if each not in gone]
        return gone

    def in_queue(self, each: LineEntry) -> tuple[object, ...]:
        workload, order = each.workload, self.tree.order(each.workload.queue).name
        urgency, small = Fraction(0), 0
        if order == "priority":
            urgency = -self.points(each)
            # Who asks for a device less counts as if it had come a day earlier.
            small = workload.created + 86_400 * (workload.pod_sets[0].takes[GPU] // 1000)
        elif order == "shortest":
            path = (self.tree.queues[name] for name in self.tree.paths[workload.queue])
            longest = min((each.max_run_time for each in path if each.max_run_time), default=30 * 24 * 3600)
            seconds = longest if workload.run_time is None else workload.run_time
            urgency = Fraction(workload.created + 10 * seconds)
        return each.joins, urgency, small, workload.arrival

    def points(self, each: LineEntry) -> Fraction:
        workload = each.workload
        if self.tree.order(workload.queue).name != "priority":
            return Fraction(0)
        waited = Fraction(NOW - workload.created, 3600)
        return workload.priority + self.tree.ageing_per_hour(workload.queue) * waited

    def share(self, queue: QueueName, user: str | None) -> Fraction:
        """Of a queue, or of a user in it: half of what is held now, and half of the average of the past."""
        if user is None:
            now, then = self.usage.used(queue, ACCOUNT), self.begun.used(queue, ACCOUNT)
        else:
            now = self.users.book(queue, user).get(ACCOUNT, 0)
            then = self.users_then.book(queue, user).get(ACCOUNT, 0)
        due, counted = self.tree.deserved(queue, ACCOUNT), Fraction(now)
        if due and self.tree.policy(queue).usage_half_life:
            past = sum(
                units * phi(at)
                for of, whose, units, at in self.posted
                if queue in self.tree.paths[of] and user in (None, whose)
            )
            counted = (now + then - past / phi(slot_ends(NOW, HALF_LIFE))) / 2
        return counted / due if due else Fraction(10**9 if now else 0)

    def key(self, lane: object) -> tuple[object, ...]:
        head = self.head_of(lane)
        if isinstance(lane, tuple):
            queue, user = lane
            share = self.share(queue, user)
            if self.tree.order(queue).name == "round-robin":
                return share, head.joins, head.workload.arrival, user
            joins, urgency, small, arrival = self.in_queue(head)
            return joins, urgency, share, small, arrival, user
        queue = QueueName(str(lane))
        tree, usage = self.tree, self.usage
        used, deserved = usage.used(queue, ACCOUNT), tree.deserved(queue, ACCOUNT)
        return (
            not used < tree.guarantee(queue, ACCOUNT),
            not used < deserved,
            self.share(queue, None),
            -tree.queues[queue].priority,
            -self.points(head),
            head.workload.arrival,
            queue,
        )


@in_worlds(200)
@given(lines(), st.data())
def test_heads_come_in_the_order_of_the_plain_form(
    made: tuple[QueueTree, list[LineEntry]], data: st.DataObject
) -> None:
    tree, waiting = made
    usage, users, keys = Usage(tree), UserShares(), QueueKeys()
    posted = data.draw(postings(tree))
    decay = DecayedUsage.over(tree, usage.book, users.book)
    memories = UsageRecorder()
    memories.begin(half_lives(tree.queues), {}, NOW)
    for queue, user, units, at in posted:
        memories.post(queue, user, {ACCOUNT: units}, at)
    for _ in range(2):  # the second time with keys from the first
        begun = usage.copy()
        plain = Plain(usage, users, waiting, posted, begun)
        if decay is not None:
            decay.held, decay.held_by_user = begun.book, users.copy().book
            usage.past = users.past = decay
            keys.forget(decay.update(memories.freeze(NOW), NOW))
            keys.forget(tree.paths)
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
