"""Small worlds that are full, and the laws of who may be taken back in them, told by the plain rules."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.preemption.protection import BUDGETS_KEEP_LENT_QUOTA
from admission.engine.preemption.rules import EvictionRule
from admission.engine.snapshot import Budget, Snapshot
from admission.explain.takers import standing
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Claim, Seat
from queues.plan import Plan
from queues.quota.accounts import Account, charges
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import GPU, Resources, total
from queues.text_format import rfc3339
from queues.workload import (
    NO_FLAVOR,
    AdmissionId,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.laws.worlds.plan_effects import apply, drained

NOW = 100_000
GPUS = 4
DAY = 86_400


@st.composite
def full_worlds(draw: st.DrawFn) -> Snapshot:
    """Two racks of small nodes, mostly taken, and a few who want in."""
    names = [NodeName(f"n{number}") for number in range(draw(st.integers(1, 4)))]
    leaves = {
        QueueName(f"q{number}"): draw(_queues(f"q{number}")) for number in range(draw(st.integers(1, 3)))
    }
    queues = draw(_cohorts(leaves)) if draw(st.booleans()) else leaves
    free = dict.fromkeys(names, GPUS)
    holders: dict[WorkloadKey, Workload] = {}
    admissions: dict[AdmissionId, Admission] = {}
    for number in range(draw(st.integers(2, 14))):
        workload = draw(_workloads(number, sorted(leaves), most=2))
        room = [name for name in names for _ in range(free[name] // _gpus(workload))]
        if len(room) < workload.minimum:
            continue
        on = draw(st.permutations(room))[: workload.minimum]
        for name in on:
            free[name] -= _gpus(workload)
        holders[workload.key] = workload
        admissions[AdmissionId(number + 1)] = Admission(
            id=AdmissionId(number + 1),
            workload=workload.key,
            namespace="team",
            name=workload.name,
            queue=workload.queue,
            priority=workload.priority,
            seats=tuple(
                Seat(pod_set="main", ordinal=place, node=name, takes=workload.pod_sets[0].takes)
                for place, name in enumerate(on)
            ),
            opened_at=NOW - draw(st.integers(0, 5000)),
            generation="1",
            started=True,
        )
    pending = [draw(_workloads(100 + number, sorted(leaves))) for number in range(draw(st.integers(1, 3)))]
    return Snapshot(
        now=NOW,
        queues=queues,
        nodes=table(names, admissions),
        pending={each.key: each for each in pending},
        admissions=admissions,
        holders=holders,
        budgets=draw(_budgets(sorted(holders), holders)),
    )


@st.composite
def _cohorts(draw: st.DrawFn, leaves: Mapping[QueueName, Queue]) -> dict[QueueName, Queue]:
    """These queues below one or two others."""
    above = [draw(_queues(name)) for name in ("a", "b")]
    below = [replace(leaf, parent=draw(st.sampled_from(above)).name) for leaf in leaves.values()]
    return {queue.name: queue for queue in (*above, *below)}


@st.composite
def _queues(draw: st.DrawFn, name: str) -> Queue:
    deserved = draw(st.sampled_from([None, 0, 2, 4, 8]))
    return Queue(
        name=QueueName(name),
        limits=Limits(deserved={} if deserved is None else {GPU: deserved * 1000}),
        reclaimable=draw(st.sampled_from([True] * 5 + [False])),
        policy=QueuePolicy(
            within_queue=draw(st.sampled_from([None, None, "never", "lower-or-newer-equal"])),
            reclaim=draw(st.sampled_from([None] * 4 + ["never", "lower-priority"])),
            min_run_time=draw(st.sampled_from([None] * 4 + [1000])),
            max_priority=draw(st.sampled_from([None] * 4 + [5])),
            max_protection=draw(st.sampled_from([None] * 4 + [2000])),
        ),
    )


@st.composite
def _workloads(draw: st.DrawFn, number: int, queues: list[QueueName], most: int = 3) -> Workload:
    pods, gpus = draw(st.integers(1, most)), draw(st.integers(1, GPUS))
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"w{number}"),
        namespace="team",
        name=f"w{number}",
        queue=draw(st.sampled_from(queues)),
        priority=draw(st.sampled_from([0, 0, 5, 9])),
        arrival=number,
        created=NOW - draw(st.sampled_from([10, 10_000])),
        minimum=pods,
        generation="1",
        pod_sets=(
            PodSet(
                name="main",
                count=pods,
                takes=Resources({GPU: gpus * 1000, "pods": 1}),
                required_topology=draw(st.sampled_from([None, None, "rack"])),
            ),
        ),
        preempts=draw(st.sampled_from([True] * 7 + [False])),
        preemptable=draw(st.sampled_from([True] * 5 + [False])),
        evictions=draw(st.sampled_from([0] * 7 + [1, 3])),
        checkpoint_interval=draw(st.sampled_from([None, 600])),
    )


@st.composite
def _budgets(
    draw: st.DrawFn, keys: list[WorkloadKey], holders: dict[WorkloadKey, Workload]
) -> tuple[Budget, ...]:
    if not keys or draw(st.integers(0, 3)):
        return ()
    under = draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    pods = {key: holders[key].minimum for key in under}
    return (Budget(namespace="team", name="budget", allowed=draw(st.integers(0, 2)), pods=pods),)


def _gpus(workload: Workload) -> int:
    return workload.pod_sets[0].takes[GPU] // 1000


def table(names: list[NodeName], admissions: dict[AdmissionId, Admission]) -> NodeTable:
    """Nodes of four GPUs, two to a rack, with what these admissions use of them."""
    used: dict[NodeName, list[Resources]] = {}
    for admission in admissions.values():
        for seat in admission.seats:
            used.setdefault(seat.node, []).append(seat.takes)
    nodes = [
        Node(
            name=name,
            allocatable=Resources({GPU: GPUS * 1000, "pods": 50}),
            labels={"rack": f"r{number // 2}", HOST: name},
            used=total(used.get(name, ())),
        )
        for number, name in enumerate(names)
    ]
    return NodeTable.build(nodes, [("rack", HOST)])


def plan_of(snapshot: Snapshot) -> Plan:
    """The plan without any memo."""
    return engine.decide(snapshot, Memo())[0]


def books(snapshot: Snapshot) -> Usage:
    """What queues use, everything that leaves included."""
    usage = Usage(QueueTree.build(snapshot.queues, snapshot.nodes.capacity()))
    for admission in snapshot.admissions.values():
        usage.add(admission.queue, charges(admission.holding()))
    return usage


def no_victim_without_a_beneficiary(snapshot: Snapshot) -> None:
    """Whoever goes by a rule goes for somebody who waits and has a claim that names him, and nobody goes twice."""
    plan = plan_of(snapshot)
    claims = {claim.workload: claim for claim in plan.claims}
    for number, times in Counter(evict.admission for evict in plan.evicts).items():
        assert times == 1, number
    for evict in plan.evicts:
        assert evict.beneficiary is not None
        assert evict.beneficiary in plan.reasons
        assert evict.beneficiary in claims
        assert evict.admission in claims[evict.beneficiary].victims
    for claim in plan.claims:
        assert claim.victims


def nobody_protected_goes(snapshot: Snapshot) -> None:
    """Not preemptable, evicted often, too young, waited long for it, in a queue that may not be reclaimed from."""
    plan = plan_of(snapshot)
    tree = books(snapshot).tree
    kept = _within_deserved(snapshot)
    for evict in plan.evicts:
        admission = snapshot.admissions[evict.admission]
        workload, policy = snapshot.holders[admission.workload], tree.policy(admission.queue)
        assert admission.state is AdmissionState.OPEN
        assert evict.beneficiary is not None
        own_queue = snapshot.pending[evict.beneficiary].queue == admission.queue
        if own_queue or admission.id in kept:
            assert not _wishes_to_stay(snapshot, admission)
        ran = snapshot.now - admission.opened_at
        if evict.code != EvictionRule.RECLAIMED or not _waited_before(
            snapshot, evict.beneficiary, admission, tree
        ):
            assert ran >= (policy.min_run_time or 0)
        assert ran >= protected_after_evictions(workload.evictions)
        if evict.code == EvictionRule.RECLAIMED:
            assert tree.queues[admission.queue].reclaimable
            waited = admission.opened_at - (workload.waiting_since or workload.created)
            had_waited = workload.minimum > 1 and waited >= (policy.clear_after or 0)
            most = DAY if policy.max_protection is None else min(DAY, policy.max_protection)
            assert (
                ran >= most or not had_waited or _is_owed(snapshot, plan, evict.beneficiary, admission, tree)
            )


def _is_owed(
    snapshot: Snapshot, plan: Plan, beneficiary: WorkloadKey, victim: Admission, tree: QueueTree
) -> bool:
    """Whether a gang has waited long, and its queues below those that it shares with the victim's use no device."""
    waits = snapshot.pending[beneficiary]
    long = snapshot.now - (waits.waiting_since or waits.created) >= (
        tree.policy(waits.queue).clear_after or 0
    )
    [*_, top] = (name for name in tree.paths[waits.queue] if name not in tree.paths[victim.queue])
    gone = {evict.admission for evict in plan.evicts}
    used = (each for number, each in snapshot.admissions.items() if number not in gone)
    return waits.minimum > 1 and long and not any(top in tree.paths[each.queue] for each in used)


