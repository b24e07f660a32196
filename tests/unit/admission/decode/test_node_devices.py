"""Device objects of agents → facts, whatever is in them; conditions of an unhealthy device → its fault."""

import json
from typing import Any

import msgspec
import pytest

from admission.agent.health.conditions import UNHEALTHY, ConditionType
from admission.decode.devices.node_devices import device_fault, node_devices_fact
from admission.decode.nodes import node_fact
from admission.facts.devices import DeviceFault, NodeDevicesFact
from admission.wire import WireCondition, WireNode, WireNodeDevices
from queues.api import names
from queues.resources import GPU, Resources
from tests.builders.node_agents.node_devices import Document, device, device_object
from tests.tables import with_rows


def read(document: Document) -> NodeDevicesFact:
    return node_devices_fact(msgspec.json.decode(msgspec.json.encode(document), type=WireNodeDevices))


def test_devices_are_read_by_their_number_with_what_is_wrong() -> None:
    found = read(device_object("n1", device(1, health=False), device(0)))
    assert found.node == "n1"
    assert [(each.number, each.resource) for each in found.devices] == [(0, GPU), (1, GPU)]
    well, faulty = (each.fault for each in found.devices)
    assert well is None
    told = faulty.told("of node n1, under pod a")
    assert told == "GPU 1 of node n1, under pod a, is unhealthy: XidFault (XID 79: it has fallen off the bus)"
    assert faulty.since == 1_800_000_000


def test_fields_that_an_agent_of_a_newer_version_writes_change_nothing() -> None:
    plain = device_object("n1", device(0), device(1, health=False))
    newer = json.loads(json.dumps(plain))
    for part in (newer, newer["metadata"], newer["spec"], *newer["spec"]["devices"]):
        part["addedLater"] = {"of": ["a", "newer", "version"]}
    assert read(newer) == read(plain)


def test_gpus_are_read_however_many_other_devices_are_listed_before_them() -> None:
    """As koordlet lists them."""
    cards = ({"type": "rdma", "id": f"card-{minor}", "minor": minor, "health": True} for minor in range(100))
    found = read(device_object("n1", *cards, *(device(minor, health=minor != 6) for minor in range(8))))
    assert [each.number for each in found.devices if each.fault is not None] == [6]
    assert len(found.devices) == 8


def test_a_device_that_says_nothing_of_its_health_takes_no_work() -> None:
    """As Koordinator's default has it."""
    [found] = read(device_object("n1", {"type": "gpu", "id": "GPU-0", "minor": 0})).devices
    assert (found.fault.reason, found.fault.since) == ("Unhealthy", 0)


def test_what_only_musters_agent_tells_is_read_where_it_is() -> None:
    labels = {names.GPU_MODEL: "H100", names.NVLINK_ISLAND: "1"}
    parts = [{"profile": "1g.10gb"}, {"profile": "1g.10gb"}, {"profile": "3g.40gb"}]
    annotations = {names.MIG_INSTANCES: json.dumps({"GPU-0": parts})}
    found = read(device_object("n1", device(0, labels=labels), device(1), annotations=annotations)).devices
    assert (found[0].model, found[0].island) == ("H100", 1)
    assert found[0].instances == {"1g.10gb": 2, "3g.40gb": 1}
    assert [each.is_partitioned for each in found] == [True, False]
    assert (found[1].model, found[1].island) == ("", None)


def test_where_a_device_is_is_read_and_unknown_stays_unknown() -> None:
    topology = {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:17", "busID": "0000:18:00.0"}
    labels = {names.DEVICE_INDEX: "5"}
    others = (device(1, topology={"nodeID": -1, "pcieID": ""}), device(2, labels={names.DEVICE_INDEX: "x"}))
    found = read(device_object("n1", device(0, topology=topology, labels=labels), *others)).devices
    assert [(each.numa, each.pcie_root, each.bus_id, each.number) for each in found] == [
        (None, "", "", 1),
        (None, "", "", 2),
        (1, "pci0000:17", "0000:18:00.0", 5),
    ]


def test_pods_hold_devices_by_their_uid() -> None:
    found = read(device_object("n1", device(0), device(1), holders={"a": [0], "b": [1]}))
    assert found.holders == {"a": frozenset((0,)), "b": frozenset((1,))}


def test_devices_are_known_by_the_number_that_pods_name_not_by_their_device_file() -> None:
    labels = ({names.DEVICE_INDEX: "0"}, {names.DEVICE_INDEX: "1"})
    devices = (device(3, labels=labels[0]), device(1, labels=labels[1], health=False))
    found = read(device_object("n1", *devices, holders={"a": [3, 9], "b": [1]}))
    assert [(each.id, each.number) for each in found.devices] == [("GPU-3", 0), ("GPU-1", 1)]
    assert found.devices[1].fault.number == 1
    assert found.holders == {"a": frozenset((0,)), "b": frozenset((1,))}


@pytest.mark.parametrize("minor_of_the_other", [0, 128])
def test_of_two_vendors_devices_with_one_number_neither_is_known_to_be_held(minor_of_the_other: int) -> None:
    """Otherwise a pod on the healthy one would go back for the fault of the other one."""
    first = {names.DEVICE_INDEX: "0", names.KOORDINATOR_GPU_VENDOR: "nvidia"}
    other = {names.DEVICE_INDEX: "0", names.KOORDINATOR_GPU_VENDOR: "amd"}
    of_amd = device(minor_of_the_other, labels=other) | {"id": "AMD-0"}
    devices = (device(0, labels=first, health=False), of_amd)
    found = read(device_object("n1", *devices, device(1), holders={"a": [minor_of_the_other], "b": [1]}))
    assert found.holders == {"a": frozenset(), "b": frozenset((1,))}


@pytest.mark.parametrize(("vendor", "resource"), [("amd", "amd.com/gpu"), ("huawei", "huawei.com/gpu")])
def test_devices_of_a_vendor_count_as_its_resource(vendor: str, resource: str) -> None:
    [found] = read(device_object("n1", device(0), labels={names.KOORDINATOR_GPU_VENDOR: vendor})).devices
    assert found.resource == resource


def test_of_a_node_with_devices_of_two_vendors_each_counts_as_its_own_resource() -> None:
    """The node then has no label of a vendor."""
    of_nvidia, of_amd = ({names.KOORDINATOR_GPU_VENDOR: vendor} for vendor in ("nvidia", "amd"))
    found = read(device_object("n1", device(0, labels=of_nvidia), device(1, labels=of_amd), device(2)))
    assert [each.resource for each in found.devices] == [GPU, "amd.com/gpu", GPU]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("nvidia.com/h100", "nvidia.com/h100"),
        *(
            (text, GPU)
            for text in ("", "cpu", "pods", "kubernetes.io/x", "nvidia.com/gpu#0", "x" * 400 + "/y")
        ),
    ],
)
def test_a_device_counts_as_the_resource_that_it_is_registered_as(told: str, expected: str) -> None:
    """An agent cannot take other resources of its node away."""
    [found] = read(device_object("n1", device(0, labels={names.DEVICE_RESOURCE: told}))).devices
    assert found.resource == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "[]", "7", '{"GPU-0": 7}', '{"GPU-0": [7]}', '{"GPU-0": [{}]}', '{"a": null}'),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"GPU-0":[{"profile":' + "[" * 100_000, id="deep-profile"),
    ],
)
def test_instances_that_cannot_be_read_are_none(text: str) -> None:
    [found] = read(device_object("n1", device(0), annotations={names.MIG_INSTANCES: text})).devices
    assert not found.is_partitioned


