"""Where a device sits on the PCI bus, and what drivers there are, by what the kernel shows in sysfs."""

import re
from pathlib import Path
from typing import Final

SYSFS: Final = Path("/sys")

_BUS_ID: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)


def kernel_bus_id(bus_id: str) -> str:
    """A bus id as the kernel writes it, ``0000:18:00.0``; NVML writes ``00000000:18:00.0``, with capitals."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else ""


def pcie_root(bus: str, sysfs: Path = SYSFS) -> str:
    """The root complex that a device hangs on, ``pci0000:17``; "": unknown. ``bus``: as ``kernel_bus_id`` gives it."""
    if not bus:
        return ""
    try:
        parts = _folder(bus, sysfs).resolve(strict=True).parts
    except OSError:
        return ""
    return next((part for part in parts if _ROOT.fullmatch(part)), "")


def numa_node(bus: str, sysfs: Path = SYSFS) -> int | None:
    """The NUMA node of a device. None if unknown, as on machines that have only one."""
    if not bus:
        return None
    try:
        node = int((_folder(bus, sysfs) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def bound_devices(driver: str, sysfs: Path = SYSFS) -> frozenset[str]:
    """Bus ids of the devices that a driver of the kernel has; empty: none, or unknown."""
    try:
        names = [entry.name for entry in (sysfs / "bus" / "pci" / "drivers" / driver).iterdir()]
    except OSError:
        return frozenset()
    return frozenset(filter(_BUS_ID.fullmatch, names))


def module_load(driver: str, sysfs: Path = SYSFS) -> str:
    """A number that another load of a driver's module does not have until the node boots; "": there is no module.

    It is the inode of the module's folder. The kernel counts these upwards and gives each new folder the next one,
    and keeps it as long as the folder is there; the folder's times are those of the first look at it.
    """
    try:
        return str((sysfs / "module" / driver).stat().st_ino)
    except OSError:
        return ""


def _folder(bus: str, sysfs: Path) -> Path:
    return sysfs / "bus" / "pci" / "devices" / bus
