"""What says that a node has devices of a vendor."""

from pathlib import Path

import pytest

from admission.agent.vendors.registry import VENDORS, ExpectedDevices, remedy


def plug(sysfs: Path, bus: str, vendor: str, kind: str) -> None:
    folder = sysfs / "bus/pci/devices" / bus
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


@pytest.mark.parametrize(
    ("vendor", "label", "value", "counts"),
    [
        ("nvidia", "nvidia.com/gpu.present", "true", True),
        ("nvidia", "nvidia.com/gpu.present", "false", False),
        ("nvidia", "cloud.google.com/gke-accelerator", "nvidia-h100-80gb", True),
        ("nvidia", "feature.node.kubernetes.io/amd-gpu", "true", False),
        ("amd", "feature.node.kubernetes.io/amd-gpu", "true", False),
    ],
)
def test_labels_of_the_node_say_it(
    tmp_path: Path, vendor: str, label: str, value: str, *, counts: bool
) -> None:
    sign = ExpectedDevices(tmp_path).sign(vendor, {label: value})
    assert sign == (f"the label {label}={value} of the Node" if counts else "")


@pytest.mark.parametrize(
    ("vendor", "maker", "kind", "counts"),
    [
        ("nvidia", "0x10de", "0x030200", True),
        ("nvidia", "0x10de", "0x030000", True),
        ("nvidia", "0x10de", "0x068000", False),
        ("nvidia", "0x1002", "0x120000", False),
        ("other", "0x10de", "0x030200", False),
    ],
)
def test_a_device_on_the_bus_says_it(
    tmp_path: Path, vendor: str, maker: str, kind: str, *, counts: bool
) -> None:
    plug(tmp_path, "0000:00:01.0", "0x1a03", "0x030000")
    plug(tmp_path, "0000:18:00.0", maker, kind)
    assert ExpectedDevices(tmp_path).sign(vendor, {}) == ("PCI device 0000:18:00.0" if counts else "")


def test_where_nothing_says_it_there_is_no_sign(tmp_path: Path) -> None:
    (tmp_path / "bus/pci/devices/0000:00:02.0").mkdir(parents=True)
    assert ExpectedDevices(tmp_path).sign("nvidia", {}) == ""
    assert ExpectedDevices(tmp_path / "no such folder").sign("nvidia", {}) == ""


def test_for_each_vendor_there_is_something_to_do() -> None:
    assert all(remedy(vendor.name) for vendor in VENDORS)
