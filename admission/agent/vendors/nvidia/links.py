"""NVLinks of a device."""

from collections.abc import Mapping
from typing import Any, Final

import pynvml

from admission.agent.readings import SWITCH
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia.library import Field, asked

_STATE: Final = pynvml.NVML_FI_DEV_NVLINK_GET_STATE


class NvLinks:
    """NVLinks of one device. What a link leads to is asked once, whether it is active each time."""

    def __init__(self, handle: Any, count: int) -> None:
        """``count``: how many links the device has."""
        self._handle = handle
        #: What to ask of each link: whether it is active.
        self.fields: tuple[Field, ...] = tuple((_STATE, link) for link in range(count))
        self._remotes: dict[int, str] = {}

    def read(self, values: Mapping[Field, int]) -> tuple[frozenset[str], tuple[int, ...]]:
        """What the active links lead to, as far as it is known, and the numbers of those that are not active.

        ``values``: of ``fields``. Raises SessionOver, DeviceLost.
        """
        leads_to, down = set(), []
        for field in self.fields:
            _, link = field
            if field not in values:
                continue  # it does not say
            if values[field] == pynvml.NVML_NVLINK_STATE_INACTIVE:
                down.append(link)
            elif (remote := self._remotes.get(link) or self._remote(link)) is not None:
                self._remotes[link] = remote
                leads_to.add(remote)
        return frozenset(leads_to), tuple(down)

    def _remote(self, link: int) -> str | None:
        """What an active link leads to. None if unknown, or nothing that joins devices.

        Where one link of a device leads to a switch, all of them do.
        """
        if SWITCH in self._remotes.values():
            return SWITCH
        kind = asked(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, self._handle, link)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return SWITCH
        if kind != pynvml.NVML_NVLINK_DEVICE_TYPE_GPU:
            return None
        place = asked(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, self._handle, link)
        return None if place is None else pci.kernel_bus_id(place.busId)
