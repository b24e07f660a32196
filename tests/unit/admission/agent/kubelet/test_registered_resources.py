"""The resource that each device is registered as, by whatever name its plugin has for it."""

import pytest

from admission.agent.kubelet.registered_resources import (
    offered_devices,
    registered_resources,
    unusual_resources,
)
from admission.agent.readings import MigInstance, NodeReading, as_lost
from queues.resources import GPU
from tests.builders.node_agents.device_readings import device, node

H100, L40S = "nvidia.com/h100", "nvidia.com/l40s"
MIXED = node(device(0), device(1, model="NVIDIA L40S"))
BY_MODEL = {H100: ["GPU-0"], L40S: ["GPU-1"]}
PART = MigInstance(id="MIG-1", profile="1g.10gb", gpu_instance=1)


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        (BY_MODEL, {"GPU-0": H100, "GPU-1": L40S}),
        ({H100: ["GPU-0::0", "GPU-0::1"], L40S: ["GPU-1::0"]}, {"GPU-0": H100, "GPU-1": L40S}),
        ({H100: ["0"], L40S: ["1"]}, {"GPU-0": H100, "GPU-1": L40S}),
        ({GPU: ["GPU-0", "GPU-1"]}, {"GPU-0": GPU, "GPU-1": GPU}),
        (
            {"nvidia.com/gpu.shared": ["GPU-1::0"], GPU: ["GPU-0"]},
            {"GPU-0": GPU, "GPU-1": "nvidia.com/gpu.shared"},
        ),
        ({"volcano.sh/vgpu-number": ["GPU-0-0"], "example.com/x": ["GPU-0"]}, {}),
        ({H100: ["GPU-9"]}, {}),
        ({}, {}),
    ],
    ids=[
        "uuids",
        "shared",
        "indices",
        "usual",
        "shared under another name",
        "other domains",
        "unknown",
        "none",
    ],
)
def test_devices_have_the_resource_that_they_are_registered_as(
    registered: dict[str, list[str]], expected: dict[str, str]
) -> None:
    assert registered_resources([MIXED], registered, {}) == expected


def test_a_device_that_the_plugin_calls_unhealthy_keeps_its_resource() -> None:
    known = registered_resources([MIXED], BY_MODEL, {})
    assert registered_resources([MIXED], {H100: [], L40S: ["GPU-1"]}, known) == known
    assert registered_resources([node(as_lost(device(0)), device(1))], {}, known) == known


def test_a_device_that_is_registered_anew_has_the_new_resource() -> None:
    known = registered_resources([MIXED], BY_MODEL, {})
    assert registered_resources([MIXED], {GPU: ["GPU-0", "GPU-1"]}, known) == {"GPU-0": GPU, "GPU-1": GPU}


def test_of_several_resources_the_usual_one_counts_and_else_the_one_of_before() -> None:
    twice = {L40S: ["GPU-0"], H100: ["GPU-0"]}
    assert registered_resources([MIXED], twice, {})["GPU-0"] == H100
    assert registered_resources([MIXED], twice, {"GPU-0": L40S})["GPU-0"] == L40S
    assert registered_resources([MIXED], {**twice, GPU: ["GPU-0"]}, {"GPU-0": L40S})["GPU-0"] == GPU


def test_a_device_that_is_cut_in_parts_has_no_resource_as_a_whole() -> None:
    parted = node(device(0, mig_instances=(PART,)), device(1))
    registered = {"nvidia.com/mig-1g.10gb": ["MIG-1"], L40S: ["GPU-1"]}
    assert registered_resources([parted], registered, {"GPU-0": H100}) == {"GPU-1": L40S}


@pytest.mark.parametrize(
    ("vendor", "usual"), [("nvidia", GPU), ("amd", "amd.com/gpu"), ("intel", "gpu.intel.com/xe")]
)
def test_the_usual_resource_of_a_vendor_is_not_told(vendor: str, usual: str) -> None:
    reading: NodeReading = node(device(0), vendor=vendor)
    assert unusual_resources([reading], {"GPU-0": usual, "GPU-gone": H100}) == {}


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        (BY_MODEL, {"GPU-0": True, "GPU-1": True}),
        ({H100: [], L40S: ["GPU-1"]}, {"GPU-0": False, "GPU-1": True}),
        ({GPU: []}, {"GPU-0": False, "GPU-1": False}),
        ({"nvidia.com/mig-1g.10gb": ["MIG-1"], GPU: ["GPU-1"]}, {"GPU-0": True, "GPU-1": True}),
        ({GPU: ["GPU-0", "named otherwise"]}, {}),
        ({"amd.com/gpu": ["0000:01:00.0"]}, {}),
        ({}, {}),
    ],
    ids=["all", "all but one", "the plugin starts", "a part", "unknown names", "another vendor", "none"],
)
def test_the_kubelet_may_give_what_is_registered(
    registered: dict[str, list[str]], expected: dict[str, bool]
) -> None:
    assert offered_devices([node(device(0, mig_instances=(PART,)), device(1))], registered) == expected
