"""What the kubelet keeps of the devices that it gave, in the forms that kubelets have written."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.kubelet.checkpoint import (
    CheckpointUnreadable,
    GivenDevices,
    KubeletCheckpoint,
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


def given_of(*ids, resource="nvidia.com/gpu", container="main"):
    return GivenDevices(pod_uid=POD, container=container, resource=resource, ids=ids)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"0": [SECOND], "1": [FIRST]}, (FIRST, SECOND)),
        ({"-1": [FIRST]}, (FIRST,)),
        ([SECOND, FIRST], (FIRST, SECOND)),
        ({"0": None}, ()),
        ({}, ()),
        (None, ()),
        ({"0": [f"{FIRST}::3"]}, (f"{FIRST}::3",)),
    ],
)
def test_devices_are_told_by_numa_node_or_as_a_list(ids, expected):
    assert kubelet_devices(checkpoint(entry(ids))).given == (given_of(*expected),)


def test_each_container_and_resource_has_its_own_devices():
    content = checkpoint(
        entry({"0": [FIRST]}),
        entry({"0": [SECOND]}, container="side"),
        entry({"0": ["0000:19:00.0"]}, resource="amd.com/gpu"),
    )
    assert kubelet_devices(content).given == (
        given_of(FIRST),
        given_of(SECOND, container="side"),
        given_of("0000:19:00.0", resource="amd.com/gpu"),
    )


def test_devices_are_registered_by_resource():
    by_model = {"nvidia.com/h100": [FIRST], "nvidia.com/l40s": [SECOND], "nvidia.com/gpu": None}
    assert kubelet_devices(checkpoint(registered=by_model)).registered == {
        "nvidia.com/h100": (FIRST,),
        "nvidia.com/l40s": (SECOND,),
        "nvidia.com/gpu": (),
    }


def test_a_kubelet_that_gave_nothing_has_an_empty_list_or_none():
    assert kubelet_devices(checkpoint()).given == ()
    empty = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    assert kubelet_devices(empty) == KubeletDevices()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "no JSON"),
        (b'{"Data":', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "a list"),
        (b'{"V3": {}}', "an object with 'V3'"),
        (b'{"Data": {"PodDeviceEntries": {}}}', "an object with 'Data'"),
        (checkpoint({"PodUID": POD}), "an entry that is an object with 'PodUID'"),
        (checkpoint("x"), "an entry that is a str"),
        (checkpoint(entry({"0": [1]})), "DeviceIDs that are a list"),
        (checkpoint(entry({"0": {"a": []}})), "DeviceIDs that are an object with 'a'"),
        (checkpoint(entry("GPU")), "DeviceIDs that are a str"),
        (checkpoint(entry({}, pod=7)), "an entry that is an object with"),
        (checkpoint(registered=[FIRST]), "RegisteredDevices that are a list"),
        (checkpoint(registered={"nvidia.com/gpu": {"0": [FIRST]}}), "RegisteredDevices that are an object"),
    ],
)
def test_another_form_is_told_as_found_and_expected(content, found):
    with pytest.raises(CheckpointUnreadable) as refused:
        kubelet_devices(content, "/the/file")
    assert found in str(refused.value)
    assert "/the/file" in str(refused.value)
    assert "expected" in str(refused.value)


def devices_or_error(content):
    try:
        return kubelet_devices(content)
    except CheckpointUnreadable as refused:
        return refused


@given(st.binary())
def test_any_bytes_give_devices_or_the_named_error(content):
    assert isinstance(devices_or_error(content), KubeletDevices | CheckpointUnreadable)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "Data",
                        "PodDeviceEntries",
                        "PodUID",
                        "ContainerName",
                        "ResourceName",
                        "DeviceIDs",
                        "0",
                    ),
                    "RegisteredDevices",
                ]
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_gives_devices_or_the_named_error(document):
    entries = document if isinstance(document, list) else [document]
    registered = {"PodDeviceEntries": [], "RegisteredDevices": document}
    for content in (document, {"Data": {"PodDeviceEntries": entries}}, {"Data": registered}):
        assert isinstance(
            devices_or_error(json.dumps(content).encode()), KubeletDevices | CheckpointUnreadable
        )


@pytest.fixture
def reads(monkeypatch):
    """Each parsing of the file's content."""
    seen = []

    def counted(content, path):
        seen.append(content)
        return kubelet_devices(content, path)

    monkeypatch.setattr("admission.agent.kubelet.checkpoint.kubelet_devices", counted)
    return seen


def replace(path, content):
    """As the kubelet does: a new file takes the old one's place."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def test_the_file_is_read_again_only_when_it_has_changed(tmp_path, reads):
    path = tmp_path / "checkpoint"
    replace(path, checkpoint(entry({"0": [FIRST]})))
    kept = KubeletCheckpoint(path)
    assert kept.read().given == kept.read().given == (given_of(FIRST),)
    assert len(reads) == 1

    replace(path, checkpoint(entry({"0": [SECOND]})))
    assert kept.read().given == (given_of(SECOND),)
    assert len(reads) == 2


def test_a_change_in_place_counts_too(tmp_path, reads):
    path = tmp_path / "checkpoint"
    path.write_bytes(checkpoint(entry({"0": [FIRST]})))
    kept = KubeletCheckpoint(path)
    kept.read()
    path.write_bytes(checkpoint(entry({"0": [SECOND]})))
    os.utime(path, ns=(1, 1))
    assert kept.read().given == (given_of(SECOND),)
    assert len(reads) == 2


def test_a_node_without_the_file_gave_nothing_and_is_looked_at_again(tmp_path):
    path = tmp_path / "checkpoint"
    kept = KubeletCheckpoint(path)
    assert kept.read() == KubeletDevices()
    replace(path, checkpoint(entry({"0": [FIRST]})))
    assert kept.read().given == (given_of(FIRST),)
    path.unlink()
    assert kept.read() == KubeletDevices()


def test_a_broken_file_is_told_each_time_and_forgotten_when_it_is_right_again(tmp_path):
    path = tmp_path / "checkpoint"
    replace(path, b"{}")
    kept = KubeletCheckpoint(path)
    for _ in range(2):
        with pytest.raises(CheckpointUnreadable):
            kept.read()
    replace(path, checkpoint(entry({"0": [FIRST]})))
    assert kept.read().given == (given_of(FIRST),)


def test_what_cannot_be_opened_is_told(tmp_path):
    with pytest.raises(CheckpointUnreadable, match="a file to read"):
        KubeletCheckpoint(tmp_path).read()
