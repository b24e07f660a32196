"""Gangs: whole parts, subgroups inside a whole, members that were lost, several kinds of hardware."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.placement import gangs, need
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues import kind_names
from queues.plan import Admit, Reason
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import GPU, Resources, total
from queues.workload import (
    FlavorName,
    NodeFilter,
    NodeName,
    Partition,
    PodSet,
    QueueName,
    Workload,
)
from tests.builders.decided_work import (
    a_node,
    a_snapshot,
    a_workload,
    an_admission,
    gpu_node,
    gpu_pods,
    plan_of,
    seats_on,
)
from tests.function_calls import calls_of
from tests.tables import named_rows, with_rows

ONE = Resources({GPU: 1000, "pods": 1})
Q = QueueName("q")


def nodes(*racks: int, gpus: int = 4, flavor: str = "") -> list[Node]:
    """Racks of so many nodes each, named after them."""
    return [
        gpu_node(f"r{rack}-{number}{flavor}", gpus, labels={"rack": f"r{rack}"}, flavor=FlavorName(flavor))
        for rack, size in enumerate(racks)
        for number in range(size)
    ]


def gang(*sets: PodSet, **more: Any) -> Workload:
    return a_workload("u1", *sets, kind=kind_names.VOLCANO_JOB, **{"name": "one", "generation": "1", **more})


def workers(count: int, **more: Any) -> PodSet:
    return gpu_pods(count, **{"name": "workers", **more})


def world(
    machines: list[Node], workload: Workload, held: dict[int, str] | None = None, queue: Queue | None = None
) -> Snapshot:
    """One workload that waits, with these seats of its first pod set held."""
    flavors = {node.name: node.flavor for node in machines}
    seats = [
        replace(seat, flavor=flavors[seat.node])
        for ordinal, node in (held or {}).items()
        for seat in seats_on(node, workload.pod_sets[0], ordinal)
    ]
    admission = an_admission(7, workload, *seats, opened_at=1, generation="1")
    table = [
        replace(node, used=node.used + total(seat.takes for seat in seats if seat.node == node.name))
        for node in machines
    ]
    return a_snapshot(
        workload,
        queues=[queue or Queue(name=Q)],
        nodes=NodeTable.build(table, [("rack", HOST)]),
        admissions=[admission] if seats else [],
        now=100,
    )


def only_admit(snapshot: Snapshot) -> Admit:
    """What the only workload gets, with its elastic parts."""
    plan = plan_of(snapshot)
    (key,) = snapshot.pending
    admit = plan.admit_of(key)
    assert admit is not None, plan.reasons
    return admit


def racks(admit: Admit, name: str = "workers") -> dict[int, str]:
    return {seat.ordinal: seat.node.split("-")[0] for seat in admit.seats if seat.pod_set == name}


def test_parts_above_the_minimum_join_whole() -> None:
    parts = gang(workers(12, partitions=(Partition(size=4, level="rack"),)), minimum=4)
    machines = nodes(1, 1, gpus=4) + nodes(0, 0, 1, gpus=3)

    assert racks(only_admit(world(machines, parts))) == dict.fromkeys(range(4), "r0")
    first = dict.fromkeys(range(4), "r0-0")
    assert racks(only_admit(world(machines, parts, first))) == dict.fromkeys(range(4, 8), "r1")


def test_the_minimum_is_rounded_up_to_whole_parts() -> None:
    pods = workers(8, partitions=(Partition(size=4, level="rack"),))

    assert plan_of(world(nodes(1, gpus=7), gang(pods, minimum=5))).admits == ()
    assert len(only_admit(world(nodes(1, gpus=8), gang(pods, minimum=5))).seats) == 8


def test_so_many_parts_start_together_as_are_asked_for() -> None:
    pods = workers(12, partitions=(Partition(size=4, level="rack", minimum=2),))

    assert plan_of(world(nodes(1, 1, gpus=4)[:1], gang(pods, minimum=0))).admits == ()
    assert len(only_admit(world(nodes(1, 1, gpus=4), gang(pods, minimum=0))).seats) == 8


def test_parts_that_are_only_preferred_are_given_up_if_they_do_not_fit() -> None:
    soft = workers(8, partitions=(Partition(size=4, level="rack", required=False),))
    hard = workers(8, partitions=(Partition(size=4, level="rack"),))

    assert plan_of(world(nodes(1, 1, gpus=3) + nodes(0, 0, 1, gpus=2), gang(hard))).admits == ()
    assert len(only_admit(world(nodes(1, 1, gpus=3) + nodes(0, 0, 1, gpus=2), gang(soft))).seats) == 8


def test_subgroups_of_several_shapes_keep_together_inside_a_whole() -> None:
    sets = [
        PodSet(
            name=f"{kind}-{group}",
            count=count,
            takes=takes,
            together=f"g{group}",
            required_topology=HOST,
            within="rack",
        )
        for group in range(2)
        for kind, count, takes in (("head", 1, Resources({"pods": 1})), ("workers", 4, ONE))
    ]
    admit = only_admit(world(nodes(1, 2, 1), gang(*sets)))

    at = {seat.pod_set: seat.node for seat in admit.seats}
    assert {node.split("-")[0] for node in at.values()} == {"r1"}
    assert at["head-0"] == at["workers-0"] != at["head-1"] == at["workers-1"]


def test_a_whole_that_fits_into_no_domain_says_so() -> None:
    sets = [gpu_pods(4, name=name, within="rack") for name in ("a", "b")]
    cordoned = [replace(node, usable=False) for node in nodes(0, 0, 2)]

    (reason,) = plan_of(world(nodes(1, 1) + cordoned, gang(*sets))).reasons.values()
    assert reason.code == "TopologyNoFit"
    said = "4 pods of a and 4 pods of b have to be in one rack together; none of 3 holds them"
    assert reason.message == said

    (reason,) = plan_of(world(nodes(1, 1), gang(*sets))).reasons.values()
    assert reason.code == "NeverFits"
    assert reason.message == "8 nvidia.com/gpu asked in one rack, the largest has 4"
    softer = [replace(pods, within_required=False) for pods in sets]
    assert len(only_admit(world(nodes(1, 1), gang(*softer))).seats) == 8


@pytest.mark.parametrize("level", [None, "rack"])
@pytest.mark.parametrize("minimum", [1, 3])
def test_a_workload_that_lacks_nothing_is_refused_with_that_reason(level: str | None, minimum: int) -> None:
    done = gang(workers(2, done=frozenset((0, 1)), within=level), minimum=minimum)
    table = NodeTable.build(nodes(1), [("rack", HOST)])
    tree = QueueTree.build({Q: Queue(name=Q)}, table.capacity())

    answer = gangs.admit(done, need.missing_members(done, ()), Trial.open(table, Usage(tree)))

    assert isinstance(answer, Reason)
    assert answer.code == "NothingMissing"


@named_rows(
    ("pods", "others"),
    {
        "of the gang": (workers(4, required_topology="rack"), {}),
        "of its part": (
            workers(8, partitions=(Partition(size=4, level="rack"),)),
            dict.fromkeys(range(4, 8), "r0-0"),
        ),
    },
)
def test_a_lost_member_is_replaced_inside_the_domain_of_the_others(
    pods: PodSet, others: dict[int, str]
) -> None:
    held = dict.fromkeys((0, 1, 3), "r1-0") | others

    assert racks(only_admit(world(nodes(2, 2), gang(pods), held))) == {2: "r1"}


def broken(**more: Any) -> Snapshot:
    """A gang in rack r0 that lost two of five members, with room for three; r1 has room for all."""
    return world(
        nodes(1, 2), gang(workers(5, required_topology="rack"), **more), dict.fromkeys((0, 1, 2), "r0-0")
    )


def test_a_gang_that_cannot_be_repaired_in_its_domain_starts_again_whole_elsewhere() -> None:
    plan = plan_of(broken())

    (evict,) = plan.evicts
    assert (evict.admission, evict.code, evict.beneficiary) == (7, "TakenBack", None)
    assert not plan.admits


LARGER = {key: replace(each, generation="2") for key, each in broken().pending.items()}
TAKEN = broken().nodes.with_used({NodeName("r1-0"): ONE * 2, NodeName("r1-1"): ONE * 2})


@named_rows(
    "snapshot",
    {
        "no place for all of it": replace(broken(), nodes=TAKEN),
        "its minimum runs": broken(minimum=3),
        "it asks for more": replace(broken(), pending=LARGER),
    },
)
def test_a_gang_is_left_where_it_is_if_that_helps_nobody(snapshot: Snapshot) -> None:
    assert plan_of(snapshot).evicts == ()


def flavored(choice: QueuePolicy, **limits: dict[str, int]) -> Queue:
    """Flavors h100, then a100, with deserved and capability in GPUs."""
    return Queue(
        name=Q,
        flavors={
            FlavorName(name): Limits(
                deserved={GPU: numbers["deserved"] * 1000},
                capability={GPU: numbers["capability"] * 1000} if "capability" in numbers else {},
            )
            for name, numbers in limits.items()
        },
        policy=choice,
    )


def flavors_of(snapshot: Snapshot) -> set[str]:
    """Flavors of the seats that the only workload gets."""
    return {seat.flavor for seat in only_admit(snapshot).seats}


HARDWARE = nodes(1, flavor="h100") + nodes(1, flavor="a100")
#: All of the first flavor is taken.
NO_H100 = [replace(HARDWARE[0], used=ONE * 4), HARDWARE[1]]


@pytest.mark.parametrize(
    ("choice", "h100", "a100", "expected"),
    [
        (QueuePolicy(), 4, 4, "h100"),  # the first that fits
        (QueuePolicy(), 1, 4, "a100"),  # rather the next than borrowing
        (QueuePolicy(), 1, 1, "h100"),  # the first is borrowed if none is free without
        (QueuePolicy(before_borrowing="stop"), 1, 4, "h100"),  # borrows before the next is looked at
    ],
)
def test_the_choice_of_flavors_is_that_of_the_queue(
    choice: QueuePolicy, h100: int, a100: int, expected: str
) -> None:
    queue = flavored(choice, h100={"deserved": h100}, a100={"deserved": a100})

    assert flavors_of(world(HARDWARE, gang(workers(2)), queue=queue)) == {expected}


@pytest.mark.parametrize(("rule", "admits"), [("try-next", 1), ("stop", 0)])
def test_where_somebody_could_be_preempted_the_next_flavor_may_have_to_wait(rule: str, admits: int) -> None:
    queue = flavored(QueuePolicy(before_preempting=rule), h100={"deserved": 4}, a100={"deserved": 4})

    assert len(plan_of(world(NO_H100, gang(workers(2)), queue=queue)).admits) == admits


def test_what_can_never_fit_a_flavor_goes_to_the_next_one() -> None:
    queue = flavored(QueuePolicy(before_preempting="stop"), h100={"deserved": 4}, a100={"deserved": 8})
    machines = HARDWARE[:1] + nodes(2, flavor="a100")

    assert flavors_of(world(machines, gang(workers(6)), queue=queue)) == {"a100"}


def test_pods_of_one_set_are_of_one_flavor_and_the_reason_says_so() -> None:
    queue = flavored(QueuePolicy(), h100={"deserved": 9}, a100={"deserved": 9})
    cordoned = [gpu_node("cordoned", usable=False, flavor=FlavorName("h100"))]

    (reason,) = plan_of(world(HARDWARE + cordoned, gang(workers(6)), queue=queue)).reasons.values()
    assert reason.code == "NoFit"
    assert reason.message.endswith(
        "; there is room for 4 in h100, 4 in a100, but pods of one set are all of one flavor"
    )

    (reason,) = plan_of(world(HARDWARE, gang(workers(6)), queue=queue)).reasons.values()
    assert reason.code == "NeverFits"
    assert reason.message.endswith(
        "6 pods of 1 nvidia.com/gpu asked in one flavor, the largest holds 4 even if empty"
    )


def test_members_that_join_later_are_of_the_flavor_of_the_others() -> None:
    queue = flavored(QueuePolicy(), h100={"deserved": 9}, a100={"deserved": 9})

    assert flavors_of(world(HARDWARE, gang(workers(3), minimum=1), {0: "r0-0a100"}, queue=queue)) == {"a100"}


@with_rows("resource")
def test_devices_of_every_vendor_are_counted_whole_and_in_quota(resource: str) -> None:
    takes = Resources({resource: 1000, "pods": 1})
    machine = a_node("n", {resource: 2000, "pods": 110})
    queue = Queue(name=Q, limits=Limits(capability={resource: 1000}))

    two, three = gang(workers(2, takes=takes)), gang(workers(3, takes=takes))

    assert len(only_admit(world([machine], two)).seats) == 2
    (by_nodes,) = plan_of(world([machine], three)).reasons.values()
    assert (by_nodes.code, by_nodes.facts["fit"]) == ("NeverFits", 2)
    (by_quota,) = plan_of(world([machine], two, queue=queue)).reasons.values()
    assert by_quota.code == "NeverFits"
    assert by_quota.message == f"2 {resource} asked, queue q may use 1"


def started(snapshot: Snapshot) -> dict[str, int]:
    """How many of each pod set start."""
    plan = plan_of(snapshot)
    seats = [seat.pod_set for admit in plan.admits for seat in admit.seats]
    return {name: seats.count(name) for name in sorted(set(seats))}


def large(count: int, **more: Any) -> PodSet:
    return workers(count, name="large", takes=Resources({GPU: 4000, "pods": 1}), **more)


IN_R0, IN_R1 = (NodeFilter(selector=(("rack", rack),)) for rack in ("r0", "r1"))


@named_rows(
    ("sets", "minimum", "racks", "start"),
    {
        "others than the first": ((large(4), workers(4)), 4, (1,), {"workers": 4}),
        "all others and one": ((large(3), workers(2)), 3, (2,), {"large": 1, "workers": 2}),
        "some of each": (
            (large(2, nodes=IN_R0), workers(5, nodes=IN_R1)),
            5,
            (1, 1),
            {"large": 1, "workers": 4},
        ),
        "what is due is among them": ((large(3, minimum=1), workers(3)), 3, (2,), {"large": 1, "workers": 2}),
        "what is due has no room": ((large(2, minimum=2), workers(4)), 4, (1,), {}),
        "too few have room": ((large(4), workers(4)), 5, (1,), {}),
    },
)
def test_a_minimum_over_all_pod_sets_is_met_by_whoever_has_room(
    sets: tuple[PodSet, ...], minimum: int, racks: tuple[int, ...], start: dict[str, int]
) -> None:
    assert started(world(nodes(*racks), gang(*sets, minimum=minimum))) == start


def test_a_minimum_over_all_pod_sets_is_met_by_those_whom_the_queue_has_quota_for() -> None:
    queue = Queue(name=Q, limits=Limits(capability={GPU: 3000}))
    snapshot = world(nodes(4), gang(large(3), workers(3), minimum=3), queue=queue)

    assert started(snapshot) == {"workers": 3}


def test_members_of_other_sets_are_chosen_in_one_domain_as_well() -> None:
    sets = (large(2, within="rack"), workers(4, within="rack"))

    assert started(world(nodes(1, 1), gang(*sets, minimum=4))) == {"workers": 4}
    assert started(world(nodes(1, 1, gpus=3), gang(*sets, minimum=4))) == {}


def test_room_is_made_for_whichever_members_can_have_it() -> None:
    """Nobody may go from the rack of the first pod set; the second's own queue has less urgent work."""
    sets = (large(2, nodes=IN_R0), workers(2, nodes=IN_R1))
    urgent = replace(gang(*sets, minimum=2), priority=9)
    holder = a_workload("u2", workers(2), arrival=0)
    admission = an_admission(1, holder, *seats_on("r1-0 r1-0", *holder.pod_sets), opened_at=0)
    snapshot = world(nodes(1, 1, gpus=2), urgent)
    snapshot = replace(
        snapshot,
        nodes=snapshot.nodes.with_used({NodeName("r1-0"): ONE * 2}),
        admissions={admission.id: admission},
        holders={holder.key: holder},
    )
    plan = plan_of(snapshot)
    assert [evict.admission for evict in plan.evicts] == [admission.id]
    assert {seat.pod_set for claim in plan.claims for seat in claim.seats} == {"workers"}


