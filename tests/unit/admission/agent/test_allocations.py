"""Which pod has which devices, and what is told when admission, kubelet and processes do not agree."""

from dataclasses import replace
from random import Random

import pytest

from admission.agent.allocations import Allocation, allocations
from admission.agent.kubelet.checkpoint import GivenDevices
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceReading, MigInstance, NodeReading
from tests.tables import with_rows

TRAIN = PodInfo(uid="u-train", namespace="team-a", name="train-0", kubelet_uid="u-train")
SERVE = PodInfo(uid="u-serve", namespace="team-b", name="serve-0", kubelet_uid="u-serve")
#: Processes of the pods; all others are the node's.
PIDS = {100: "u-train", 101: "u-train", 200: "u-serve", 300: "u-gone"}


def gpu(index, *pids, **fields):
    return DeviceReading(
        id=f"GPU-{index}",
        index=index,
        minor=index,
        model="NVIDIA H100 80GB HBM3",
        memory_bytes=80 << 30,
        bus_id=f"0000:{index + 16:02X}:00.0",
        processes=pids,
        **fields,
    )


def node(*devices, vendor="nvidia"):
    return (NodeReading(vendor=vendor, devices=devices),)


def gave(pod, *ids, resource="nvidia.com/gpu"):
    return GivenDevices(pod_uid=pod.kubelet_uid, resource=resource, ids=ids)


def pods(*found):
    return {pod.uid: pod for pod in found}


def test_a_pod_has_what_the_kubelet_gave_it():
    found = allocations(node(gpu(0), gpu(1), gpu(2)), pods(TRAIN), [gave(TRAIN, "GPU-2", "GPU-0")], PIDS.get)
    assert found == (
        Allocation(pod_uid="u-train", namespace="team-a", name="train-0", devices=("GPU-0", "GPU-2")),
    )


def test_a_pod_that_the_kubelet_gave_nothing_has_what_its_processes_compute_on():
    found = allocations(node(gpu(0, 100), gpu(1, 101, 7), gpu(2)), pods(TRAIN), [], PIDS.get)
    assert [one.devices for one in found] == [("GPU-0", "GPU-1")]


def test_a_lost_device_stays_with_the_pod_that_had_it_while_the_pod_runs():
    had = allocations(node(gpu(0, 100), gpu(1, 101)), pods(TRAIN), [], PIDS.get)
    without = node(gpu(0, 100), gpu(1, lost=True))
    (kept,) = allocations(without, pods(TRAIN), [], PIDS.get, had)
    assert kept.devices == ("GPU-0", "GPU-1")
    (kept,) = allocations(node(gpu(0), gpu(1, lost=True)), pods(TRAIN), [], PIDS.get, [kept])
    assert kept.devices == ("GPU-1",)
    assert allocations(without, pods(SERVE), [], PIDS.get, [kept]) == ()
    assert allocations(node(gpu(0), gpu(1)), pods(TRAIN), [], PIDS.get, [kept]) == (), "it tells by itself"


def test_what_the_kubelet_gave_counts_more_than_what_a_pod_had_of_lost_devices():
    had = allocations(node(gpu(0), gpu(1, 101)), pods(TRAIN), [], PIDS.get)
    given = [gave(TRAIN, "GPU-0")]
    (found,) = allocations(node(gpu(0), gpu(1, lost=True)), pods(TRAIN), given, PIDS.get, had)
    assert found.devices == ("GPU-0",)


def test_what_processes_use_beside_what_was_given_is_no_allocation():
    found = allocations(node(gpu(0, 100), gpu(1, 100)), pods(TRAIN), [gave(TRAIN, "GPU-0")], PIDS.get)
    assert [one.devices for one in found] == [("GPU-0",)]


def test_pods_that_are_gone_have_nothing():
    readings = node(gpu(0, 100), gpu(1, 300))
    gone = GivenDevices(pod_uid="u-gone", resource="nvidia.com/gpu", ids=("GPU-1",))
    assert allocations(readings, pods(), [gone, gave(TRAIN, "GPU-0")], PIDS.get) == ()


def test_allocations_are_by_namespace_and_name_whatever_the_order_of_what_is_known():
    readings = node(gpu(0), gpu(1), gpu(2))
    known = [replace(TRAIN, uid=f"u{n}", kubelet_uid=f"u{n}", name=f"p{n}") for n in range(3)]
    given = [gave(pod, f"GPU-{n}") for n, pod in enumerate(known)]
    expected = allocations(readings, pods(*known), given, PIDS.get)
    assert [one.name for one in expected] == ["p0", "p1", "p2"]
    for seed in range(5):
        order = Random(seed)
        mixed_pods, mixed_given = order.sample(known, 3), order.sample(given, 3)
        assert allocations(readings, pods(*mixed_pods), mixed_given, PIDS.get) == expected


@with_rows("plugin_id", "resource")
def test_a_device_is_known_by_each_name_that_device_plugins_have_for_it(plugin_id, resource):
    found = allocations(
        node(gpu(0), gpu(1)), pods(TRAIN), [gave(TRAIN, plugin_id, resource=resource)], PIDS.get
    )
    assert [one.devices for one in found] == [("GPU-1",)]


@pytest.mark.parametrize("resource", ["rdma/hca", "amd.com/gpu", "evilnvidia.com/gpu"])
def test_a_bare_number_of_another_resource_is_no_gpu(resource):
    readings = node(gpu(0)) + node(gpu(0), vendor="amd")
    assert allocations(readings, pods(TRAIN), [gave(TRAIN, "0", resource=resource)], PIDS.get) == ()


MIG = gpu(
    0,
    mig_enabled=True,
    mig_instances=tuple(MigInstance(id=f"MIG-{n}", profile="1g.10gb", gpu_instance=n + 7) for n in range(2)),
)


@pytest.mark.parametrize("plugin_id", ["MIG-1", "MIG-1::0", "nvidia0/gi8"])
def test_a_pod_with_a_mig_instance_has_its_device(plugin_id):
    given = [gave(TRAIN, plugin_id, resource="nvidia.com/mig-1g.10gb")]
    (found,) = allocations(node(MIG), pods(TRAIN), given, PIDS.get)
    assert found.devices == ("GPU-0",)


def test_a_static_pod_is_found_by_the_uid_of_the_kubelet():
    static = replace(TRAIN, kubelet_uid="hash")
    (found,) = allocations(node(gpu(0)), pods(static), [gave(static, "GPU-0")], PIDS.get)
    assert found.pod_uid == "u-train"


def test_a_pod_that_claims_the_uid_of_another_does_not_get_its_devices():
    thief = replace(SERVE, kubelet_uid=TRAIN.uid)
    for known in (pods(TRAIN, thief), pods(thief, TRAIN)):
        (found,) = allocations(node(gpu(0)), known, [gave(TRAIN, "GPU-0")], PIDS.get)
        assert found.name == "train-0"