def _waited_before(snapshot: Snapshot, beneficiary: WorkloadKey, victim: Admission, tree: QueueTree) -> bool:
    """Whether work has waited long, and since before the other one started."""
    waits = snapshot.pending[beneficiary]
    since = waits.waiting_since or waits.created
    long = snapshot.now - since >= (tree.policy(waits.queue).clear_after or 0)
    return long and since < victim.opened_at


def protected_after_evictions(evictions: int) -> int:
    """Seconds for which a workload is left alone after its start, by how often it was evicted before."""
    return min(3600 * 2 ** (evictions - 1), DAY) if evictions else 0


def _wishes_to_stay(snapshot: Snapshot, admission: Admission) -> bool:
    """Whether the user's wish not to be evicted may count now: it has an end (``maxProtection``)."""
    queue: QueueName | None = admission.queue
    bounds = []
    while queue in snapshot.queues:
        bounds.append(snapshot.queues[queue].policy.max_protection)
        queue = snapshot.queues[queue].parent
    ends = min((admission.opened_at + most for most in bounds if most is not None), default=snapshot.now + 1)
    return not snapshot.holders[admission.workload].preemptable and ends > snapshot.now


def _within_deserved(snapshot: Snapshot) -> set[AdmissionId]:
    """Admissions that wish to stay and are the oldest that fit into what their queue deserves, one after the other."""
    tree, kept = books(snapshot).tree, set()
    sums: dict[tuple[QueueName, Account], int] = {}
    for number, admission in sorted(snapshot.admissions.items()):
        if _wishes_to_stay(snapshot, admission):
            after = {
                (admission.queue, account): sums.get((admission.queue, account), 0) + units
                for account, units in charges(admission.holding()).items()
            }
            if all(units <= tree.deserved(*account) for account, units in after.items()):
                sums |= after
                kept.add(number)
    return kept


