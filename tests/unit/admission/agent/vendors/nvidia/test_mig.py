"""MIG instances of a device."""

from admission.agent.readings import MigInstance
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml


def instances(nvidia: Nvidia) -> tuple[MigInstance, ...]:
    return nvidia.read().devices[0].mig_instances


def test_each_instance_is_told_with_its_profile(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    small, large = node.partition(gpu, "1g.10gb", "3g.40gb")
    assert nvidia.read().devices[0].mig_enabled is True
    assert instances(nvidia) == (
        MigInstance(id=small, profile="1g.10gb", gpu_instance=7),
        MigInstance(id=large, profile="3g.40gb", gpu_instance=8),
    )


def test_an_instance_that_does_not_say_what_it_is_is_left_out(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    node.partition(gpu, "1g.10gb")
    nvidia.read()
    node.fail("nvmlDeviceGetName", 3)
    assert instances(nvidia) == ()


def test_media_extensions_are_named_as_the_device_plugin_does(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device()
    node.partition(gpu, "1g.10gb")
    node.instances(gpu)[0].profile = b"1g.10gb+me"
    assert [each.profile for each in instances(nvidia)] == ["1g.10gb.me"]
