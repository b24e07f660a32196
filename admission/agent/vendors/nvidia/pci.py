"""Where a device is on the PCI bus, as the kernel tells in ``/sys``."""

import re
from pathlib import Path
from typing import Final

_ROOT_COMPLEX: Final = re.compile(r"^pci[0-9a-f]{4,}:[0-9a-f]{2}$")


def kernel_bus_id(bus_id: str) -> str:
    """A bus id as the kernel writes it, ``0000:18:00.0``; NVML writes ``00000000:18:00.0``, with capitals."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else ""


def root_complex(sysfs: Path, bus_id: str) -> str:
    """The root complex that a device hangs on, ``pci0000:17``; "": unknown."""
    try:
        path = (sysfs / "bus/pci/devices" / bus_id).resolve(strict=True)
    except OSError:
        return ""
    return next((part for part in path.parts if _ROOT_COMPLEX.match(part)), "")


def numa_node(sysfs: Path, bus_id: str) -> int | None:
    """The NUMA node of a device; None: the kernel does not know (it says -1 then)."""
    try:
        node = int((sysfs / "bus/pci/devices" / bus_id / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def bound_devices(sysfs: Path) -> frozenset[str]:
    """Bus ids of what NVIDIA's driver has bound. It changes when a device is plugged in or out; empty: unknown too."""
    try:
        names = [each.name for each in (sysfs / "bus/pci/drivers/nvidia").iterdir()]
    except OSError:
        return frozenset()
    return frozenset(name for name in names if name.count(":") == 2)