def nothing_goes_for_who_never_preempts(snapshot: Snapshot) -> None:
    """Nothing is evicted for a workload of a class with ``preemptionPolicy: Never``."""
    for evict in plan_of(snapshot).evicts:
        assert evict.beneficiary is not None
        assert snapshot.pending[evict.beneficiary].preempts


def priority_beyond_the_highest_counts_nothing(snapshot: Snapshot, more: int) -> None:
    """Pending work of the highest priority that counts in its queue gains nothing by a higher one."""
    raised = {
        key: replace(workload, priority=workload.priority + more)
        if _counted(snapshot, workload.queue, workload.priority + 1) <= workload.priority
        else workload
        for key, workload in snapshot.pending.items()
    }
    assert plan_of(replace(snapshot, pending=raised)) == plan_of(snapshot)


def priority_protects(snapshot: Snapshot) -> None:
    """Who is more urgent goes only for what the queue of the beneficiary owns, or one above it on its side.

    By usage as it is when victims are chosen, for one beneficiary after the other.
    """
    plan, usage = plan_of(snapshot), books(snapshot)
    for admit in plan.admits:
        usage.add(admit.queue, charges(admit.seats))
    for claim in plan.claims:
        evicts = [each for each in plan.evicts if each.beneficiary == claim.workload]
        for evict in evicts:
            gone = snapshot.admissions[evict.admission]
            usage.remove(gone.queue, charges(gone.holding()))
        # A starved gang may have a place cleared beyond what its queue owns, beside others that got theirs back.
        if any(evict.code != EvictionRule.CLEARED for evict in evicts):
            usage.add(claim.queue, charges(claim.seats))
        for evict in evicts:
            mine = snapshot.pending[claim.workload]
            victim = snapshot.admissions[evict.admission]
            if victim.queue == mine.queue or evict.code != EvictionRule.RECLAIMED:
                assert _counted(snapshot, victim.queue, victim.priority) <= _counted(
                    snapshot, mine.queue, mine.priority
                )
            else:
                assert _within_a_share(usage, mine.queue, victim.queue)


