"""Readings of a node's devices, in a line each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from admission.agent.readings import (
    DeviceReading,
    EccErrors,
    Link,
    NodeReading,
    RowRemapping,
    Telemetry,
)

H100 = "NVIDIA H100 80GB HBM3"


def device(index: int = 0, *, degrees: int | None = 40, **fields: Any) -> DeviceReading:
    """A device that is well, with these fields instead."""
    known: dict[str, Any] = {
        "id": f"GPU-{index}",
        "index": index,
        "minor": index,
        "model": H100,
        "memory_bytes": 80 * 2**30,
        "bus_id": f"0000:{0x18 + index:02x}:00.0",
        "pcie_root": "pci0000:17",
        "numa_node": 0,
        "ecc": EccErrors(corrected=0, uncorrected=0),
        "remapping": remapping(),
        "telemetry": Telemetry(temperature=degrees),
    }
    return DeviceReading(**(known | fields))


def remapping(*, pending: bool = False, failed: bool = False) -> RowRemapping:
    return RowRemapping(correctable=0, uncorrectable=0, pending=pending, failed=failed)


def ecc(uncorrected: int) -> EccErrors:
    return EccErrors(corrected=0, uncorrected=uncorrected)


def node(*devices: DeviceReading, links: Sequence[Link] = (), **fields: Any) -> NodeReading:
    """A node with these devices."""
    known: dict[str, Any] = {
        "vendor": "nvidia",
        "driver_version": "570.86.15",
        "runtime_version": "12.8",
        "devices": devices,
        "links": tuple(links),
    }
    return NodeReading(**(known | fields))


def lost(found: DeviceReading) -> DeviceReading:
    """The device as a reading has it when it does not answer any more."""
    return DeviceReading(
        id=found.id,
        index=found.index,
        minor=found.minor,
        model=found.model,
        memory_bytes=found.memory_bytes,
        lost=True,
    )


def switched(*indices: int, nvlinks: int = 18) -> tuple[Link, ...]:
    """Links of devices on one NVSwitch."""
    return tuple(
        Link(between=pair, nvlinks=nvlinks, version=4, switched=True) for pair in combinations(indices, 2)
    )


def direct(*pairs: tuple[int, int], nvlinks: int = 4) -> tuple[Link, ...]:
    """Links of devices without a switch."""
    return tuple(Link(between=pair, nvlinks=nvlinks, version=3) for pair in pairs)


def with_start(found: NodeReading, start: str) -> NodeReading:
    return replace(found, driver_start=start)
