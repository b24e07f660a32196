"""MIG instances, and the processes on them."""

import pytest

from admission.agent.readings import MigInstance
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml


def instances(nvidia: Nvidia) -> tuple[MigInstance, ...]:
    return nvidia.read().devices[0].mig_instances


def test_each_instance_is_told_with_its_profile_and_its_place(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    small, large = node.partition(gpu, "1g.10gb", "3g.40gb")
    assert nvidia.read().devices[0].mig_enabled is True
    assert instances(nvidia) == (
        MigInstance(
            id=small,
            profile="1g.10gb",
            gpu_instance=7,
            compute_instance=0,
            memory_bytes=9856 << 20,
            start=0,
            size=1,
        ),
        MigInstance(
            id=large,
            profile="3g.40gb",
            gpu_instance=8,
            compute_instance=0,
            memory_bytes=4 * 9856 << 20,
            start=1,
            size=4,
        ),
    )


def test_where_the_place_may_not_be_asked_for_it_stays_unknown(node: FakeNvml, nvidia: Nvidia) -> None:
    node.fail("nvmlDeviceGetGpuInstanceById", 4)
    node.partition(node.add_device(), "1g.10gb")
    assert [(each.start, each.size) for each in instances(nvidia)] == [(None, None)]


def test_after_a_restart_of_the_driver_instances_are_asked_about_again(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    node.fail("nvmlDeviceGetGpuInstanceById", 4)
    node.partition(node.add_device(), "1g.10gb")
    nvidia.read()
    node.fail("nvmlDeviceGetGpuInstanceById", 0)
    node.restart_driver()
    assert [(each.start, each.size) for each in instances(nvidia)] == [(0, 1)]


@pytest.mark.parametrize(
    ("model", "profile"),
    [("H100", "1g.10gb"), ("H100", "3g.40gb"), ("A100", "1g.5gb"), ("A100", "7g.40gb"), ("H100", "7g.80gb")],
)
def test_a_profile_that_is_not_in_the_name_follows_from_slices_and_memory(
    model: str, profile: str, node: FakeNvml, nvidia: Nvidia
) -> None:
    gpu = node.add_device(model)
    node.partition(gpu, profile)
    nvidia.read()
    node.fail("nvmlDeviceGetName", 3)
    assert [each.profile for each in instances(nvidia)] == [profile]


def test_media_extensions_are_named_as_the_device_plugin_does(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    node.partition(gpu, "1g.10gb")
    node.instances(gpu)[0].profile = b"1g.10gb+me"
    assert [each.profile for each in instances(nvidia)] == ["1g.10gb.me"]