def _counted(snapshot: Snapshot, queue: QueueName, priority: int) -> int:
    """The priority that counts in a queue, by the queues on its path."""
    name: QueueName | None = queue
    while name in snapshot.queues:
        most = snapshot.queues[name].policy.max_priority
        priority = priority if most is None else min(priority, most)
        name = snapshot.queues[name].parent
    return min(priority, 1_000_000_000)


def budgets_hold(snapshot: Snapshot) -> None:
    """No more pods go than a PodDisruptionBudget allows, but for a reclaim of what it has kept for long enough."""
    plan, tree = plan_of(snapshot), books(snapshot).tree
    for budget in snapshot.budgets:
        leaving = 0
        for evict in plan.evicts:
            admission = snapshot.admissions[evict.admission]
            most = tree.policy(admission.queue).max_protection
            kept = BUDGETS_KEEP_LENT_QUOTA if most is None else most
            is_lent = evict.code == EvictionRule.RECLAIMED and snapshot.now - admission.opened_at >= kept
            if admission.workload in budget.pods and not is_lent:
                leaving += len(admission.seats)
        assert leaving <= budget.allowed


def victim_sets_are_minimal(snapshot: Snapshot) -> None:
    """Without any one of its victims a sole beneficiary does not fit, or does not own the place of the others.

    Without all of them it fits.
    """
    plan = plan_of(snapshot)
    if len(plan.claims) != 1 or plan.admits:
        return
    (claim,) = plan.claims
    alone = replace(snapshot, pending={claim.workload: snapshot.pending[claim.workload]})
    for stays in (None, *claim.victims):
        without = {
            number: replace(each, state=AdmissionState.EVICTING)
            if number in claim.victims and number != stays
            else each
            for number, each in snapshot.admissions.items()
        }
        later = replace(drained(replace(alone, admissions=without)), holders={})
        admitted = bool(plan_of(later).admits)
        if stays is None:
            assert admitted
        elif admitted:
            assert snapshot.admissions[stays].queue == claim.queue, stays
            assert not _owns(later, claim, [snapshot.admissions[each].queue for each in claim.victims]), stays


def _owns(snapshot: Snapshot, claim: Claim, others: Iterable[QueueName]) -> bool:
    """Whether what the claim is for is owned on its side of the ancestor with each of these queues."""
    usage = books(snapshot)
    usage.add(claim.queue, charges(claim.seats))
    return all(_within_a_share(usage, claim.queue, other) for other in others if other != claim.queue)


def _within_a_share(usage: Usage, mine: QueueName, other: QueueName) -> bool:
    """Whether a queue, or one above it below the ancestor that it has in common with the other, is in its share."""
    account, paths = Account(NO_FLAVOR, GPU), usage.tree.paths
    side = [name for name in paths[mine] if name not in paths[other]]
    return any(usage.used(name, account) <= usage.tree.deserved(name, account) for name in side)


