"""What the kubelet keeps of the devices that it gave."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.kubelet.checkpoint import (
    CheckpointUnreadable,
    GivenDevices,
    KubeletDevices,
    kubelet_devices,
)

POD = "5f0c8a4e-1b2c-4d3e-8f90-0123456789ab"
FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-000000000000"


def entry(ids, *, pod=POD, resource="nvidia.com/gpu", container="main"):
    return {
        "PodUID": pod,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": "CkIKFk5WSURJQV9WSVNJQkxFX0RFVklDRVM=",
    }


def checkpoint(*entries, registered=None):
    registered = {"nvidia.com/gpu": [FIRST, SECOND]} if registered is None else registered
    return json.dumps(
        {
            "Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": registered},
            "Checksum": 2863158133,
            "BootID": "d0a4c6a2-0000-4000-8000-000000000001",
        }
    ).encode()


def given_of(*ids, resource="nvidia.com/gpu"):
    return GivenDevices(pod_uid=POD, resource=resource, ids=ids)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What is read of a file with this content."""
    path = tmp_path_factory.mktemp("kubelet") / "checkpoint"

    def read_content(content):
        path.write_bytes(content)
        return kubelet_devices(path)

    return read_content


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"0": [SECOND], "1": [FIRST]}, (FIRST, SECOND)),
        ({"-1": [FIRST]}, (FIRST,)),
        ({"0": None}, ()),
        ({}, ()),
        (None, ()),
        ({"0": [f"{FIRST}::3"]}, (f"{FIRST}::3",)),
    ],
)
def test_devices_are_told_by_numa_node(read, ids, expected):
    assert read(checkpoint(entry(ids))).given == (given_of(*expected),)


def test_each_container_and_resource_has_its_own_devices(read):
    content = checkpoint(
        entry({"0": [FIRST]}),
        entry({"0": [SECOND]}, container="side"),
        entry({"0": ["0000:19:00.0"]}, resource="amd.com/gpu"),
    )
    assert read(content).given == (
        given_of(FIRST),
        given_of(SECOND),
        given_of("0000:19:00.0", resource="amd.com/gpu"),
    )


def test_devices_are_registered_by_resource(read):
    by_model = {"nvidia.com/h100": [FIRST], "nvidia.com/l40s": [SECOND], "nvidia.com/gpu": None}
    assert read(checkpoint(registered=by_model)).registered == {
        "nvidia.com/h100": (FIRST,),
        "nvidia.com/l40s": (SECOND,),
        "nvidia.com/gpu": (),
    }


def test_a_kubelet_that_gave_nothing_has_an_empty_list_or_none(read):
    assert read(checkpoint()).given == ()
    empty = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    assert read(empty) == KubeletDevices()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"Data":', "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"V3": {}}', "missing required field `Data`"),
        (
            checkpoint({"PodUID": POD}),
            "missing required field `ResourceName` - at `$.Data.PodDeviceEntries[0]`",
        ),
        (checkpoint(entry({"0": [1]})), "Expected `str`, got `int`"),
        (checkpoint(registered=[FIRST]), "got `array` - at `$.Data.RegisteredDevices`"),
    ],
)
def test_another_form_is_told_with_its_place(read, content, found):
    with pytest.raises(CheckpointUnreadable) as refused:
        read(content)
    assert found in str(refused.value)
    assert "/checkpoint" in str(refused.value)


@given(st.binary())
def test_any_bytes_give_devices_or_the_named_error(read, content):
    with suppress(CheckpointUnreadable):
        assert isinstance(read(content), KubeletDevices)


def test_a_node_without_the_file_gave_nothing(tmp_path):
    assert kubelet_devices(tmp_path / "checkpoint") == KubeletDevices()


def test_what_cannot_be_opened_is_told(tmp_path):
    with pytest.raises(CheckpointUnreadable, match="directory"):
        kubelet_devices(tmp_path)
