"""Fractions of one device: where they are put, and that nothing is given out twice."""

import pytest

from admission.engine.nodes.table import Node
from queues import kind_names
from queues.plan import Plan
from queues.quota.accounts import Account, charges, charges_in_own_flavor
from queues.quota.posting import NodeAccount, Posting
from queues.quota.queue import Limits, Queue
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device, device_memory
from queues.workload import NO_FLAVOR, DeviceShare, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_snapshot, a_workload, plan_of
from tests.builders.device_numbers import devices_in


def shared(name: str, gpus: int, used: dict[str, int] | None = None, memory: int = 0) -> Node:
    """A node that shares its devices."""
    rows = {device(GPU, index): WHOLE for index in range(gpus)}
    plain = {CPU: 64_000, PODS: 110, GPU: gpus * WHOLE, device_memory(GPU): memory}
    return Node(name=NodeName(name), allocatable=Resources(plain | rows), used=Resources(used or {}))


def pod(number: int, *, whole: int = 0, count: int = 1, share: DeviceShare | None = None) -> Workload:
    """A workload of equal pods that start together."""
    gpus = whole * WHOLE if share is None else share.devices * share.milli
    pods = PodSet(name="main", count=count, takes=Resources({CPU: 1000, PODS: 1, GPU: gpus}), share=share)
    return a_workload(f"pod-{number}", pods, kind=kind_names.POD, arrival=number)


def decided(nodes: list[Node], *pods: Workload, limit: int | None = None) -> Plan:
    """The plan of one turn."""
    limits = Limits() if limit is None else Limits(capability={GPU: limit})
    return plan_of(
        a_snapshot(*pods, queues=[Queue(name=QueueName("q"), limits=limits)], now=1000, nodes=nodes)
    )


def devices(plan: Plan) -> list[tuple[NodeName, tuple[int, ...]]]:
    """Node and devices of every seat, in the order of admission."""
    return [(seat.node, devices_in(seat.takes, GPU)) for admit in plan.admits for seat in admit.seats]


def half(milli: int = 500) -> DeviceShare:
    """A part of one device."""
    return DeviceShare(devices=1, milli=milli)


def test_two_halves_share_a_device_and_a_third_opens_the_next() -> None:
    plan = decided([shared("n1", 2)], *(pod(number, share=half()) for number in range(3)))
    assert devices(plan) == [("n1", (0,)), ("n1", (0,)), ("n1", (1,))]


def test_a_part_goes_where_least_is_left_of_a_device() -> None:
    begun = {GPU: 900, device(GPU, 0): 300, device(GPU, 2): 600}
    plan = decided([shared("n1", 4, begun)], pod(1, share=half(400)))
    assert devices(plan) == [("n1", (2,))]


def test_a_whole_device_is_none_that_somebody_has_a_part_of() -> None:
    begun = {GPU: 200, device(GPU, 0): 100, device(GPU, 1): 100}
    plan = decided([shared("n1", 2, begun)], pod(1, whole=1))
    assert plan.admits == ()
    assert plan.reasons[pod(1).key].code == "NoFit"


def test_a_part_is_of_no_device_that_is_given_out_whole() -> None:
    plan = decided([shared("n1", 2, {GPU: 2 * WHOLE})], pod(1, share=half(1)))
    assert plan.admits == ()


def test_parts_of_several_devices_are_of_different_ones() -> None:
    share = DeviceShare(devices=2, milli=600)
    plan = decided([shared("n1", 4)], *(pod(number, share=share) for number in range(3)))
    assert devices(plan) == [("n1", (0, 1)), ("n1", (2, 3))]


def test_a_gang_of_parts_starts_whole_or_not_at_all() -> None:
    nodes = [shared("n1", 1), shared("n2", 1)]
    assert len(devices(decided(nodes, pod(1, count=4, share=half())))) == 4
    assert decided(nodes, pod(1, count=5, share=half())).admits == ()


def test_memory_is_the_same_part_of_everything_else() -> None:
    share = DeviceShare(devices=1, memory=20_000)
    plan = decided([shared("n1", 1, memory=80_000)], *(pod(number, share=share) for number in range(5)))
    assert [admit.seats[0].takes[device(GPU, 0)] for admit in plan.admits] == [250] * 4


def test_memory_of_a_device_that_does_not_tell_its_own_is_not_given_out() -> None:
    plan = decided([shared("n1", 1)], pod(1, share=DeviceShare(devices=1, memory=1)))
    assert plan.admits == ()


def test_nodes_that_do_not_share_take_no_parts() -> None:
    plain = Node(name=NodeName("n1"), allocatable=Resources({CPU: 64_000, PODS: 110, GPU: 8 * WHOLE}))
    assert decided([plain], pod(1, share=half())).admits == ()
    assert devices(decided([plain, shared("n2", 1)], pod(1, share=half()))) == [("n2", (0,))]


@pytest.mark.parametrize(("limit", "admitted"), [(1500, 3), (1499, 2)])
def test_quota_is_used_in_parts(limit: int, admitted: int) -> None:
    plan = decided([shared("n1", 8)], *(pod(number, share=half()) for number in range(4)), limit=limit)
    assert admitted == len(plan.admits)


def test_the_ledger_charges_queues_for_parts_and_nodes_for_devices() -> None:
    (admit,) = decided([shared("n1", 2)], pod(1, share=half())).admits
    posting = Posting.of(admit.queue, admit.seats)
    assert posting.accounts == {
        Account(NO_FLAVOR, name): units for name, units in ((CPU, 1000), (PODS, 1), (GPU, 500))
    }
    assert posting.nodes[NodeAccount(NodeName("n1"), device(GPU, 0))] == 500
    assert charges_in_own_flavor(admit.seats) == posting.accounts == charges(admit.seats)