def test_workers_do_not_make_up_the_minimum_without_the_leader_they_go_with() -> None:
    sets = tuple(replace(pods, together="both") for pods in (large(1), workers(4)))

    assert started(world(nodes(1, gpus=4), gang(*sets, minimum=4))) == {}
    assert started(world(nodes(2, gpus=4), gang(*sets, minimum=4))) == {"large": 1, "workers": 4}


def test_where_the_queue_stops_at_a_flavor_the_reason_says_which_one_has_room() -> None:
    queue = flavored(QueuePolicy(before_preempting="stop"), h100={"deserved": 4}, a100={"deserved": 4})

    (reason,) = plan_of(world(NO_H100, gang(workers(4)), queue=queue)).reasons.values()
    assert reason.message.endswith(
        "a100 has room, but the queue waits in h100 until others make room there "
        "(flavorChoice.beforePreempting: stop)"
    )


def test_room_in_a_flavor_without_quota_is_not_called_split() -> None:
    queue = flavored(QueuePolicy(), h100={"deserved": 4}, a100={"deserved": 2, "capability": 2})

    (reason,) = plan_of(world(NO_H100, gang(workers(4)), queue=queue)).reasons.values()
    assert "pods of one set" not in reason.message


def test_a_gang_that_does_not_fit_costs_as_much_as_it_has_pod_sets() -> None:
    def decided(sets: int) -> int:
        large = Resources({GPU: 8000, "pods": 1})
        pod_sets = (PodSet(name=f"s{number:03}", count=8, takes=large) for number in range(sets))
        snapshot = world(nodes(4, 4, gpus=7), gang(*pod_sets, minimum=sets * 4))
        return calls_of(lambda: decide(snapshot, Memo()))

    assert decided(64) < 2.5 * decided(32)


