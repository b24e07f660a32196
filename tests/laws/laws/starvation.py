"""A gang among small work that never stops coming: how long it waits at most.

A gang that fits what its queue may use at most waits a bounded time, unless protected work holds its place. Three
rules see to that: a place is cleared for it when it has waited for ``clearAfter``, whoever deserves the place, and it
keeps it for a time; it keeps a place in the near future that only those may use who are gone by then; and where
neither can be it keeps the place of those who passed it. Each law takes the other rules away. Virtual time, random
ends. And one that is first in line gets room that comes back in pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.backfill import coming_room
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.pending import waiting_time
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.plan import Reason
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.reason_codes import ReasonCode
from queues.resources import GPU, NOTHING, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey
from tests.builders.decided_work import a_node, a_snapshot
from tests.laws.laws.preemption import protected_after_evictions
from tests.laws.worlds.plan_effects import apply, drained

NOW = 1_000_000
#: Seconds from turn to turn.
TURN = 60
#: The same where waits are counted in weeks.
LONG_TURN = 7200
#: Places are cleared.
CLEARING = QueuePolicy(clear_after=1800)
#: Nobody has to go within a day, and small goes before large (``queues.order.policies``).
PEACE = QueuePolicy(clear_after=86_400, reclaim="never", within_queue="never")
#: The same with the default of ``clearAfter``.
DUE = QueuePolicy(clear_after=1800, reclaim="never", within_queue="never")
#: Nobody ever has to go.
VAIN = QueuePolicy(clear_after=10**9, reclaim="never", within_queue="never")
#: GPUs of a node.
GPUS = 4

OWN, OTHER = QueueName("own"), QueueName("other")
#: The queue of work that can never be admitted.
THIRD = QueueName("third")

#: In turns.
RUN_TIMES = (5, 15, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A cluster, a gang that fits it and its quota, and what the crowd around it is like."""

    cluster: Snapshot
    gang: Workload
    #: Queues that small work comes to.
    queues: tuple[QueueName, ...]
    #: Small work cannot be taken back.
    protected: bool
    #: Turns until the pods of victims are gone.
    drain: int
    seed: int
    #: Seconds from turn to turn.
    turn: int = TURN
    #: Work that can never be admitted, of another tenant, which waits since before all others.
    impossible: tuple[Workload, ...] = ()


