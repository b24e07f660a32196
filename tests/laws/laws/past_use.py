"""What holds of past use: each law takes a world with a past, decides, and raises AssertionError where it is broken.

The past is told as spells: somebody held some GPUs from one second to another. What they should count for is worked
out here by the textbook's exponential, in floating point, and only clear differences are judged.
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.plan import Plan
from queues.quota.accounts import Account
from queues.quota.decayed_usage import PastUse, UsageRecorder, half_lives
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.resources import Resources
from queues.workload import (
    NO_FLAVOR,
    AdmissionId,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)

GPU = "nvidia.com/gpu"
GPUS = Account(NO_FLAVOR, GPU)
NOW = 1_800_000_000
QUEUES = (QueueName("a"), QueueName("b"), QueueName("c"))
USERS = ("ann", "bob", "")
ONE = Resources({GPU: 1000, "pods": 1})
#: Shares that differ by less than this part are not told apart here: engine and textbook round differently.
CLEAR = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Somebody held GPUs from so many seconds ago until so many seconds ago (None: still)."""

    queue: QueueName
    user: str
    gpus: int
    since: int
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A cluster with a past: one node, sibling queues of equal rights, workloads of one GPU each."""

    half_life: int
    order: str
    spells: tuple[Spell, ...]
    #: (queue, user, priority), in the order in which they came.
    waiting: tuple[tuple[QueueName, str, int], ...]
    free: int

    def queues(self) -> dict[QueueName, Queue]:
        """All of equal rights."""
        policy = QueuePolicy(usage_half_life=self.half_life, clear_after=10**9, reclaim="never")
        limits = Limits(deserved={GPU: 1000 * 1000})
        return {name: Queue(name=name, order=self.order, policy=policy, limits=limits) for name in QUEUES}

    def past(self) -> PastUse:
        """As the postings say."""
        memories = UsageRecorder()
        memories.begin(half_lives(self.queues()), {}, NOW)
        for spell in self.spells:
            units = {GPUS: spell.gpus * 1000, Account(NO_FLAVOR, "pods"): spell.gpus}
            memories.post(spell.queue, spell.user, units, NOW - spell.since)
            if spell.until is not None:
                gone = {account: -each for account, each in units.items()}
                memories.post(spell.queue, spell.user, gone, NOW - spell.until)
        return memories.freeze(NOW)

    def snapshot(self) -> Snapshot:
        """With the spells that go on as admissions."""
        held = [spell for spell in self.spells if spell.until is None]
        taken = sum(spell.gpus for spell in held)
        room = Resources({GPU: (taken + self.free) * 1000, "pods": 1000})
        node = Node(
            name=NodeName("n"),
            allocatable=room,
            used=Resources({GPU: taken * 1000, "pods": taken}),
            labels={HOST: "n"},
        )
        waiting = [_workload(number, *each) for number, each in enumerate(self.waiting)]
        return Snapshot(
            now=NOW,
            queues=self.queues(),
            nodes=NodeTable.build([node]),
            pending={each.key: each for each in waiting},
            admissions={AdmissionId(number): _admission(number, spell) for number, spell in enumerate(held)},
            past_use=self.past(),
        )

    def counts(self, queue: QueueName, user: str | None = None) -> float:
        """What a queue, or one of its users, counts for, by the textbook, in GPUs."""
        sums = 0.0
        for spell in self.spells:
            if spell.queue == queue and user in (None, spell.user):
                until = 0 if spell.until is None else spell.until
                faded = 2 ** (-until / self.half_life) - 2 ** (-spell.since / self.half_life)
                sums += spell.gpus * (faded + (spell.until is None)) / 2
        return sums


def _workload(number: int, queue: QueueName, user: str, priority: int) -> Workload:
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"u{number}"),
        namespace="team",
        name=f"w{number}",
        queue=queue,
        priority=priority,
        arrival=number,
        created=NOW,
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=ONE),),
        user=user,
    )


def _admission(number: int, spell: Spell) -> Admission:
    return Admission(
        id=AdmissionId(number),
        workload=WorkloadKey(kind_names.JOB, f"held{number}"),
        namespace="team",
        name=f"held{number}",
        queue=spell.queue,
        priority=0,
        seats=tuple(
            Seat(pod_set="main", ordinal=ordinal, node=NodeName("n"), takes=ONE)
            for ordinal in range(spell.gpus)
        ),
        started=True,
        opened_at=NOW - spell.since,
        user=spell.user,
    )


@st.composite
def spells(draw: st.DrawFn, half_life: int, queues: tuple[QueueName, ...] = QUEUES) -> Spell:
    """Over by now, or going on."""
    until = draw(st.sampled_from([None, 0, half_life // 7, half_life, 3 * half_life]))
    lasted = draw(st.sampled_from([half_life // 10, half_life // 2, 2 * half_life]))
    return Spell(
        queue=draw(st.sampled_from(queues)),
        user=draw(st.sampled_from(USERS)),
        gpus=draw(st.integers(1, 5)),
        since=(until or 0) + lasted,
        until=until,
    )


@st.composite
def worlds(draw: st.DrawFn, queues: tuple[QueueName, ...] = QUEUES) -> World:
    """Any."""
    half_life = draw(st.sampled_from([3600, 86_399, 604_800]))
    waiting = st.tuples(st.sampled_from(queues), st.sampled_from(USERS), st.integers(0, 2))
    return World(
        half_life=half_life,
        order=draw(st.sampled_from(["priority", "priority", "round-robin", "fifo"])),
        spells=tuple(draw(st.lists(spells(half_life, queues), max_size=6))),
        waiting=tuple(draw(st.lists(waiting, min_size=1, max_size=6))),
        free=draw(st.integers(0, 3)),
    )


# ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────


def _plan(snapshot: Snapshot) -> Plan:
    return engine.decide(snapshot, Memo())[0]


def _first(world: World, snapshot: Snapshot) -> tuple[QueueName, str, int] | None:
    plan = _plan(snapshot)
    return world.waiting[int(plan.admits[0].name[1:])] if plan.admits else None


def the_queue_that_used_less_comes_first(world: World) -> None:
    """Of those of whom somebody waits, by what they have and had; nobody has a right to more than others."""
    first = _first(world, world.snapshot())
    if first is not None:
        others = [world.counts(queue) for queue in {queue for queue, _, _ in world.waiting}]
        assert world.counts(first[0]) <= (1 + CLEAR) * min(others) + 1e-4


def the_user_who_used_less_comes_first(world: World) -> None:
    """Among the most urgent work of a queue, or under round-robin of all of it; elsewhere by arrival."""
    world = replace(world, waiting=tuple((QUEUES[0], user, urgent) for _, user, urgent in world.waiting))
    first = _first(world, world.snapshot())
    if first is None:
        return
    if world.order == "fifo":
        assert first == world.waiting[0]
        return
    rivals = world.waiting
    if world.order == "priority":
        most = max(urgent for _, _, urgent in world.waiting)
        assert first[2] == most
        rivals = tuple(each for each in world.waiting if each[2] == most)
    else:  # those who did not say who they are come after all others
        rivals = tuple(each for each in rivals if each[1]) or rivals
    if world.order == "priority" or first[1]:
        least = min(world.counts(QUEUES[0], user) for _, user, _ in rivals)
        assert world.counts(QUEUES[0], first[1]) <= (1 + CLEAR) * least + 1e-4


def a_half_life_ago_counts_half(world: World) -> None:
    """Exactly: what ended a half-life earlier weighs as much as half of it now; who came first goes first then."""
    for gone in [spell for spell in world.spells if spell.until is not None]:
        assert gone.until is not None
        twice = replace(
            gone,
            queue=QUEUES[0],
            gpus=2 * gone.gpus,
            since=gone.since + world.half_life,
            until=gone.until + world.half_life,
        )
        once = replace(gone, queue=QUEUES[1])
        waiting = ((QUEUES[0], "", 0), (QUEUES[1], "", 0))
        for more, first in ((-1, QUEUES[0]), (0, QUEUES[0]), (1, QUEUES[1])):
            spelt = (replace(twice, gpus=twice.gpus + more), once)
            even = replace(world, spells=spelt, waiting=waiting, free=1)
            expected = waiting[QUEUES.index(first)]
            assert _first(even, even.snapshot()) == expected


def without_a_half_life_the_past_does_not_count(world: World) -> None:
    """Whatever is told of it."""
    snapshot = world.snapshot()
    plain = {name: replace(queue, policy=QueuePolicy()) for name, queue in snapshot.queues.items()}
    snapshot = replace(snapshot, queues=plain)
    assert _plan(snapshot) == _plan(replace(snapshot, past_use=PastUse()))


def memo_and_order_of_the_past_decide_nothing(world: World) -> None:
    """While time goes on and nothing else happens, while the past alone changes, and told in any order."""
    snapshot, memo = world.snapshot(), Memo()
    backwards = dict(reversed(list(snapshot.past_use.rows.items())))
    other = replace(world, spells=tuple(replace(each, queue=QUEUES[2]) for each in world.spells)).past()
    for later in (0, 1, world.half_life // 64, world.half_life // 2, 5 * world.half_life):
        for past in (snapshot.past_use, PastUse(rows=backwards), other):
            now = replace(snapshot, now=NOW + later, past_use=past)
            plan, memo = engine.decide(now, memo)
            assert plan == _plan(now)
