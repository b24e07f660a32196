"""Devices as they were reported before: an agent that starts again goes on from them. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from admission.agent.allocations import Allocation
from admission.agent.device_object import GPU, device_minor
from admission.agent.readings import DeviceId, DeviceReading, MigInstance, NodeReading, as_lost
from queues.api import names
from queues.errors import InvalidQuantity
from queues.resources import quantity

_MIG_MODES: Final = {"enabled": True, "disabled": False}


class KnownDevices:
    """The devices of one vendor over all runs of the agent: each keeps its number, and one that is missing is lost.

    The library of a vendor knows only what it has seen since the driver started, and numbers that without the others.
    ``stored``: as they were reported before the start, None if nothing was.
    """

    def __init__(self, stored: NodeReading | None = None) -> None:
        #: The devices that were reported before the start, all of them lost. None if there are none, or a user deleted
        #: the report.
        self.stored = stored
        #: Each as it is reported while it is lost, with its number.
        self._known: dict[DeviceId, DeviceReading] = {}
        #: Those that the last reading does not have.
        self._lost: set[DeviceId] = set()
        for device in stored.devices if stored is not None else ():
            self._known[device.id] = replace(device, index=self._free_number(device.index))

    def settle(self, reading: NodeReading) -> NodeReading:
        """A reading with the numbers that the devices had first, and with those that are missing in it."""
        there = {device.id for device in reading.devices}
        for device in reading.devices:
            before = self._known.get(device.id) or self._replaced_by(device, there)
            number = self._free_number(device.index) if before is None else before.index
            self._known[device.id] = as_lost(replace(device, index=number))
        self._lost = self._known.keys() - there
        devices = [replace(device, index=self._known[device.id].index) for device in reading.devices]
        devices += [self._known[device] for device in self._lost]
        return replace(reading, devices=_with_own_minors(sorted(devices, key=lambda device: device.index)))

    def forget_lost(self) -> None:
        """Report the devices that are lost now no more: they were taken out of the node. One that is back is new."""
        self.stored = None
        for device in self._lost:
            del self._known[device]
        self._lost = set()

    def _replaced_by(self, new: DeviceReading, there: set[DeviceId]) -> DeviceReading | None:
        """The device whose place on the bus a new one has taken; it goes for good. None if it took no place."""
        for device in self._known.values():
            if new.bus_id and device.bus_id == new.bus_id and device.id not in there:
                return self._known.pop(device.id)
        return None

    def _free_number(self, wanted: int) -> int:
        taken = {device.index for device in self._known.values()}
        if wanted not in taken:
            return wanted
        return next(number for number in range(len(taken) + 1) if number not in taken)


def _with_own_minors(devices: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
    """The devices, the lost ones with minors that no other one has.

    The driver numbers device files without the devices that are gone, and allocations name devices by them.
    """
    taken = {device_minor(device) for device in devices if not device.lost}
    found = []
    for device in devices:
        minor = device.minor
        if device.lost and device_minor(device) in taken:
            minor = next(number for number in range(len(taken) + 1) if number not in taken)
        found.append(replace(device, minor=minor))
        taken.add(device_minor(found[-1]))
    return tuple(found)


def is_of_node(stored: Mapping[str, Any] | None, node_uid: str) -> bool:
    """Whether a stored Device object is about this Node; False: it is of an earlier one of the same name."""
    owners = ((stored or {}).get("metadata") or {}).get("ownerReferences") or ()
    uids = {each.get("uid") for each in owners if each.get("kind") == "Node"}
    return not uids or node_uid in uids


def remembered(stored: Mapping[str, Any] | None, vendor: str, driver_start: str = "") -> NodeReading | None:
    """The devices of a vendor in a stored Device object, all of them lost. None if it has none of them.

    Of a device only what stays the same is read. One that cannot be read is left out. ``driver_start``: the start of
    the driver that was known then, with which the next one is compared.
    """
    devices, instances = [], _mig_instances(stored)
    for each in ((stored or {}).get("spec") or {}).get("devices") or ():
        if (each.get("labels") or {}).get(names.KOORDINATOR_GPU_VENDOR) == vendor and each.get("id"):
            devices.append(replace(_device(each), mig_instances=instances.get(each["id"], ())))
    if stored is None or not devices:
        return None
    labels = stored["metadata"].get("labels") or {}
    return NodeReading(
        vendor=vendor,
        driver_version=labels.get(names.KOORDINATOR_GPU_DRIVER, ""),
        driver_start=driver_start,
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


def remembered_allocations(stored: Mapping[str, Any] | None) -> tuple[Allocation, ...]:
    """Which pod had which devices, by a stored Device object. MIG instances are not in there."""
    ids = {
        each.get("minor"): each["id"]
        for each in ((stored or {}).get("spec") or {}).get("devices") or ()
        if each.get("type") == GPU and each.get("id")
    }
    entries = [
        entry
        for allocation in ((stored or {}).get("status") or {}).get("allocations") or ()
        if allocation.get("type") == GPU
        for entry in allocation.get("entries") or ()
    ]
    return tuple(
        Allocation(
            pod_uid=entry.get("uuid", ""),
            namespace=entry.get("namespace", ""),
            name=entry.get("name", ""),
            devices=tuple(ids[minor] for minor in entry.get("minors") or () if minor in ids),
        )
        for entry in entries
    )


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
        mig_enabled=_MIG_MODES.get(labels.get(names.MIG_MODE, "")),
        lost=True,
    )


def _mig_instances(stored: Mapping[str, Any] | None) -> dict[DeviceId, tuple[MigInstance, ...]]:
    """MIG instances by device. Empty: there are none, or what is stored cannot be read."""
    text = (((stored or {}).get("metadata") or {}).get("annotations") or {}).get(names.MIG_INSTANCES, "{}")
    try:
        return {
            device: tuple(
                MigInstance(
                    id=each["id"],
                    profile=each["profile"],
                    gpu_instance=each["gpuInstance"],
                    compute_instance=each["computeInstance"],
                )
                for each in instances
            )
            for device, instances in json.loads(text).items()
        }
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return {}


def _bytes(text: Any) -> int:
    try:
        return int(quantity(text))
    except InvalidQuantity:
        return 0
