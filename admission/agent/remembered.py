"""Devices as they were reported before: an agent that starts again goes on from them. Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from admission.agent.allocations import Allocation
from admission.agent.device_object import device_minor
from admission.agent.health import DeviceHealth, HealthState
from admission.agent.load import LoadState
from admission.agent.readings import DeviceId, DeviceReading, NodeReading, all_lost, as_lost
from queues.api.names import HEALTH_MEMORY
from queues.json_values import list_at, value_at


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


class AgentMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an agent that starts again goes on from: the annotation ``muster.dev/health-memory`` of the Device."""

    #: Devices as they were reported, all of them lost, by vendor.
    readings: tuple[NodeReading, ...] = ()
    health: dict[DeviceId, DeviceHealth] = {}
    #: What devices are registered as, where that is not the usual resource of their vendor.
    resources: dict[DeviceId, str] = {}
    #: Which pod had which devices.
    allocations: tuple[Allocation, ...] = ()
    #: How busy and hot they were reported to be.
    load: LoadState = LoadState()

    @classmethod
    def of(
        cls,
        readings: Sequence[NodeReading],
        health: Mapping[DeviceId, DeviceHealth],
        resources: Mapping[DeviceId, str] = MappingProxyType({}),
        allocations: Sequence[Allocation] = (),
        load: LoadState = LoadState(),  # noqa: B008 -- it is frozen
    ) -> Self:
        """What is to be remembered of what is reported now."""
        return cls(
            readings=tuple(replace(all_lost(reading), began=None) for reading in readings),
            health=dict(health),
            resources=dict(resources),
            allocations=tuple(allocations),
            load=load.remembered(),
        )

    def health_state(self) -> HealthState:
        """The health from which the next assessment goes on."""
        starts = {each.vendor: each.driver_start for each in self.readings if each.driver_start}
        return HealthState(devices=self.health, driver_starts=starts)

    def text(self) -> str:
        """The value of the annotation: the same for the same memory."""
        return msgspec.json.encode(self, order="deterministic").decode()


def remembered(stored: Mapping[str, Any] | None, node_uid: str) -> AgentMemory:
    """The memory in a stored Device object. Empty if there is none, if it cannot be read, or if it is about an earlier
    Node of the same name."""
    text = value_at(stored, "metadata", "annotations", HEALTH_MEMORY)
    owners = [
        each for each in list_at(stored, "metadata", "ownerReferences") if value_at(each, "kind") == "Node"
    ]
    if not isinstance(text, str) or node_uid not in [value_at(each, "uid") for each in owners]:
        return AgentMemory()
    try:
        return msgspec.json.decode(text.encode(errors="replace"), type=AgentMemory)
    except (msgspec.MsgspecError, RecursionError):
        return AgentMemory()