@st.composite
def crowds(draw: st.DrawFn, policy: QueuePolicy) -> Crowd:
    """Two to four nodes in racks of two, one or two queues; a gang may ask for all of its quota.

    The gang's queue deserves all of its quota; or, where places are cleared, another one deserves everything.
    """
    nodes = draw(st.integers(2, 4))
    gpus = draw(st.integers(1, GPUS))
    rack = draw(st.booleans())
    most = (2 if rack else nodes) * (GPUS // gpus)
    # Larger than any of the crowd, and not a single pod: no place is cleared for others.
    gang = _workload("gang", OWN, gpus, pods=draw(st.integers(max(2, -(-3 // gpus)), most)))
    (pods,) = gang.pod_sets
    gang = replace(gang, pod_sets=(replace(pods, required_topology="rack" if rack else None),))
    asks, every = gang.asks()[GPU], nodes * GPUS * 1000
    limit = draw(st.sampled_from([every, asks, min(every, asks + 2000)]))
    borrows = policy is CLEARING and draw(st.booleans())
    own = Limits(deserved={GPU: 0 if borrows else limit}, capability={GPU: limit} if limit < every else {})
    queues = [
        Queue(name=OWN, limits=own, policy=policy),
        Queue(name=OTHER, limits=Limits(deserved={GPU: every if borrows else 0}), policy=policy),
        Queue(name=THIRD, limits=Limits(deserved={GPU: 0}, capability={GPU: every + 8000}), policy=policy),
    ]
    impossible = tuple(
        replace(draw(_impossible_work(number, every)), created=NOW - 86_400 - number)
        for number in range(draw(st.sampled_from([0, 1, 9])))
    )
    cluster = a_snapshot(*impossible, queues=queues, nodes=_cluster(nodes), now=NOW)
    return Crowd(
        cluster=cluster,
        gang=gang,
        queues=draw(st.sampled_from([(OWN,), (OTHER,), (OWN, OTHER)])),
        protected=draw(st.booleans()) and policy.reclaim == "never",
        drain=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 1000)),
        turn=LONG_TURN if policy is VAIN else TURN,
        impossible=impossible,
    )


@st.composite
def _impossible_work(draw: st.DrawFn, number: int, every: int) -> Workload:
    """A pod that no node holds, a gang larger than all nodes, or one beyond its quota."""
    larger = every // 1000 + 1 + number
    gpus, pods = draw(st.sampled_from([(GPUS + 1 + number, 1), (GPUS + 1 + number, 2), (1, larger)]))
    work = _workload(f"impossible{number}", THIRD, gpus, pods=pods)
    return replace(work, arrival=0, run_time=draw(st.sampled_from([None, 600])))


def _cluster(nodes: int, used: Resources = NOTHING) -> NodeTable:
    """So many nodes in racks of two."""
    return NodeTable.build(
        [
            a_node(
                f"n{number}", {GPU: GPUS * 1000, "pods": 50}, labels={"rack": f"r{number // 2}"}, used=used
            )
            for number in range(nodes)
        ],
        [("rack", HOST)],
    )


def _workload(name: str, queue: QueueName, gpus: int, pods: int = 1) -> Workload:
    return Workload(
        key=WorkloadKey(kind_names.JOB, name),
        namespace="team",
        name=name,
        queue=queue,
        arrival=1,
        created=NOW,
        minimum=pods,
        generation="1",
        pod_sets=(PodSet(name="main", count=pods, takes=Resources({GPU: gpus * 1000, "pods": 1})),),
    )


@dataclass(slots=True, eq=False)
class Life:
    """The cluster of a crowd, turn after turn."""

    crowd: Crowd
    #: Whether small work says how long it runs at most, and keeps to it.
    declares: bool
    snapshot: Snapshot = field(init=False)
    chance: Random = field(init=False)
    memo: Memo = field(default_factory=Memo)
    turns: int = 0
    numbers: int = 0
    #: Nobody was let in by the last turn, or told that room is made for him, or waited for room made for him before.
    was_quiet: bool = False
    #: What the last turn decided on.
    decided_on: Snapshot = field(init=False)
    #: Why everybody waits since then.
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    #: When admissions end.
    ends: dict[AdmissionId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.snapshot = self.decided_on = self.crowd.cluster
        self.chance = Random(self.crowd.seed)

    def turn(self, *more: Workload) -> None:
        """Time passes, work ends and arrives, and one decision is carried out."""
        self.turns += 1
        before, now = self.snapshot, self.snapshot.now + self.crowd.turn
        if self.turns % self.crowd.drain == 0:
            before = drained(before)
        over = {
            number: frozenset(range(len(admission.seats)))
            for number, admission in before.admissions.items()
            if self.ends[number] <= now
        }
        arrived = [*more, *self._arrivals(now)]
        pending = {**before.pending, **{each.key: each for each in arrived}}
        before = replace(before, now=now, ended=over, pending=pending)
        self.decided_on = before
        plan, self.memo = engine.decide(before, self.memo)
        self.reasons = plan.reasons
        self.was_quiet = not (plan.admits or plan.claims or before.claims)
        after = apply(before, plan, last=max(self.ends, default=1000))
        holders = {key: each for key, each in after.holders.items() if key not in after.pending}
        holders |= {admit.workload: pending[admit.workload] for admit in plan.admits}
        here = {each.workload for each in after.admissions.values()}
        self.snapshot = replace(after, holders={key: each for key, each in holders.items() if key in here})
        for number in after.admissions.keys() - self.ends.keys():
            run_time = holders[after.admissions[number].workload].run_time or self._run_time()
            early = self.chance.choice([0, 0, run_time // 2])
            self.ends[number] = now + run_time - early

    def _arrivals(self, now: int) -> list[Workload]:
        """So much small work that a full cluster of it always waits, in every queue."""
        arrived = []
        for queue in self.crowd.queues:
            waiting = sum(each.queue == queue for each in self.snapshot.pending.values())
            for _ in range(len(self.snapshot.nodes) * GPUS - waiting):
                self.numbers += 1
                small = _workload(f"small{self.numbers}", queue, self.chance.choice([1, 1, 2]))
                run_time = self._run_time() if self.declares else None
                arrived.append(
                    replace(
                        small,
                        arrival=self.numbers,
                        created=now,
                        run_time=run_time,
                        preemptable=not self.crowd.protected,
                    )
                )
        return arrived

    def _run_time(self) -> int:
        return self.chance.choice(RUN_TIMES) * self.crowd.turn

    def comes(self, gang: Workload) -> Workload:
        """The gang as it comes with the next turn. Who waits gives up, or it would be behind him."""
        self.snapshot = replace(self.snapshot, pending={each.key: each for each in self.crowd.impossible})
        self.numbers += 1
        return replace(gang, created=self.snapshot.now + self.crowd.turn, arrival=self.numbers)

    def last_end(self) -> int:
        """When the last of those who run now is gone, by what they declared."""
        holders = self.snapshot.holders
        return max(
            (
                each.opened_at + (holders[each.workload].run_time or 0)
                for each in self.snapshot.admissions.values()
                if each.workload in holders
            ),
            default=self.snapshot.now,
        )

    def could_be_cleared(self, gang: Workload) -> bool:
        """Whether the gang had fit in the last turn without the smaller single pods that nothing protects."""
        snapshot, (pods,) = self.decided_on, gang.pod_sets
        room = dict.fromkeys(map(str, snapshot.nodes.layout.names), GPUS)
        quota = snapshot.queues[OWN].limits.capability.get(GPU, len(room) * GPUS * 1000) // 1000
        for number, admission in snapshot.admissions.items():
            held = sum(seat.takes[GPU] for seat in admission.seats) // 1000
            holder = snapshot.holders[admission.workload]
            ends = admission.opened_at + protected_after_evictions(holder.evictions)
            if number in snapshot.ended or (holder.minimum == 1 and ends <= snapshot.now):
                continue
            for seat in admission.seats:
                room[str(seat.node)] -= seat.takes[GPU] // 1000
            quota -= held if admission.queue == OWN else 0
        racks: dict[str, int] = {}
        for node, gpus in room.items():
            rack = f"r{int(node[1:]) // 2}" if pods.required_topology else ""
            racks[rack] = racks.get(rack, 0) + gpus // (pods.takes[GPU] // 1000)
        return max(racks.values()) >= pods.count and quota >= gang.asks()[GPU] // 1000

    def is_in(self, gang: Workload) -> bool:
        """Whether the gang runs."""
        return any(each.workload == gang.key for each in self.snapshot.admissions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A full cluster of one gang whose pods end piece by piece, a gang that is first in line, and small work."""

    #: The first moment at which the pods are ending.
    cluster: Snapshot
    gang: Workload
    #: Which seats end with each turn; all of them together.
    pieces: tuple[frozenset[int], ...]
    #: Queues that small work comes to.
    queues: tuple[QueueName, ...]
    #: Seconds from turn to turn.
    turn: int


@st.composite
def removals(draw: st.DrawFn) -> Removal:
    """One to four nodes in racks of two; the gang's queue may have a limit, also of quota that the other gang holds."""
    nodes, gpus, held = (
        draw(st.integers(1, 4)),
        draw(st.sampled_from([1, 2, 4])),
        draw(st.sampled_from([1, 2, 4])),
    )
    rack = draw(st.booleans())
    most = (min(2, nodes) if rack else nodes) * (GPUS // gpus)
    gang = replace(_workload("gang", OWN, gpus, pods=draw(st.integers(1, most))), priority=1)
    (pods,) = gang.pod_sets
    gang = replace(gang, pod_sets=(replace(pods, required_topology="rack" if rack else None),))
    every, same_queue = nodes * GPUS * 1000, draw(st.booleans())
    limit = every if same_queue else draw(st.integers(gang.asks()[GPU] // 1000, every // 1000)) * 1000
    queues = [
        Queue(name=OWN, limits=Limits(deserved={GPU: limit}, capability={GPU: limit}), policy=PEACE),
        Queue(name=OTHER, limits=Limits(deserved={GPU: 0}), policy=PEACE),
    ]
    return Removal(
        cluster=_removing(draw, nodes, held, OWN if same_queue else OTHER, gang, queues),
        gang=gang,
        pieces=_pieces(draw, nodes * (GPUS // held)),
        queues=draw(st.sampled_from([(OWN,), (OTHER,), (OWN, OTHER)])),
        turn=draw(st.integers(1, coming_room.LEAVING_SECONDS // 5)),
    )


def _removing(
    draw: st.DrawFn, nodes: int, held: int, queue: QueueName, gang: Workload, queues: Sequence[Queue]
) -> Snapshot:
    """The nodes full of a gang that was evicted now, or whose object is gone; its pods have so many GPUs each."""
    removed = _workload("removed", queue, held, pods=nodes * (GPUS // held))
    takes, number = removed.pod_sets[0].takes, AdmissionId(1)
    evicted = draw(st.booleans())
    admission = Admission(
        id=number,
        workload=removed.key,
        namespace="team",
        name="removed",
        queue=queue,
        priority=0,
        seats=tuple(
            Seat(pod_set="main", ordinal=each, node=NodeName(f"n{each * held // GPUS}"), takes=takes)
            for each in range(removed.minimum)
        ),
        opened_at=NOW - 100,
        state=AdmissionState.EVICTING if evicted else AdmissionState.OPEN,
        evicted_at=NOW if evicted else 0,
    )
    return Snapshot(
        now=NOW,
        queues={each.name: each for each in queues},
        nodes=_cluster(nodes, used=Resources({GPU: GPUS * 1000, "pods": GPUS // held})),
        pending={gang.key: gang},
        admissions={number: admission},
        holders={removed.key: removed},
        leaving={} if evicted else {number: NOW},
    )


def _pieces(draw: st.DrawFn, seats: int) -> tuple[frozenset[int], ...]:
    """All seats, in up to four pieces."""
    order = draw(st.permutations(range(seats)))
    cuts = sorted(draw(st.sets(st.integers(1, seats), max_size=3)) | {0, seats})
    return tuple(frozenset(order[first:last]) for first, last in pairwise(cuts))


def gets_the_room_that_comes_back_in_pieces(removal: Removal) -> None:
    """It is in with the turn that sees the last of the pieces, or before, whatever small work comes meanwhile.

    And no more than it asks is kept for it: small work, of one GPU each, has the rest.
    """
    gang, snapshot, memo, is_in = removal.gang, removal.cluster, Memo(), False
    for turn, piece in enumerate(removal.pieces):
        small = [
            replace(_workload(f"small{turn}-{queue}-{number}", queue, 1), arrival=number + 2)
            for queue in removal.queues
            for number in range(len(snapshot.nodes) * GPUS)
        ]
        pending = {**snapshot.pending, **{each.key: each for each in small}}
        ended, now = {AdmissionId(1): piece}, snapshot.now + removal.turn
        snapshot = replace(snapshot, now=now, ended=ended, pending=pending)
        plan, memo = engine.decide(snapshot, memo)
        snapshot = apply(snapshot, plan)
        is_in = any(each.workload == gang.key for each in snapshot.admissions.values())
        free = snapshot.nodes.allocatable - snapshot.nodes.used
        idle = int(free[snapshot.nodes.resources.index(GPU)].sum())
        if OTHER in removal.queues:
            assert idle <= (0 if is_in else gang.asks()[GPU]), f"{idle} idle, though small work waits"
    assert is_in, "small work has taken the pieces"


def waits_at_most_until_its_place_is_cleared(crowd: Crowd) -> None:
    """Nobody declares how long he runs: the gang has a place when it has waited for ``clearAfter``.

    Where it is room that it lacks, then the first turn in which nobody else is let in, or has a place promised, tells
    the victims to go: who is let in by the same turn is not among them, and may be in the way. Where it is quota that
    only its own queue uses, nobody else is let in from then on, and the first turn that begins without enough of it
    does. When they are gone the gang goes in with the next turn. Who had to go before is left alone for a time, and
    may be in the way.
    """
    life = Life(crowd, declares=False)
    for _ in range(3):
        life.turn()
    gang = life.comes(crowd.gang)
    life.turn(gang)
    lacked_quota = False
    while gang.key not in life.snapshot.claims and not life.is_in(gang):
        is_due = life.snapshot.now >= gang.created + (CLEARING.clear_after or 0)
        lacks_quota = crowd.queues == (OWN,) and life.reasons[gang.key].code == ReasonCode.QUEUE_LIMIT
        is_told = life.was_quiet or (lacks_quota and lacked_quota)
        idle = is_due and is_told and life.could_be_cleared(gang)
        assert not idle, f"nobody goes for it at {life.snapshot.now}"
        lacked_quota = lacks_quota
        life.turn()
    for _ in range(crowd.drain):
        if not life.is_in(gang):
            life.turn()
    assert life.is_in(gang), "nobody is left of those who had to go, and it is not in"
    _keeps_its_place(life, gang)


def _keeps_its_place(life: Life, gang: Workload) -> None:
    """A gang that starved runs to its end, which comes in less than a day, though others may deserve its place."""
    (admission,) = (each for each in life.snapshot.admissions.values() if each.workload == gang.key)
    if admission.opened_at - gang.created < (CLEARING.clear_after or 0):
        return
    while life.snapshot.now + TURN < life.ends[admission.id]:
        life.turn()
        assert life.is_in(gang), f"it has to go {life.snapshot.now - admission.opened_at} s after it came in"


def waits_at_most_for_those_who_run_when_it_comes(crowd: Crowd) -> None:
    """Everybody declares how long he runs, nobody can be cleared: the gang is in when those are gone who ran before.

    To that second comes the turn that sees the last of them gone. Those who came later may only pass if they are
    gone by then. Whoever is more urgent, or owed more than the gang's queue, would pass too; here nobody is.
    """
    life = Life(crowd, declares=True)
    for _ in range(3):
        life.turn()
    gang = life.comes(replace(crowd.gang, run_time=600))
    latest = max(life.last_end(), gang.created) + crowd.turn
    life.turn(gang)
    while life.snapshot.now < latest and not life.is_in(gang):
        life.turn()
    assert life.is_in(gang)


def waits_at_most_for_those_who_run_after_two_weeks(crowd: Crowd) -> None:
    """Nobody declares how long he runs, and nobody ever has to go: the gang waits for two weeks at most, as it were.

    After them, for those who run at that moment. Nobody runs for as long as that.
    """
    life = Life(crowd, declares=False)
    for _ in range(3):
        life.turn()
    gang = life.comes(crowd.gang)
    latest = gang.created + 2 * waiting_time.LONG_WAIT + (max(RUN_TIMES) + 2) * crowd.turn
    life.turn(gang)
    while life.snapshot.now < latest and not life.is_in(gang):
        life.turn()
    assert life.is_in(gang)
