"""Whole devices by number: which ones pods get on nodes with several islands of NVLinks, and when none will do."""

from dataclasses import replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.device_links import best_linked
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.preemption.candidates import ChargesByShape
from admission.engine.snapshot import Snapshot
from queues.api.names import NVL_DOMAIN
from queues.plan import Plan
from queues.quota.namespace_quota import requests_together
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device, devices_text
from queues.workload import DeviceShare, PodSet, QueueName, Workload
from tests.builders.decided_work import a_snapshot, an_admission, plan_of
from tests.builders.device_numbers import devices_in, gpu_workload, linked_node, places_in, plain_node
from tests.laws.worlds.plan_effects import apply, drained

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


def snapshot_of(nodes: list[Node], *pending: Workload) -> Snapshot:
    queue = Queue(name=QueueName("q"), policy=QueuePolicy(within_queue="lower-priority"))
    return a_snapshot(*pending, queues=[queue], nodes=nodes, now=1000)


def decided(nodes: list[Node], *pending: Workload) -> Plan:
    return plan_of(snapshot_of(nodes, *pending))


def given(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(seat.node, devices_in(seat.takes)) for admit in plan.admits for seat in admit.seats]


def waits(plan: Plan) -> str:
    [reason] = plan.reasons.values()
    return f"{reason.code}: {reason.message}"


def test_many_root_complexes_are_taken_by_numa_node() -> None:
    places = places_in(*((number,) for number in range(16)), per_numa=8)
    assert best_linked(frozenset(range(2, 16)), places, 8) == tuple(range(8, 16))


def test_pods_get_devices_by_number_where_islands_are_reported(golden: Any) -> None:
    pods = [gpu_workload(number, 2) for number in range(4)]
    plan = decided([linked_node("n1", *PAIRS, held=(2,))], *pods)
    assert given(plan) == [("n1", (0, 1)), ("n1", (4, 5)), ("n1", (6, 7))]
    assert [devices_text(seat.takes) for admit in plan.admits for seat in admit.seats] == golden
    assert waits(plan).startswith("NoFit")


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
    snapshot = apply(snapshot, plan_of(snapshot))
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
    snapshot = apply(snapshot, plan_of(snapshot))
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
    plan = plan_of(snapshot)
    freed = [seat for evict in plan.evicts for seat in snapshot.admissions[evict.admission].seats]
    assert len(freed) == 2
    assert len({(seat.node, devices_in(seat.takes)[0] // 2) for seat in freed}) == 1
    assert [seat.node for seat in plan.claims[0].seats] == [freed[0].node]


def test_numbers_of_devices_add_nothing_to_the_size_of_work_or_to_what_it_asks() -> None:
    counted = Resources({CPU: 1000, GPU: 2000})
    numbered = Resources({**counted, device(GPU, 0): 1000})
    assert requests_together({numbered: 1}) == requests_together({counted: 1})
    [seat] = decided([linked_node("n1", *PAIRS)], gpu_workload(1, 2)).admits[0].seats
    admission = an_admission(1, gpu_workload(1, 2), seat)
    assert ChargesByShape().hold(admission).size == 1000 + 16 * 2000


def test_nvlink_domains_across_nodes_are_a_level_by_themselves() -> None:
    plain = [plain_node(f"n{number}", 4, reported=True) for number in range(4)]
    nodes = [replace(node, labels={NVL_DOMAIN: f"c.{n % 2}"}) for n, node in enumerate(plain)]
    together = gpu_workload(1, 4, count=2, required_topology=NVL_DOMAIN)
    assert [node for node, _ in given(decided(nodes, together))] == ["n0", "n2"]
    three = gpu_workload(1, 4, count=3, required_topology=NVL_DOMAIN)
    assert waits(decided(nodes, three)).startswith("NeverFits")
    assert waits(decided(plain, together)).startswith("UnknownLevel")
    named = NodeTable.build(nodes, [(NVL_DOMAIN, HOST)])
    assert len(named.layout.chains) == 1