def beneficiaries_come_in(snapshot: Snapshot) -> None:
    """When the victims are gone every beneficiary is admitted, whoever else has come meanwhile.

    Only a more urgent workload of the same queue may come in its place.
    """
    plan = plan_of(snapshot)
    later = drained(apply(snapshot, plan))
    small = Workload(
        key=WorkloadKey(kind_names.JOB, "late"),
        namespace="team",
        name="late",
        queue=max(snapshot.queues),
        priority=5,
        arrival=0,
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=Resources({GPU: 1000, "pods": 1})),),
    )
    later = replace(later, now=snapshot.now + 5, pending={**later.pending, small.key: small})
    admitted = {admit.workload for admit in plan_of(later).admits}
    late = {claim.workload for claim in plan.claims} - admitted
    assert len(late) <= (small.key in admitted)
    for workload in late:
        beneficiary = snapshot.pending[workload]
        assert beneficiary.queue == small.queue, workload
        assert beneficiary.priority < small.priority, workload


def comes_to_rest(snapshot: Snapshot, turns: int = 60) -> None:
    """With nothing arriving and nothing ending, everybody's place is found and nobody is moved any more."""
    evictions: Counter[WorkloadKey] = Counter()
    for turn in range(turns):
        plan = plan_of(snapshot)
        if not plan.changes_ledger():
            return
        for evict in plan.evicts:
            evictions[snapshot.admissions[evict.admission].workload] += 1
        assert max(evictions.values(), default=0) <= 1
        snapshot = replace(drained(apply(snapshot, plan)), now=snapshot.now + turn)
    raise AssertionError(f"still moving: {evictions}")


def no_ping_pong(snapshot: Snapshot, turns: int = 60) -> None:
    """Nobody goes for somebody who went for him, as long as nothing arrives or ends."""
    gone_for: set[tuple[WorkloadKey, WorkloadKey | None]] = set()
    for turn in range(turns):
        plan = plan_of(snapshot)
        if not plan.changes_ledger():
            return
        for evict in plan.evicts:
            victim = snapshot.admissions[evict.admission].workload
            assert (evict.beneficiary, victim) not in gone_for, f"{victim} and {evict.beneficiary} in turns"
            gone_for.add((victim, evict.beneficiary))
        snapshot = replace(drained(apply(snapshot, plan)), now=snapshot.now + turn)


def few_evictions_in_a_day(snapshot: Snapshot, chance: Random, turns: int = 300) -> None:
    """Nobody goes more than five times in a day, whatever comes and goes in three days.

    One may go at any time, and then not before 1, 2, 4 and 8 hours after his next start; for one who has waited since
    before that start, after the eviction. So a gang goes for a part of its nodes once in that time at most.
    """
    snapshot, memo = replace(snapshot, budgets=()), Memo()
    evicted: dict[WorkloadKey, list[int]] = {}
    for turn in range(turns):
        plan, memo = engine.decide(snapshot, memo)
        for evict in plan.evicts:
            victim = snapshot.admissions[evict.admission].workload
            times = evicted.setdefault(victim, [])
            rest = protected_after_evictions(snapshot.holders[victim].evictions)
            assert not times or snapshot.now - times[-1] >= rest
            times.append(snapshot.now)
            assert len([each for each in times if each > snapshot.now - DAY]) <= 5
        snapshot = drained(apply(snapshot, plan))
        over = {
            number: frozenset(range(len(admission.seats)))
            for number, admission in snapshot.admissions.items()
            if chance.random() < (0.5 if admission.priority else 0.02)
        }
        pending, now = dict(snapshot.pending), snapshot.now + 900
        if len(pending) < 6 and (known := [*snapshot.holders.values(), *pending.values()]):
            like, key = chance.choice(known), WorkloadKey(kind_names.JOB, f"later{turn}")
            pending[key] = replace(
                like,
                key=key,
                name=key.uid,
                priority=chance.choice([0, 5, 9]),
                arrival=1000 + turn,
                created=now,
                evictions=0,
                waiting_since=0,
            )
        snapshot = replace(snapshot, now=now, pending=pending, ended=over)


def independent_of_order(snapshot: Snapshot, seed: int) -> None:
    """The same world in another order loses the same victims."""
    chance = Random(seed)

    def shuffled(items: Any) -> Any:
        return dict(chance.sample(list(items.items()), len(items)))

    twin = replace(
        snapshot,
        queues=shuffled(snapshot.queues),
        pending=shuffled(snapshot.pending),
        admissions=shuffled(snapshot.admissions),
        holders=shuffled(snapshot.holders),
    )
    assert plan_of(twin) == plan_of(snapshot)


