"""An owner among borrowers that do all that users can do to stay: how long it waits for what its queue deserves.

Elastic members come and go, pods are replaced one after another, jobs end and are submitted anew, and everything is
annotated and under disruption budgets. Virtual time, random ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.preemption.protection import BUDGETS_KEEP_LENT_QUOTA
from admission.engine.snapshot import Budget, Snapshot
from queues import kind_names
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, PodSet, QueueName, Workload, WorkloadKey
from tests.builders.decided_work import a_node, a_snapshot
from tests.laws.laws.preemption import protected_after_evictions
from tests.laws.worlds.plan_effects import apply, drained

NOW = 10_000_000
DAY = 86_400
#: Seconds from turn to turn.
TURN = 600
#: The default of ``clearAfter``.
CLEAR_AFTER = 1800
#: GPUs of a node; each pod asks for one.
GPUS = 4

OWNER, BORROWER = QueueName("owner"), QueueName("borrower")
ONE = Resources({GPU: 1000, "pods": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowers:
    """A cluster full of work on lent quota, and a gang of the owner that comes then."""

    #: Nothing runs in it yet.
    cluster: Snapshot
    borrowers: tuple[Workload, ...]
    owner: Workload
    #: Workloads under a disruption budget that allows nothing.
    under_budget: frozenset[WorkloadKey]
    #: In how many turns a pod of each gang goes and comes again; which one: the oldest, or any.
    replaced_every: int
    oldest_goes: bool
    seed: int


@st.composite
def borrowers(draw: st.DrawFn) -> Borrowers:
    """One to three nodes, full of gangs and single pods of a queue that deserves less than it uses."""
    nodes = draw(st.integers(1, 3))
    every = nodes * GPUS
    kept = draw(st.integers(0, every // 2))
    policy = QueuePolicy(
        min_run_time=draw(st.sampled_from([None, None, 1800, 7200])),
        max_protection=draw(st.sampled_from([None, None, 3600])),
    )
    works: list[Workload] = []
    left = every
    while left:
        pods = min(left, draw(st.integers(1, 6)))
        works.append(draw(_borrower(len(works), pods)))
        left -= pods
    owner = _workload("owner", OWNER, draw(st.integers(1, every - kept)), arrival=1000)
    return Borrowers(
        cluster=a_snapshot(
            queues=[
                Queue(name=OWNER, limits=Limits(deserved={GPU: (every - kept) * 1000})),
                Queue(name=BORROWER, limits=Limits(deserved={GPU: kept * 1000}), policy=policy),
            ],
            nodes=_cluster(nodes),
            now=NOW,
        ),
        borrowers=tuple(works),
        owner=owner,
        under_budget=frozenset(each.key for each in works if draw(st.integers(0, 3)) == 0),
        replaced_every=draw(st.integers(1, 12)),
        oldest_goes=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def _borrower(draw: st.DrawFn, number: int, pods: int) -> Workload:
    return replace(
        _workload(f"w{number}", BORROWER, pods, arrival=number + 1),
        minimum=draw(st.integers(1, pods)),
        evictions=draw(st.sampled_from([0, 0, 1, 3, 6])),
        preemptable=draw(st.sampled_from([True, True, False])),
        min_run_time=draw(st.sampled_from([0, 0, 10**9])),
        cooldown=draw(st.sampled_from([0, 0, 3600])),
    )


def _workload(name: str, queue: QueueName, pods: int, arrival: int) -> Workload:
    return Workload(
        key=WorkloadKey(kind_names.VOLCANO_JOB, name),
        namespace="team",
        name=name,
        queue=queue,
        arrival=arrival,
        created=NOW,
        minimum=pods,
        generation="1",
        pod_sets=(PodSet(name="main", count=pods, takes=ONE),),
    )


def _cluster(nodes: int) -> NodeTable:
    return NodeTable.build(
        [a_node(f"n{number}", {GPU: GPUS * 1000, "pods": 50}) for number in range(nodes)],
        [(HOST,)],
    )


def latest_start(world: Borrowers) -> int:
    """Seconds in which an owner has what it deserves, by the list of what is granted from a time.

    What runs when it comes is protected for the longest of these from its start, and what starts later from its last
    eviction at the latest; budgets keep lent quota for ``maxProtection``, or for hours. Then its victims go.
    """
    policy = world.cluster.queues[BORROWER].policy
    rests = max(protected_after_evictions(each.evictions) for each in world.borrowers)
    budgets = BUDGETS_KEEP_LENT_QUOTA if policy.max_protection is None else policy.max_protection
    longest = max(policy.min_run_time or 0, rests, budgets if world.under_budget else 0, CLEAR_AFTER)
    return longest + 4 * TURN


def an_owner_gets_back_what_it_deserves(world: Borrowers) -> None:
    """It is in within the bound, whatever joins, restarts or is annotated."""
    chance, memo = Random(world.seed), Memo()
    wanted = {each.key: each for each in world.borrowers}
    snapshot = replace(world.cluster, pending=dict(wanted))
    last, serial = 0, 0

    def turn(snapshot: Snapshot, *more: Workload) -> Snapshot:
        nonlocal memo, last
        snapshot = replace(snapshot, budgets=_budget(snapshot, world.under_budget))
        snapshot = replace(snapshot, pending={**snapshot.pending, **{each.key: each for each in more}})
        # Who is let in by a turn is not among its victims; the next one follows at once.
        for _ in range(2):
            plan, memo = engine.decide(snapshot, memo)
            snapshot = drained(apply(snapshot, plan, last=last))
            last = max([last, *snapshot.admissions])
        return replace(snapshot, now=snapshot.now + TURN)

    snapshot = turn(snapshot)
    for number in range(1000):
        snapshot, ending = _with_ends(snapshot, world, chance, number)
        comes: list[Workload] = []
        for key in ending:
            holder = snapshot.holders[key]
            if holder.pod_sets[0].count == 1 and holder.queue == BORROWER:
                serial += 1
                comes.append(
                    replace(
                        holder,
                        key=WorkloadKey(kind_names.VOLCANO_JOB, f"again{serial}"),
                        name=f"again{serial}",
                        created=snapshot.now,
                        evictions=0,
                        waiting_since=0,
                    )
                )
            else:
                comes.append(holder)
        begun = snapshot.now - NOW >= DAY // 24 * (1 + world.seed % 8)
        if begun and not any(each.queue == OWNER for each in snapshot.pending.values()):
            comes.append(replace(world.owner, created=snapshot.now))
        snapshot = turn(snapshot, *comes)
        if any(each.queue == OWNER for each in snapshot.admissions.values()):
            return
        waiting = [each for each in snapshot.pending.values() if each.queue == OWNER]
        for each in waiting:
            assert snapshot.now - each.created <= latest_start(world), (
                f"it still waits after {snapshot.now - each.created} s of {latest_start(world)} s"
            )


def _with_ends(
    snapshot: Snapshot, world: Borrowers, chance: Random, number: int
) -> tuple[Snapshot, list[WorkloadKey]]:
    """Now and then a pod of each workload goes; whose pods these are."""
    ended: dict[AdmissionId, frozenset[int]] = {}
    keys: list[WorkloadKey] = []
    of: dict[WorkloadKey, list[AdmissionId]] = {}
    for id_, admission in sorted(snapshot.admissions.items()):
        of.setdefault(admission.workload, []).append(id_)
    for index, (key, ids) in enumerate(sorted(of.items())):
        if (number + index) % world.replaced_every or snapshot.holders[key].queue == OWNER:
            continue
        id_ = ids[0] if world.oldest_goes else chance.choice(ids)
        held = snapshot.admissions[id_]
        ended[id_] = frozenset({min(set(range(len(held.seats))) - held.ended)})
        keys.append(key)
    return replace(snapshot, ended=ended), keys


def _budget(snapshot: Snapshot, under: frozenset[WorkloadKey]) -> tuple[Budget, ...]:
    pods: Mapping[WorkloadKey, int] = {
        key: sum(len(each.holding()) for each in snapshot.admissions.values() if each.workload == key)
        for key in sorted(under)
        if any(each.workload == key for each in snapshot.admissions.values())
    }
    return (Budget(namespace="team", name="budget", allowed=0, pods=pods),) if pods else ()