def test_other_types_of_devices_and_those_without_a_number_are_left_out() -> None:
    others: list[dict[str, Any]] = [{"type": "rdma", "minor": 0}, {"type": "gpu", "id": "GPU-9"}]
    assert read(device_object("n1", *others)).devices == ()


def test_a_node_tells_what_its_device_plugins_hold_back() -> None:
    status = {
        "capacity": {GPU: "8", "cpu": "64", "example.com/fpga": "x", "example.com/nic": "2"},
        "allocatable": {GPU: "7", "cpu": "60", "example.com/nic": "2"},
    }
    found = node_fact(msgspec.convert({"metadata": {"name": "n1"}, "status": status}, WireNode))
    assert found.withheld == Resources({GPU: 1000})


MARK = ("MarkedUnhealthy", "MarkedByPerson")
LOST = ("Lost", "FallenOffTheBus")
SINCE = "2027-01-15T08:00:00Z"


def fault(*true: tuple[str, str], worst: str = "", more: tuple[WireCondition, ...] = ()) -> DeviceFault:
    """The fault of a device with these conditions."""
    healthy = _condition("Healthy", worst or true[0][1], status="False")
    return device_fault("GPU-3", 3, (*more, *(_condition(*each) for each in true), healthy))


def _condition(kind: str, reason: str, **more: Any) -> WireCondition:
    given = {"status": "True", "message": f"about {reason}", "last_transition_time": SINCE, **more}
    return WireCondition(type=kind, reason=reason, **given)


def test_a_fault_has_all_conditions_that_are_true_the_worst_first() -> None:
    over = _condition("Overheated", "Recovered", status="False")
    pending = _condition("ResetPending", "RowsToRemap")
    found = fault(MARK, LOST, worst="FallenOffTheBus", more=(over, pending))
    assert [(each.type, each.reason) for each in found.conditions] == [LOST, MARK]
    assert (found.reason, found.message) == ("FallenOffTheBus", "about FallenOffTheBus")
    assert found.since == 1_800_000_000
    assert found.names == ("GPU-3/Lost/FallenOffTheBus", "GPU-3/MarkedUnhealthy/MarkedByPerson")


@pytest.mark.parametrize("more", [(), (_condition("Ready", "Odd"), _condition("Lost", "FallenOffTheBus"))])
def test_of_another_reporter_only_the_sum_is_understood(more: tuple[WireCondition, ...]) -> None:
    found = device_fault("GPU-3", 3, (*more, _condition("Healthy", "Odd", status="False")))
    assert (found.conditions, found.names) == ((), ("GPU-3/Odd",))
    assert found.beyond(()) == found
    assert found.beyond({"GPU-3/Odd"}) is None
    assert found.for_person() is None


def test_what_is_not_accepted_is_told_by_its_worst_condition() -> None:
    found = fault(LOST, ("XidFault", "Xid48"), MARK)
    left = found.beyond({"GPU-3/Lost/FallenOffTheBus"})
    assert (left.reason, left.message) == ("Xid48", "about Xid48")
    assert left.names == found.names[1:]
    assert found.beyond(found.names) is None
    assert found.beyond({"GPU-3/FallenOffTheBus"}) is None, "an older Muster accepted it as a whole"
    assert found.beyond({"GPU-3/Xid48"}) == found


@with_rows("conditions", "expected")
def test_a_mark_and_broken_hardware_need_a_person(
    conditions: tuple[tuple[str, str], ...], expected: str | None
) -> None:
    needing = fault(*conditions).for_person()
    assert (None if needing is None else needing.reason) == expected


def test_all_other_conditions_may_be_ended_by_a_job() -> None:
    of_persons = {ConditionType.MARKED_UNHEALTHY, ConditionType.ROW_REMAP_FAILURE}
    for kind in {*UNHEALTHY} - of_persons:
        assert fault((kind.value, "Any")).for_person() is None
