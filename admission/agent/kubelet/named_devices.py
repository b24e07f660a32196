"""The devices of a node by the names that device plugins have for them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admission.agent.readings import DeviceId, DeviceReading, NodeReading
from admission.agent.vendors.registry import VENDORS

#: How device plugins name a device: NVIDIA's by its index (``0``; a MIG instance ``0:1``), Google's by its
#: device file (``nvidia0/gi1``, ``nvidia0/vgpu2``).
_INDEX: Final = re.compile(r"(?P<index>[0-9]{1,4})(:[0-9]{1,4})?", re.ASCII)
_DEVICE_FILE: Final = re.compile(
    r"nvidia(?P<minor>[0-9]{1,4})(/gi(?P<gpu_instance>[0-9]{1,4}))?(/vgpu[0-9]+)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A device, or a MIG instance of one."""

    device: DeviceId
    #: None for the device as a whole; for a process also if it is unknown.
    instance: DeviceId | None = None


def vendor_of(resource: str) -> str | None:
    """The vendor whose devices a resource counts. None if this agent does not read that vendor."""
    domain = resource.partition("/")[0]
    return next(
        (
            name
            for name, vendor in VENDORS.items()
            if domain == vendor.domain or domain.endswith(f".{vendor.domain}")
        ),
        None,
    )


class NamedDevices:
    """The devices of the node, found by all names that device plugins have for them."""

    def __init__(self, readings: Sequence[NodeReading]) -> None:
        #: With the vendor of each, in the order of the readings.
        self.devices = [(reading.vendor, device) for reading in readings for device in reading.devices]
        self._by_name: dict[str, DevicePart] = {}
        self._by_place: dict[tuple[str, str, int], DeviceReading] = {}
        for vendor, device in reversed(self.devices):
            for instance in device.mig_instances:
                self._by_name[instance.id] = DevicePart(device.id, instance.id)
            self._by_name[device.id] = DevicePart(device.id)
            if device.bus_id:
                self._by_name[device.bus_id.lower()] = DevicePart(device.id)
            self._by_place[vendor, "index", device.index] = device
            if device.minor is not None:
                self._by_place[vendor, "minor", device.minor] = device

    def part(self, plugin_id: str, vendor: str | None) -> DevicePart | None:
        """The device with this id of a plugin. None if there is none. ``vendor``: of the resource, None if unknown."""
        name = plugin_id.partition("::")[0]
        if part := self._by_name.get(name) or self._by_name.get(name.lower()):
            return part
        if vendor == "nvidia" and (found := _INDEX.fullmatch(name)):
            return self._at(vendor, "index", int(found["index"]))
        if vendor == "nvidia" and (found := _DEVICE_FILE.fullmatch(name)):
            return self._at(vendor, "minor", int(found["minor"]), found["gpu_instance"])
        return None

    def _at(self, vendor: str, kind: str, number: int, gpu_instance: str | None = None) -> DevicePart | None:
        device = self._by_place.get((vendor, kind, number))
        if device is None:
            return None
        if gpu_instance is not None:
            for instance in device.mig_instances:
                if instance.gpu_instance == int(gpu_instance):
                    return DevicePart(device.id, instance.id)
        return DevicePart(device.id)

    def in_order(self, ids: set[DeviceId]) -> tuple[DeviceId, ...]:
        """These devices, in the order of the readings."""
        return tuple(dict.fromkeys(device.id for _, device in self.devices if device.id in ids))
