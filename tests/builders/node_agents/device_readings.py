"""Readings of a node's devices, in a line each."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from admission.agent.readings import SWITCH, DeviceReading, NodeReading, RowRemapping, Telemetry

H100 = "NVIDIA H100 80GB HBM3"

#: Index of a device, and what an active NVLink of it leads to.
Link = tuple[int, str]


def device(index: int = 0, *, degrees: int | None = 40, **fields: Any) -> DeviceReading:
    """A device that is well, with these fields instead."""
    known: dict[str, Any] = {
        "id": f"GPU-{index}",
        "index": index,
        "minor": index,
        "model": H100,
        "memory_bytes": 80 * 2**30,
        "bus_id": bus_id(index),
        "pcie_root": "pci0000:17",
        "numa_node": 0,
        "uncorrected_errors": 0,
        "remapping": remapping(),
        "telemetry": Telemetry(temperature=degrees),
    }
    return DeviceReading(**(known | fields))


def remapping(*, pending: bool = False, failed: bool = False) -> RowRemapping:
    return RowRemapping(pending=pending, failed=failed)


def node(*devices: DeviceReading, links: Sequence[Link] = (), **fields: Any) -> NodeReading:
    """A node with these devices, joined by these links."""
    known: dict[str, Any] = {
        "vendor": "nvidia",
        "driver_version": "570.86.15",
        "runtime_version": "12.8",
        "devices": tuple(
            replace(each, linked_to=frozenset(remote for index, remote in links if index == each.index))
            for each in devices
        ),
    }
    return NodeReading(**(known | fields))


def bus_id(index: int) -> str:
    return f"0000:{0x18 + index:02x}:00.0"


def switched(*indices: int) -> tuple[Link, ...]:
    """Links of devices on one NVSwitch."""
    return tuple((index, SWITCH) for index in indices)


def direct(*pairs: tuple[int, int]) -> tuple[Link, ...]:
    """Links of devices without a switch."""
    return tuple((index, bus_id(other)) for pair in pairs for index, other in (pair, pair[::-1]))


def with_start(found: NodeReading, start: str) -> NodeReading:
    return replace(found, driver_start=start)
