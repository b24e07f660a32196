"""Where a device sits, by sysfs; what the kernel does not tell is unknown."""

import pytest

from admission.agent.vendors.pci import (
    bound_devices,
    kernel_bus_id,
    module_load,
    numa_node,
    pcie_root,
)
from tests.tables import with_rows


@pytest.fixture
def sysfs(tmp_path):
    """A device behind two bridges, bound to a driver, as the kernel shows it."""
    device = tmp_path / "devices" / "pci0000:17" / "0000:17:01.0" / "0000:18:00.0" / "0000:19:00.0"
    device.mkdir(parents=True)
    for folder in ("devices", "drivers/nvidia"):
        (tmp_path / "bus" / "pci" / folder).mkdir(parents=True)
        (tmp_path / "bus" / "pci" / folder / "0000:19:00.0").symlink_to(device)
    (tmp_path / "bus" / "pci" / "drivers" / "nvidia" / "bind").write_text("")
    (device / "numa_node").write_text("-1\n")
    return tmp_path


def test_the_kernel_tells_the_root_complex(sysfs):
    assert pcie_root("0000:19:00.0", sysfs) == "pci0000:17"


def test_a_machine_with_one_numa_node_tells_none(sysfs):
    assert numa_node("0000:19:00.0", sysfs) is None
    (sysfs / "bus/pci/devices/0000:19:00.0/numa_node").write_text("3\n")
    assert numa_node("0000:19:00.0", sysfs) == 3


def test_the_devices_of_a_driver_are_those_that_are_bound_to_it(sysfs):
    assert bound_devices("nvidia", sysfs) == {"0000:19:00.0"}
    assert bound_devices("i915", sysfs) == frozenset()


@pytest.mark.parametrize("bus", ["", "0000:20:00.0"])
def test_of_a_device_that_is_not_there_nothing_is_known(sysfs, bus):
    assert (pcie_root(bus, sysfs), numa_node(bus, sysfs)) == ("", None)


@with_rows("nvml", "kernel")
def test_bus_ids_are_written_as_the_kernel_does(nvml: str, kernel: str) -> None:
    assert kernel_bus_id(nvml) == kernel


def test_another_load_of_a_module_is_told_apart(sysfs):
    assert module_load("nvidia", sysfs) == ""
    folder, later = sysfs / "module/nvidia", sysfs / "module/later"
    for each in (folder, later):
        each.mkdir(parents=True)
    first = module_load("nvidia", sysfs)
    assert first == module_load("nvidia", sysfs) != ""
    folder.rmdir()
    later.rename(folder)
    assert module_load("nvidia", sysfs) not in ("", first)
