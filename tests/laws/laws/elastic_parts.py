"""Worlds that one elastic gang fills, and the laws of what a reclaim takes of it."""

from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.placement.gangs import MOST_PARTS
from admission.engine.placement.need import missing_members
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission
from queues.plan import Evict, Plan
from queues.quota.queue import Limits, Queue
from queues.resources import GPU, Resources
from queues.workload import (
    Partition,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_node
from tests.laws.worlds.plan_effects import apply, seats_after

LENDER, BORROWER = QueueName("lender"), QueueName("borrower")
GANG, OWNER = WorkloadKey(kind_names.VOLCANO_JOB, "gang"), WorkloadKey(kind_names.VOLCANO_JOB, "owner")
ONE = Resources({GPU: 1000, "pods": 1})


class LentWorld(NamedTuple):
    """An elastic gang that runs on what it was lent, admitted at once, and an owner that wants some of it back."""

    snapshot: Snapshot
    #: Its pods above the minimum.
    above: int
    #: Single-GPU pods that the owner starts together.
    asked: int

    @property
    def gang(self) -> Workload:
        return self.snapshot.holders[GANG]

    @property
    def parts(self) -> list[Admission]:
        """All admissions of the gang, its minimum first."""
        return sorted(self.snapshot.admissions.values(), key=lambda each: each.id)


@st.composite
def lent_gangs(draw: st.DrawFn) -> LentWorld:
    """A gang of one or two pod sets on up to six nodes that it fills."""
    nodes, gpus = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 4, 8]))
    pods = nodes * gpus
    leaders = draw(st.integers(0, min(2, pods - 1)))
    minimum = draw(st.integers(max(1, leaders), pods))
    sets = [PodSet(name="leaders", count=leaders, takes=ONE, minimum=leaders)] if leaders else []
    sets.append(
        PodSet(
            name="workers",
            count=pods - leaders,
            takes=ONE,
            minimum=draw(st.integers(0, minimum - leaders)),
            required_topology=draw(st.sampled_from([None, "block"])),
        )
    )
    size = draw(st.sampled_from([size for size in (1, 2, 4) if (pods - leaders) % size == 0]))
    if size > 1:
        sets[-1] = replace(sets[-1], partitions=(Partition(size=size, level=HOST),) if size <= gpus else ())
    gang = Workload(
        key=GANG,
        namespace="team",
        name="gang",
        queue=BORROWER,
        arrival=1,
        minimum=minimum,
        pod_sets=tuple(sets),
    )
    queues = {
        LENDER: Queue(name=LENDER, limits=Limits(deserved={GPU: pods * 1000})),
        BORROWER: Queue(name=BORROWER, limits=Limits(deserved={GPU: 0})),
    }
    table = NodeTable.build(
        [
            a_node(f"n{number}", {GPU: gpus * 1000, "pods": 110}, labels={"block": "b"})
            for number in range(nodes)
        ],
        [("block", HOST)],
    )
    empty = Snapshot(now=1000, queues=queues, nodes=table, pending={GANG: gang}, admissions={})
    running = apply(empty, plan_of(empty))
    asked = draw(st.integers(1, pods))
    owner = replace(
        gang,
        key=OWNER,
        name="owner",
        queue=LENDER,
        arrival=2,
        minimum=asked,
        pod_sets=(PodSet(name="main", count=asked, takes=ONE),),
    )
    wanted = replace(running, now=5000, pending={OWNER: owner}, holders={GANG: gang})
    first = missing_members(gang, []).minimum
    return LentWorld(wanted, pods - sum(len(ordinals) for ordinals in first.values()), asked)


def plan_of(snapshot: Snapshot) -> Plan:
    """The plan without any memo."""
    return engine.decide(snapshot, Memo())[0]


def victims(world: LentWorld) -> list[Evict]:
    """What is evicted for the owner."""
    return [each for each in plan_of(world.snapshot).evicts if each.beneficiary == OWNER]


def a_gang_is_its_minimum_and_few_parts(world: LentWorld) -> None:
    """The first admission is the minimum and no more; the others together are all the rest, each seat once."""
    first, *parts = world.parts
    gang, counts = world.gang, {pods.name: 0 for pods in world.gang.pod_sets}
    for seat in first.seats:
        counts[seat.pod_set] += 1
    assert len(parts) <= MOST_PARTS
    assert sum(counts.values()) >= gang.minimum
    assert all(counts[pods.name] >= pods.minimum for pods in gang.pod_sets)
    seats = [(seat.pod_set, seat.ordinal) for each in world.parts for seat in each.seats]
    assert sorted(seats) == sorted(
        (pods.name, ordinal) for pods in gang.pod_sets for ordinal in range(pods.count)
    )
    if not any(pods.partitions for pods in gang.pod_sets):
        assert len(first.seats) == gang.minimum


def parts_of_a_set_stay_whole(world: LentWorld) -> None:
    """No part of a pod set that starts together is in two admissions."""
    for pods in world.gang.pod_sets:
        for partition in pods.partitions:
            owners: dict[int, set[int]] = {}
            for each in world.parts:
                for seat in each.seats:
                    if seat.pod_set == pods.name:
                        owners.setdefault(seat.ordinal // partition.size, set()).add(each.id)
            assert all(len(ids) == 1 for ids in owners.values())


def the_minimum_stays_if_the_parts_suffice(world: LentWorld) -> None:
    """A reclaim of no more than what is above the minimum leaves the gang its minimum, in all and of each pod set."""
    if world.asked > world.above:
        return
    left = seats_after(world.snapshot, plan_of(world.snapshot)).get(GANG, [])
    assert victims(world)
    assert len(left) >= world.gang.minimum
    for pods in world.gang.pod_sets:
        assert sum(seat.pod_set == pods.name for seat in left) >= pods.minimum


def no_more_parts_than_need_be(world: LentWorld) -> None:
    """A reclaim of single GPUs takes the smallest number of parts that have as many."""
    sizes = sorted((len(each.seats) for each in world.parts[1:]), reverse=True)
    if world.asked > sum(sizes):
        return
    fewest = next(number for number, sum_ in enumerate(accumulate(sizes), 1) if sum_ >= world.asked)
    assert len(victims(world)) == fewest


def below_its_minimum_a_gang_goes_whole(world: LentWorld) -> None:
    """Where its parts are not enough, all of it goes."""
    if world.asked > world.above:
        assert not seats_after(world.snapshot, plan_of(world.snapshot)).get(GANG)


def a_raised_minimum_protects_no_part(world: LentWorld) -> None:
    """A gang whose owner raises its minimum while it runs loses what it would lose otherwise."""
    gang = world.gang
    sets = tuple(replace(pods, minimum=pods.count) for pods in gang.pod_sets)
    raised = replace(gang, minimum=sum(pods.count for pods in sets), pod_sets=sets)
    then = world._replace(snapshot=replace(world.snapshot, holders={GANG: raised}))
    assert {each.admission for each in victims(then)} == {each.admission for each in victims(world)}
