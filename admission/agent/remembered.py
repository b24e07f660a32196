"""Devices as they were reported before, for an agent that starts on a node whose library does not answer. Pure."""

from collections.abc import Mapping
from typing import Any

from admission.agent.readings import DeviceId, DeviceReading, NodeReading
from queues.api import names
from queues.errors import InvalidQuantity
from queues.resources import quantity


def remembered(stored: Mapping[str, Any] | None, vendor: str) -> NodeReading | None:
    """The devices of a vendor in a stored Device object, all of them lost; None: it has none of them.

    Of a device only what stays the same is read. One that cannot be read is left out.
    """
    devices = []
    for each in ((stored or {}).get("spec") or {}).get("devices") or ():
        if (each.get("labels") or {}).get(names.KOORDINATOR_GPU_VENDOR) == vendor and each.get("id"):
            devices.append(_device(each))
    if stored is None or not devices:
        return None
    labels = stored["metadata"].get("labels") or {}
    return NodeReading(
        vendor=vendor,
        driver_version=labels.get(names.KOORDINATOR_GPU_DRIVER, ""),
        runtime_version=labels.get(names.GPU_RUNTIME, ""),
        devices=tuple(sorted(devices, key=lambda device: device.index)),
    )


def remembered_resources(stored: Mapping[str, Any] | None) -> dict[DeviceId, str]:
    """The resources that devices of a stored Device object are registered as, where that is not the usual one."""
    found = {}
    for each in ((stored or {}).get("spec") or {}).get("devices") or ():
        if each.get("id") and (resource := (each.get("labels") or {}).get(names.DEVICE_RESOURCE)):
            found[each["id"]] = resource
    return found


def _device(stored: Mapping[str, Any]) -> DeviceReading:
    labels, topology = stored.get("labels") or {}, stored.get("topology") or {}
    index, numa = labels.get(names.DEVICE_INDEX, ""), topology.get("nodeID", -1)
    return DeviceReading(
        id=stored["id"],
        index=int(index) if index.isdecimal() else int(stored.get("minor") or 0),
        minor=stored.get("minor"),
        module=stored.get("moduleID"),
        model=labels.get(names.GPU_MODEL, ""),
        memory_bytes=_bytes((stored.get("resources") or {}).get("koordinator.sh/gpu-memory", "0")),
        bus_id=topology.get("busID", ""),
        pcie_root=topology.get("pcieID", ""),
        numa_node=None if numa < 0 else numa,
        lost=True,
    )


def _bytes(text: Any) -> int:
    try:
        return int(quantity(text))
    except InvalidQuantity:
        return 0
