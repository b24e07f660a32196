"""How the devices of a node are connected: NVLinks, and the way over the PCI bus.

What a link leads to is asked once, as are the ways between two devices; whether a link is active is asked each time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import pynvml

from admission.agent.readings import DeviceId, Link, PciePath
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia.device import NVLINK_KIB
from admission.agent.vendors.nvidia.fields import Field, field_values
from admission.agent.vendors.nvidia.library import DeviceLost, asked

#: What a link leads to, if not to the bus id of a GPU.
SWITCH: Final = "switch"
OTHER: Final = "other"

#: May one device read the other's memory? The constant NVML_P2P_CAPS_INDEX_READ of pynvml is a tuple by mistake.
_P2P_READ: Final = 0
_STATE: Final = pynvml.NVML_FI_DEV_NVLINK_GET_STATE
_INACTIVE: Final = pynvml.NVML_NVLINK_STATE_INACTIVE
_PATHS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: PciePath.SAME_BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: PciePath.SINGLE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: PciePath.MULTIPLE_SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: PciePath.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: PciePath.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: PciePath.SYSTEM,
}
#: NVLink's version by the constants NVML_NVLINK_VERSION_….
_VERSIONS: Final = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A device with its NVLinks as they are now."""

    id: DeviceId
    index: int
    handle: Any
    bus_id: str
    #: Number of each active link, and what it leads to: a bus id, SWITCH or OTHER.
    active: Mapping[int, str]
    version: int

    def to_switches(self) -> int:
        """How many active links lead to switches."""
        return sum(remote == SWITCH for remote in self.active.values())


@dataclass(slots=True)
class _Known:
    """What was asked of a device before."""

    count: int
    remotes: dict[int, str]
    version: int = 0


class NvLinks:
    """NVLinks of all devices."""

    def __init__(self) -> None:
        self._known: dict[DeviceId, _Known] = {}

    def fields(self, device: DeviceId, handle: Any) -> tuple[Field, ...]:
        """Values to be read of a device for ``of``. Raises SessionOver, DeviceLost."""
        known = self._known.get(device)
        if known is None:
            known = self._known[device] = _Known(_link_count(handle), {})
        return (*NVLINK_KIB, *((_STATE, link) for link in range(known.count))) if known.count else ()

    def of(
        self, device: DeviceId, handle: Any, values: Mapping[Field, int]
    ) -> tuple[dict[int, str], tuple[int, ...], int]:
        """Active links with what they lead to, numbers of the others, and their version. Raises as ``fields``."""
        known = self._known[device]
        states = {link: _is_active(handle, link, values) for link in range(known.count)}
        active: dict[int, str] = {}
        for link, is_active in states.items():
            if not is_active:
                continue
            remote = known.remotes.get(link) or _remote(handle, link, known.remotes)
            if remote is not None:
                known.remotes[link] = remote
            active[link] = remote or OTHER
        if active and not known.version:
            known.version = _VERSIONS.get(
                asked(pynvml.nvmlDeviceGetNvLinkVersion, handle, min(active)) or 0, 0
            )
        return active, tuple(link for link, is_active in states.items() if is_active is False), known.version

    def forget(self, device: DeviceId) -> None:
        """A device came back, or NVML was started again: ask about it again."""
        self._known.pop(device, None)


@dataclass(frozen=True, slots=True)
class _Way:
    """The way between two devices besides NVLinks."""

    path: PciePath | None
    peer_access: bool | None


class Ways:
    """How each two devices of a node are connected. Asked again when anything that it may depend on has changed."""

    def __init__(self) -> None:
        self._ways: dict[tuple[DeviceId, DeviceId], _Way] = {}
        self._asked_for: object = None

    def between(self, devices: Sequence[Linked], depends_on: object) -> tuple[Link, ...]:
        """Links between all pairs, by index. ``depends_on``: as long as it is equal, nothing is asked.

        Raises SessionOver.
        """
        if depends_on != self._asked_for:
            self._ways.clear()
            self._asked_for = depends_on
        ordered = sorted(devices, key=lambda device: device.index)
        return tuple(
            _link(first, second, self._way(first, second)) for first, second in combinations(ordered, 2)
        )

    def _way(self, first: Linked, second: Linked) -> _Way:
        pair = (first.id, second.id)
        if pair not in self._ways:
            try:
                self._ways[pair] = _Way(_path(first, second), _peer_access(first, second))
            except DeviceLost:
                return _Way(None, None)
        return self._ways[pair]


def _link(first: Linked, second: Linked, way: _Way) -> Link:
    direct = sum(remote == second.bus_id for remote in first.active.values())
    switched = min(first.to_switches(), second.to_switches())
    # A link may be active at one end only for a while: for direct ones the first device alone is asked.
    version = first.version if direct else min(first.version, second.version)
    return Link(
        between=(first.index, second.index),
        nvlinks=direct or switched,
        version=version if direct or switched else 0,
        switched=not direct and switched > 0,
        path=way.path,
        peer_access=way.peer_access,
    )


def _path(first: Linked, second: Linked) -> PciePath | None:
    return _PATHS.get(asked(pynvml.nvmlDeviceGetTopologyCommonAncestor, first.handle, second.handle))


def _peer_access(first: Linked, second: Linked) -> bool | None:
    status = asked(pynvml.nvmlDeviceGetP2PStatus, first.handle, second.handle, _P2P_READ)
    if status is None or status == pynvml.NVML_P2P_STATUS_UNKNOWN:
        return None
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _link_count(handle: Any) -> int:
    count = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)
    values = field_values(handle, (count,))
    if count in values:
        return min(values[count], int(pynvml.NVML_NVLINK_MAX_LINKS))
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if asked(pynvml.nvmlDeviceGetNvLinkState, handle, link) is None:
            return link
    return int(pynvml.NVML_NVLINK_MAX_LINKS)


def _is_active(handle: Any, link: int, values: Mapping[Field, int]) -> bool | None:
    """Whether a link is active, asleep included. None if the device does not report it."""
    state = values.get((_STATE, link))
    if state is not None:
        return bool(state != _INACTIVE)
    enabled = asked(pynvml.nvmlDeviceGetNvLinkState, handle, link)
    return None if enabled is None else bool(enabled)


def _remote(handle: Any, link: int, others: Mapping[int, str]) -> str | None:
    """What an active link leads to. None if unknown. Where one link of a device leads to a switch, all of them do."""
    if SWITCH in others.values():
        return SWITCH
    kind = asked(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    if kind != pynvml.NVML_NVLINK_DEVICE_TYPE_GPU:
        return None if kind is None else OTHER
    place = asked(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return None if place is None else pci.kernel_bus_id(place.busId)
