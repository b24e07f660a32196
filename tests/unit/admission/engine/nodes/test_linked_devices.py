"""Whole devices by number: which ones pods get on nodes with several islands of NVLinks, and when none will do."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.device_links import best_linked
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.preemption.candidates import ChargesByShape
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission
from queues.api.names import NVL_DOMAIN
from queues.plan import Plan
from queues.quota.namespace_quota import requests_together
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device, devices_text
from queues.workload import AdmissionId, DevicePlace, DeviceShare, PodSet, QueueName, Workload
from tests.builders.device_numbers import devices_in, gpu_workload, linked_node, places_in, plain_node
from tests.laws.worlds.plan_effects import apply, drained

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
BOARDS = ((0, 1, 2, 3), (4, 5, 6, 7))
ALONE = tuple((number,) for number in range(8))


def snapshot_of(nodes: list[Node], *pending: Workload, levels: tuple[str, ...] = ()) -> Snapshot:
    table = NodeTable.build(nodes, [levels] if levels else [])
    name = QueueName("q")
    queue = Queue(name=name, policy=QueuePolicy(within_queue="lower-priority"))
    waiting = {each.key: each for each in pending}
    return Snapshot(now=1000, queues={name: queue}, nodes=table, pending=waiting, admissions={})


def decided(nodes: list[Node], *pending: Workload) -> Plan:
    return decide(snapshot_of(nodes, *pending), Memo())[0]


def given(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(seat.node, devices_in(seat.takes)) for admit in plan.admits for seat in admit.seats]


def waits(plan: Plan) -> str:
    [reason] = plan.reasons.values()
    return f"{reason.code}: {reason.message}"


@pytest.mark.parametrize(
    ("islands", "free", "count", "expected"),
    [
        (BOARDS, range(8), 2, (0, 1)),
        (BOARDS, (0, 1, 2, 3, 5, 6, 7), 2, (5, 6)),
        (BOARDS, range(8), 5, (0, 1, 2, 3, 4)),
        (PAIRS, (0, 2, 3, 4), 1, (0,)),
        (PAIRS, (0, 2, 3, 4), 2, (2, 3)),
        (PAIRS, (0, 2, 3, 4), 3, (0, 2, 3)),
        (ALONE, range(2, 8), 4, (4, 5, 6, 7)),
    ],
    ids=[
        "one board",
        "the board with fewer free",
        "two boards, the first used up",
        "a device whose neighbour is taken",
        "a whole pair",
        "a pair and a single one",
        "cards of one NUMA node",
    ],
)
def test_the_best_linked_devices_are_taken(
    islands: tuple[tuple[int, ...], ...], free: range, count: int, expected: tuple[int, ...]
) -> None:
    assert best_linked(frozenset(free), places_in(*islands), count) == expected


def test_in_an_island_devices_of_one_root_complex_and_then_of_one_numa_node_are_taken() -> None:
    roots = [DevicePlace(number, 0, f"pci{number % 2}", 0) for number in range(4)]
    assert best_linked(frozenset(range(4)), tuple(roots), 2) == (0, 2)
    nodes = [DevicePlace(number, 0, f"pci{number}", number % 2) for number in range(4)]
    assert best_linked(frozenset(range(4)), tuple(nodes), 2) == (0, 2)


def test_many_root_complexes_are_taken_by_numa_node() -> None:
    places = places_in(*((number,) for number in range(16)), per_numa=8)
    assert best_linked(frozenset(range(2, 16)), places, 8) == tuple(range(8, 16))


def test_pods_get_devices_by_number_where_islands_are_reported(golden: Any) -> None:
    pods = [gpu_workload(number, 2) for number in range(4)]
    plan = decided([linked_node("n1", *PAIRS, held=(2,))], *pods)
    assert given(plan) == [("n1", (0, 1)), ("n1", (4, 5)), ("n1", (6, 7))]
    assert [devices_text(seat.takes) for admit in plan.admits for seat in admit.seats] == golden
    assert waits(plan).startswith("NoFit")


def test_pods_of_a_gang_on_one_node_get_devices_of_their_own() -> None:
    plan = decided([linked_node("n1", *BOARDS)], gpu_workload(1, 3, count=2))
    assert given(plan) == [("n1", (0, 1, 2)), ("n1", (4, 5, 6))]


@pytest.mark.parametrize("reported", [True, False])
def test_devices_are_only_counted_where_all_are_joined_or_nobody_tells(reported: bool) -> None:
    node = plain_node("n1", 8, reported=reported)
    assert given(decided([node], gpu_workload(1, 4))) == [("n1", ())]


def test_a_pod_that_asks_for_one_island_goes_where_one_has_room() -> None:
    nodes = [
        linked_node("n1", *PAIRS),
        linked_node("n2", *BOARDS, held=(0,)),
        plain_node("n3", 8, reported=False),
    ]
    assert given(decided(nodes, gpu_workload(1, 4, linked=True))) == [("n2", (4, 5, 6, 7))]


def test_a_node_with_one_island_takes_pods_that_ask_for_one() -> None:
    plan = decided([plain_node("n1", 8, reported=True)], *(gpu_workload(n, 4, linked=True) for n in range(3)))
    assert given(plan) == [("n1", ()), ("n1", ())]


def test_one_device_is_in_one_island_wherever_it_is() -> None:
    plan = decided([plain_node("n1", 8, reported=False)], gpu_workload(1, 1, linked=True))
    assert given(plan) == [("n1", ())]


def test_a_refusal_tells_what_is_known_of_islands(golden: Any) -> None:
    nodes = [
        linked_node("n1", *PAIRS),
        plain_node("n2", 8, reported=False),
        plain_node("n3", 2, reported=True),
    ]
    assert waits(decided(nodes, gpu_workload(1, 4, linked=True))) == golden


def test_devices_that_are_held_without_a_number_may_be_in_any_island() -> None:
    node = linked_node("n1", *PAIRS, unknown=1)
    assert given(decided([node], gpu_workload(1, 2, linked=True))) == []
    assert given(decided([node], gpu_workload(1, 7))) == [("n1", (0, 1, 2, 3, 4, 5, 6))]


def test_a_device_that_is_held_though_it_is_not_well_takes_no_other() -> None:
    node = linked_node("n1", *PAIRS, held=(0,))
    offered = {**node.allocatable, GPU: 7 * WHOLE, device(GPU, 0): 0}
    places = tuple(place for place in PLACES if place.number != 0)
    [links] = node.devices
    node = replace(node, allocatable=Resources(offered), devices=(replace(links, each=places),))
    plan = decided([node], *(gpu_workload(number, 2, linked=True) for number in range(4)))
    assert given(plan) == [("n1", (2, 3)), ("n1", (4, 5)), ("n1", (6, 7))]


PLACES = places_in(*PAIRS)


def test_a_node_that_gives_out_whole_devices_by_number_takes_no_parts_of_them() -> None:
    half = DeviceShare(devices=1, milli=500)
    pods = PodSet(name="main", count=1, takes=Resources({CPU: 1000, PODS: 1, GPU: 500}), share=half)
    pod = replace(gpu_workload(1, 1), pod_sets=(pods,))
    assert given(decided([linked_node("n1", *PAIRS)], pod)) == []
    shared = linked_node("n1", *PAIRS, held=(1, 2), in_parts=True)
    assert given(decided([shared], pod)) == [("n1", (0,))]
    assert given(decided([shared, plain_node("n2", 8, reported=True)], gpu_workload(1, 8))) == [("n2", ())]


def test_a_victim_gives_back_its_devices_and_the_winner_gets_them() -> None:
    running = [gpu_workload(number, 2) for number in range(4)]
    snapshot = snapshot_of([linked_node("n1", *PAIRS)], *running)
    snapshot = apply(snapshot, decide(snapshot, Memo())[0])
    urgent = replace(gpu_workload(9, 2, linked=True), priority=10)
    snapshot = replace(snapshot, pending={urgent.key: urgent}, holders={each.key: each for each in running})
    evicting, memo = decide(snapshot, Memo())
    [evicted] = evicting.evicts
    [freed] = snapshot.admissions[evicted.admission].seats
    [claim] = evicting.claims
    assert devices_in(claim.seats[0].takes) == devices_in(freed.takes)
    plan, _ = decide(drained(apply(snapshot, evicting)), memo)
    assert given(plan) == [("n1", devices_in(freed.takes))]


def test_victims_for_a_pod_that_needs_one_island_share_one() -> None:
    nodes = [linked_node(f"n{number:02}", *PAIRS) for number in range(20)]
    running = [gpu_workload(number, 1) for number in range(160)]
    snapshot = snapshot_of(nodes, *running)
    snapshot = apply(snapshot, decide(snapshot, Memo())[0])
    assert len(snapshot.admissions) == 160
    # The cheapest victims of each node are in different pairs.
    dear = {key: each for key, each in snapshot.admissions.items() if devices_in(each.seats[0].takes)[0] % 2}
    admissions = {
        key: replace(each, opened_at=0 if key in dear else 900) for key, each in snapshot.admissions.items()
    }
    urgent = replace(gpu_workload(900, 2, linked=True), priority=10)
    snapshot = replace(
        snapshot,
        admissions=admissions,
        pending={urgent.key: urgent},
        holders={each.key: each for each in running},
    )
    plan, _ = decide(snapshot, Memo())
    freed = [seat for evict in plan.evicts for seat in snapshot.admissions[evict.admission].seats]
    assert len(freed) == 2
    assert len({(seat.node, devices_in(seat.takes)[0] // 2) for seat in freed}) == 1
    assert [seat.node for seat in plan.claims[0].seats] == [freed[0].node]


def test_numbers_of_devices_add_nothing_to_the_size_of_work_or_to_what_it_asks() -> None:
    counted, numbered = (
        Resources({CPU: 1000, GPU: 2000}),
        Resources({CPU: 1000, GPU: 2000, device(GPU, 0): 1000}),
    )
    assert requests_together({numbered: 1}) == requests_together({counted: 1})
    [seat] = decided([linked_node("n1", *PAIRS)], gpu_workload(1, 2)).admits[0].seats
    admission = Admission(
        id=AdmissionId(1),
        workload=gpu_workload(1, 2).key,
        namespace="team",
        name="one",
        queue=QueueName("q"),
        priority=0,
        seats=(seat,),
        opened_at=0,
        generation="1",
    )
    assert ChargesByShape().hold(admission).size == 1000 + 16 * 2000


def test_nvlink_domains_across_nodes_are_a_level_by_themselves() -> None:
    nodes = [
        replace(plain_node(f"n{n}", 4, reported=True), labels={NVL_DOMAIN: f"c.{n % 2}"}) for n in range(4)
    ]
    together = gpu_workload(1, 4, count=2, required_topology=NVL_DOMAIN)
    assert [node for node, _ in given(decided(nodes, together))] == ["n0", "n2"]
    assert waits(decided(nodes, gpu_workload(1, 4, count=3, required_topology=NVL_DOMAIN))).startswith(
        "NeverFits"
    )
    plain = [replace(node, labels={}) for node in nodes]
    assert waits(decided(plain, together)).startswith("UnknownLevel")
    named = NodeTable.build(nodes, [(NVL_DOMAIN, HOST)])
    assert len(named.layout.chains) == 1