def test_a_gang_of_several_sets_that_lacks_little_costs_no_placement_for_each_of_its_members() -> None:
    def decided(members: int) -> int:
        small = Resources({GPU: 10, "pods": 1})
        sets = [PodSet(name=name, count=members, takes=small) for name in ("a", "b")]
        room = Node(name=NodeName("n"), allocatable=Resources({GPU: members * 16, "pods": 9999}), labels={})
        snapshot = world([room], gang(*sets, minimum=members * 2 - members // 4))
        return calls_of(lambda: decide(snapshot, Memo()))

    assert decided(400) < 2.5 * decided(100)


@pytest.mark.parametrize("free", range(3, 14))
@pytest.mark.parametrize("minimum", [3, 7, 12])
def test_a_gang_of_two_sets_gets_its_minimum_wherever_its_members_find_a_place(
    free: int, minimum: int
) -> None:
    sets = [workers(6, name=name) for name in ("a", "b")]
    plan = plan_of(world([gpu_node("n", free)], gang(*sets, minimum=minimum)))
    seats = sum(len(admit.seats) for admit in plan.admits)
    assert seats == (12 if free >= 12 else minimum if free >= minimum else 0)


@pytest.mark.parametrize("free", range(1, 9))
def test_a_complete_gang_takes_as_many_further_members_as_find_a_place(free: int) -> None:
    plan = plan_of(world([gpu_node("n", free + 1)], gang(workers(8), minimum=1), {0: "n"}))
    assert sum(len(admit.seats) for admit in plan.admits) == min(free, 7)
