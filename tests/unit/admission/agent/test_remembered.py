"""Devices that were reported before: numbers stay with devices, and one that is missing is lost."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from admission.agent.allocations import Allocation
from admission.agent.device_object import device_document
from admission.agent.readings import DeviceReading, MigInstance, NodeReading
from admission.agent.remembered import AgentMemory, KnownDevices, remembered
from queues.api.names import HEALTH_MEMORY


def gpu(name: str, index: int, **fields: object) -> DeviceReading:
    known = {"minor": index, "bus_id": f"0000:{name}:00.0", "model": "H100-80GB-HBM3", **fields}
    return DeviceReading(id=f"GPU-{name}", index=index, memory_bytes=80 << 30, **known)  # type: ignore[arg-type]


def node(*devices: DeviceReading) -> NodeReading:
    return NodeReading(vendor="nvidia", devices=devices)


def numbers(reading: NodeReading) -> dict[str, int]:
    return {device.id: device.index for device in reading.devices}


def stored(*readings: NodeReading, uses: Sequence[Allocation] = ()) -> dict[str, Any]:
    """The Device object of these."""
    memory = AgentMemory.of(readings, {}, allocations=uses)
    return device_document("n", "u", readings, {}, uses, memory=memory.text())


def again(reading: NodeReading) -> KnownDevices:
    """What an agent knows that starts where these were reported."""
    return KnownDevices(remembered(stored(reading), "u").readings[0])


def lost(reading: NodeReading) -> list[str]:
    return [device.id for device in reading.devices if device.lost]


THREE = node(gpu("1a", 0), gpu("1b", 1), gpu("1c", 2))
#: What a library says that was started when the first device was gone already.
WITHOUT_THE_FIRST = node(gpu("1b", 0), gpu("1c", 1))


@pytest.fixture
def known() -> KnownDevices:
    """What an agent knows that starts where these three were reported."""
    return again(THREE)


def test_a_device_that_is_missing_in_the_first_reading_is_lost_and_the_others_keep_their_numbers(
    known: KnownDevices,
) -> None:
    found = known.settle(WITHOUT_THE_FIRST)
    assert numbers(found) == {"GPU-1a": 0, "GPU-1b": 1, "GPU-1c": 2}
    assert lost(found) == ["GPU-1a"]
    assert known.settle(WITHOUT_THE_FIRST) == found


def test_a_device_that_is_back_has_its_number_and_is_not_lost(known: KnownDevices) -> None:
    known.settle(WITHOUT_THE_FIRST)
    found = known.settle(node(gpu("1b", 0), gpu("1c", 1), gpu("1a", 2)))
    assert numbers(found) == {"GPU-1a": 0, "GPU-1b": 1, "GPU-1c": 2}
    assert lost(found) == []


def test_a_new_device_in_the_place_of_a_missing_one_has_its_number(known: KnownDevices) -> None:
    new = replace(gpu("2a", 0), bus_id="0000:1a:00.0")
    found = known.settle(node(new, gpu("1b", 1), gpu("1c", 2)))
    assert numbers(found) == {"GPU-2a": 0, "GPU-1b": 1, "GPU-1c": 2}
    assert lost(found) == []


def test_a_new_device_in_a_place_of_its_own_gets_a_free_number(known: KnownDevices) -> None:
    found = known.settle(node(gpu("1b", 0), gpu("1c", 1), gpu("1d", 2)))
    assert numbers(found) == {"GPU-1a": 0, "GPU-1b": 1, "GPU-1c": 2, "GPU-1d": 3}


def test_a_device_that_the_library_has_replaced_is_gone(golden: Any, known: KnownDevices) -> None:
    known.settle(THREE)
    new = replace(gpu("2b", 1), bus_id="0000:1b:00.0")
    assert numbers(known.settle(node(gpu("1a", 0), new, gpu("1c", 2)))) == golden


def test_no_two_devices_have_the_same_minor(known: KnownDevices) -> None:
    minors = [device.minor for device in known.settle(WITHOUT_THE_FIRST).devices]
    assert minors == [2, 0, 1], "the driver numbers files without the device that is gone"


def test_without_anything_stored_a_reading_stays_as_it_is() -> None:
    assert KnownDevices().settle(THREE) == THREE


def test_what_is_lost_is_forgotten_on_demand_and_is_a_new_device_when_it_is_back(known: KnownDevices) -> None:
    one_more_lost = node(gpu("1b", 0))
    known.settle(one_more_lost)
    known.forget_lost()
    assert numbers(known.settle(one_more_lost)) == {"GPU-1b": 1}
    found = known.settle(node(gpu("1b", 0), gpu("1c", 1)))
    assert numbers(found) == {"GPU-1b": 1, "GPU-1c": 0}
    assert lost(found) == []


@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from("abcdef"), unique=True)), max_size=10))
def test_a_device_keeps_its_number_over_any_restarts_and_is_lost_exactly_while_it_is_not_there(
    reads: list[tuple[bool, list[str]]],
) -> None:
    known, found = KnownDevices(), None
    indices: dict[str, int] = {}
    for restarted, names in reads:
        if restarted:
            known = KnownDevices() if found is None else again(found)
        there = [
            DeviceReading(id=name, index=place, minor=place, model="model", memory_bytes=1)
            for place, name in enumerate(names)
        ]
        found = known.settle(node(*there))
        for device in found.devices:
            assert indices.setdefault(device.id, device.index) == device.index
        assert {device.id for device in found.devices} == set(indices)
        assert set(indices) - set(lost(found)) == set(names)
        for numbers_of in (
            [device.index for device in found.devices],
            [device.minor for device in found.devices],
        ):
            assert len(set(numbers_of)) == len(found.devices)


@pytest.mark.parametrize(
    "text", [None, 3, "", "{", "[" * 100_000, "[]", '{"health": {"GPU-0": 1}}', "\ud800"]
)
def test_of_an_object_that_cannot_be_read_or_is_of_another_node_nothing_is_remembered(text: Any) -> None:
    assert remembered(None, "u") == remembered({"metadata": 3}, "u") == AgentMemory()
    assert remembered(stored(THREE), "u2") == AgentMemory()
    spoiled = stored(THREE)
    spoiled["metadata"]["annotations"][HEALTH_MEMORY] = text
    assert remembered(spoiled, "u") == AgentMemory()


def test_which_pod_had_which_device_is_remembered() -> None:
    uses = (Allocation(pod_uid="u-a", namespace="ml", name="a", devices=("GPU-1a", "GPU-1b")),)
    assert remembered(stored(THREE, uses=uses), "u").allocations == uses


PART = MigInstance(id="MIG-1", profile="1g.10gb", gpu_instance=1)
CUT = replace(gpu("1a", 0), mig_enabled=True, mig_instances=(PART,))


def test_a_device_that_is_lost_has_the_parts_that_it_had() -> None:
    """The plugin goes on offering them, and the device is none of the whole ones."""
    known = KnownDevices()
    known.settle(node(CUT, gpu("1b", 1)))
    found = known.settle(node(gpu("1b", 0))).devices[0]
    assert (found.lost, found.mig_enabled, found.mig_instances) == (True, True, (PART,))


def test_a_device_that_is_missing_at_the_start_has_the_parts_that_were_reported() -> None:
    found = again(node(CUT, gpu("1b", 1))).settle(node(gpu("1b", 0))).devices[0]
    assert (found.id, found.mig_enabled, found.mig_instances) == ("GPU-1a", True, (PART,))