@st.composite
def lent_worlds(draw: st.DrawFn) -> Snapshot:
    """A full cluster of nodes with one GPU, single pods that ask for one, and users who all wish to stay.

    Queues own no more than there is, and one of them, which wants what it deserves, does not have it.
    """
    deserved = draw(st.lists(st.integers(0, 4), min_size=2, max_size=4))
    names = [QueueName(f"q{number}") for number in range(len(deserved))]
    nodes = [NodeName(f"n{number}") for number in range(max(2, sum(deserved)))]
    queues = {
        name: Queue(name=name, limits=Limits(deserved={GPU: units * 1000}))
        for name, units in zip(names, deserved, strict=True)
    }
    takes = Resources({GPU: 1000, "pods": 1})
    holders, admissions = {}, {}
    for number, node in enumerate(nodes, 1):
        workload = replace(
            draw(_workloads(number, names, most=1)),
            preempts=True,
            preemptable=draw(st.booleans()),
            min_run_time=draw(st.sampled_from([0, 10**9])),
            cooldown=draw(st.sampled_from([0, 10**9])),
            evictions=0,
            minimum=1,
            pod_sets=(PodSet(name="main", count=1, takes=takes),),
        )
        holders[workload.key] = workload
        admissions[AdmissionId(number)] = Admission(
            id=AdmissionId(number),
            workload=workload.key,
            namespace="team",
            name=workload.name,
            queue=workload.queue,
            priority=workload.priority,
            seats=(Seat(pod_set="main", ordinal=0, node=node, takes=takes),),
            opened_at=NOW - draw(st.integers(0, 5000)),
            started=True,
        )
    wants = replace(
        draw(_workloads(100, names, most=1)),
        preempts=True,
        minimum=1,
        pod_sets=(PodSet(name="main", count=1, takes=takes),),
    )
    table_of_nodes = NodeTable.build(
        [
            Node(
                name=name,
                allocatable=Resources({GPU: 1000, "pods": 110}),
                labels={"rack": "r", HOST: name},
                used=takes,
            )
            for name in nodes
        ],
        [("rack", HOST)],
    )
    return Snapshot(
        now=NOW,
        queues=queues,
        nodes=table_of_nodes,
        pending={wants.key: wants},
        admissions=admissions,
        holders=holders,
    )


def borrowers_keep_nothing(snapshot: Snapshot) -> None:
    """What a queue deserves it gets back, whatever the users of the queues that borrowed it wish."""
    (wants,) = snapshot.pending.values()
    usage, account = books(snapshot), Account(NO_FLAVOR, GPU)
    if usage.used(wants.queue, account) + 1000 > usage.tree.deserved(wants.queue, account):
        return
    evicts = plan_of(snapshot).evicts
    assert [evict.beneficiary for evict in evicts] == [wants.key]
    victim = snapshot.admissions[evicts[0].admission]
    lent = usage.used(victim.queue, account) > usage.tree.deserved(victim.queue, account)
    assert lent or victim.queue == wants.queue


def evictions_were_named(snapshot: Snapshot) -> None:
    """Each rule by which a workload goes was told of it before, for that queue and as possible already."""
    plan = plan_of(snapshot)
    # Victims are chosen when all else of the turn is decided, for one beneficiary after the other.
    chosen = replace(plan, evicts=tuple(each for each in plan.evicts if each.beneficiary is None), claims=())
    for claim in plan.claims:
        before = snapshot.after(chosen)
        evicts = tuple(each for each in plan.evicts if each.beneficiary == claim.workload)
        for evict in evicts:
            told = standing(before, snapshot.admissions[evict.admission].workload)
            assert told is not None
            named = [
                taker for taker in told.takers if taker.rule == evict.code and claim.queue in taker.queues
            ]
            assert [taker.from_ <= rfc3339(snapshot.now) for taker in named] == [True], (evict, told)
            assert told.protected_until is None
            assert not told.nobody
        chosen = replace(chosen, evicts=(*chosen.evicts, *evicts), claims=(*chosen.claims, claim))
