"""Indices of devices stay as they were first, whatever comes and goes."""

from hypothesis import given
from hypothesis import strategies as st

from admission.agent.readings import DeviceReading, Link
from admission.agent.vendors.seen_devices import SeenDevices, device_ids, links_by_index


def found(*names):
    """Devices as a tool lists them: numbered from 0."""
    return [
        DeviceReading(id=name, index=number, model="model", memory_bytes=1)
        for number, name in enumerate(names)
    ]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=8))
def test_each_device_keeps_its_index_and_is_lost_exactly_while_it_is_not_listed(reads):
    seen = SeenDevices()
    indices: dict[str, int] = {}
    for names in reads:
        settled = seen.settle(found(*names))
        for device in settled:
            assert indices.setdefault(device.id, device.index) == device.index
        assert [device.index for device in settled] == sorted({device.index for device in settled})
        assert {device.id for device in settled} == set(indices)
        assert {device.id for device in settled if not device.lost} == set(names)
    assert len(set(indices.values())) == len(indices)


def test_the_first_read_has_the_indices_of_the_tool():
    settled = SeenDevices().settle(found("b", "a"))
    assert [(device.id, device.index) for device in settled] == [("b", 0), ("a", 1)]


def test_ids_are_uuids_unless_several_devices_have_the_same():
    assert device_ids([0, 1, 2], {0: "u0", 1: "u1", 2: "u1"}, {0: "b0", 1: "b1", 2: "b2"}) == {
        0: "u0",
        1: "b1",
        2: "b2",
    }
    assert device_ids([0, 1, 2], {}, {0: "b", 1: "b"}) == {0: "b/0", 1: "b/1", 2: "device/2"}


def test_links_go_by_index_the_smaller_first_and_in_order():
    links = (Link(between=(0, 1), nvlinks=2), Link(between=(1, 2)))
    assert links_by_index(links, {0: 5, 1: 3, 2: 0}) == (
        Link(between=(0, 3)),
        Link(between=(3, 5), nvlinks=2),
    )
