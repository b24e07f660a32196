"""Where a device is on the PCI bus."""

from pathlib import Path

import pytest

from admission.agent.vendors.nvidia import pci


@pytest.mark.parametrize(
    ("nvml", "kernel"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:18:00.0", "0000:18:00.0"),
        ("00010000:00:1E.0", "10000:00:1e.0"),
        ("00000008:01:00.0", "0008:01:00.0"),
        ("", ""),
    ],
)
def test_bus_ids_are_written_as_the_kernel_does(nvml: str, kernel: str) -> None:
    assert pci.kernel_bus_id(nvml) == kernel


def test_the_root_complex_is_the_outermost_bridge_and_not_the_switch(tmp_path: Path) -> None:
    real = tmp_path / "devices/pci0000:17/0000:17:01.0/0000:18:00.0"
    real.mkdir(parents=True)
    devices = tmp_path / "bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / "0000:18:00.0").symlink_to(real)
    assert pci.root_complex(tmp_path, "0000:18:00.0") == "pci0000:17"
    assert pci.root_complex(tmp_path, "0000:99:00.0") == ""


@pytest.mark.parametrize(("text", "node"), [("0\n", 0), ("1\n", 1), ("-1\n", None), ("", None)])
def test_a_numa_node_that_the_kernel_does_not_know_stays_unknown(
    text: str, node: int | None, tmp_path: Path
) -> None:
    place = tmp_path / "bus/pci/devices/0000:18:00.0"
    place.mkdir(parents=True)
    (place / "numa_node").write_text(text)
    assert pci.numa_node(tmp_path, "0000:18:00.0") == node
    assert pci.numa_node(tmp_path, "0000:99:00.0") is None


def test_bound_devices_are_those_of_nvidias_driver(tmp_path: Path) -> None:
    assert pci.bound_devices(tmp_path) == frozenset()
    driver = tmp_path / "bus/pci/drivers/nvidia"
    for name in ("0000:18:00.0", "module", "bind", "new_id"):
        (driver / name).mkdir(parents=True)
    assert pci.bound_devices(tmp_path) == {"0000:18:00.0"}
