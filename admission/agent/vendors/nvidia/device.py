"""One device in one session of NVML: what it is, and how it is now."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pynvml
from msgspec.structs import replace

from admission.agent.readings import (
    SWITCH,
    DeviceId,
    DeviceReading,
    Fabric,
    MigInstance,
    RecoveryAction,
    RowRemapping,
    Telemetry,
)
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia.library import DeviceLost, Field, asked, field_values

_LINK_COUNT: Final[Field] = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)
_RECOVERY: Final[Field] = (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0)
_UNCORRECTED: Final[Field] = (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0)
_REMAPPING_PENDING: Final[Field] = (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0)
_REMAPPING_FAILED: Final[Field] = (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 0)
#: What is read of each device by one call.
_HEALTH: Final = (_RECOVERY, _UNCORRECTED, _REMAPPING_PENDING, _REMAPPING_FAILED)

#: Field 230, by the constants NVML_GPU_RECOVERY_ACTION_….
_RECOVERY_ACTIONS: Final = dict(enumerate(RecoveryAction))
#: Reasons for lower clocks. An idle device (0x1) is none.
_THROTTLING: Final = {
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "application-clocks",
    pynvml.nvmlClocksEventReasonSwPowerCap: "sw-power-cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hw-slowdown",
    pynvml.nvmlClocksEventReasonSyncBoost: "sync-boost",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw-thermal",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw-thermal",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw-power-brake",
    pynvml.nvmlClocksEventReasonDisplayClockSetting: "display-clocks",
}


class Device:
    """A device that answered. What does not change in a session is asked once."""

    def __init__(self, handle: Any, uuid: DeviceId, sysfs: Path) -> None:
        """Raises SessionOver; DeviceLost, also where it does not even report its model and place."""
        model, place = asked(pynvml.nvmlDeviceGetName, handle), asked(pynvml.nvmlDeviceGetPciInfo, handle)
        if model is None or place is None:
            raise DeviceLost(why="it tells neither its model nor its place")
        bus_id, memory = pci.kernel_bus_id(place.busId), _memory_of(handle)
        self._handle = handle
        self._links = NvLinks(handle, field_values(handle, (_LINK_COUNT,)).get(_LINK_COUNT, 0))
        self._parts = MigInstances(handle)
        self._unchanging = DeviceReading(
            id=uuid,
            index=0,
            minor=asked(pynvml.nvmlDeviceGetMinorNumber, handle),
            module=asked(pynvml.nvmlDeviceGetModuleId, handle),
            model=model,
            memory_bytes=memory.total if memory is not None else 0,
            bus_id=bus_id,
            pcie_root=pci.pcie_root(bus_id, sysfs),
            numa_node=pci.numa_node(bus_id, sysfs),
        )

    def read(self, index: int) -> DeviceReading:
        """The device as it is now. Raises SessionOver, DeviceLost."""
        handle = self._handle
        values = field_values(handle, (*_HEALTH, *self._links.fields))
        linked_to, links_down = self._links.read(values)
        mode = asked(pynvml.nvmlDeviceGetMigMode, handle)
        mig_enabled = None if mode is None else mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
        return replace(
            self._unchanging,
            index=index,
            mig_enabled=mig_enabled,
            mig_instances=self._parts.read() if mig_enabled else (),
            uncorrected_errors=values.get(_UNCORRECTED),
            remapping=_row_remapping(values),
            fabric=_fabric(handle),
            linked_to=linked_to,
            links_down=links_down,
            recovery=_RECOVERY_ACTIONS.get(values.get(_RECOVERY, -1)),
            processes=_processes(handle),
            telemetry=_telemetry(handle),
        )


def _memory_of(handle: Any) -> Any:
    """Memory of a device: ``total`` and ``used`` bytes. None if it does not report it; CPU and GPU may share theirs."""
    return asked(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)


def _row_remapping(values: dict[Field, int]) -> RowRemapping | None:
    """Rows that were replaced. None if the device does not do that (before Ampere)."""
    if _REMAPPING_PENDING not in values or _REMAPPING_FAILED not in values:
        return None
    return RowRemapping(pending=bool(values[_REMAPPING_PENDING]), failed=bool(values[_REMAPPING_FAILED]))


def _fabric(handle: Any) -> Fabric | None:
    """The NVLink fabric of a device. None if it has none. Its cluster is "" where the fabric is this node's alone."""
    answer = pynvml.c_nvmlGpuFabricInfo_v2_t()
    told = asked(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(answer))
    if told is None or answer.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return None
    cluster = bytes(answer.clusterUuid)
    return Fabric(
        cluster=str(UUID(bytes=cluster)) if any(cluster) else "",
        clique=answer.cliqueId,
        complete=answer.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
        and answer.status == pynvml.NVML_SUCCESS,
    )


def _telemetry(handle: Any) -> Telemetry:
    utilisation, memory = asked(pynvml.nvmlDeviceGetUtilizationRates, handle), _memory_of(handle)
    reasons = asked(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    return Telemetry(
        temperature=asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power=asked(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit=asked(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        throttling=tuple(name for bit, name in _THROTTLING.items() if reasons & bit),
        utilisation=utilisation.gpu if utilisation is not None else None,
        memory_used_bytes=memory.used if memory is not None else None,
    )


def _processes(handle: Any) -> tuple[int, ...]:
    """Pids of the processes that compute on a device, as the agent's own pid namespace has them: it needs ``hostPID``.

    Empty also where the driver does not report them.
    """
    answers = asked(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle) or ()
    return tuple(sorted({int(each.pid) for each in answers}))


class MigInstances:
    """Instances of one device, each asked about once: what an instance is does not change until it is destroyed."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._most: int = asked(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        #: By id and name: an instance of another profile may get the id of one that is gone.
        self._known: dict[tuple[str, str], MigInstance] = {}

    def read(self) -> tuple[MigInstance, ...]:
        """Instances of the device, in the order of the library. Raises SessionOver, DeviceLost.

        An instance that does not report what it is is left out: it is being made or destroyed.
        """
        found: dict[tuple[str, str], MigInstance] = {}
        for place in range(self._most):
            part = asked(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, self._handle, place)
            if part is None:
                continue
            key = (asked(pynvml.nvmlDeviceGetUUID, part) or "", asked(pynvml.nvmlDeviceGetName, part) or "")
            if (instance := self._known.get(key) or _instance(part, *key)) is not None:
                found[key] = instance
        self._known = found
        return tuple(found.values())


def _instance(part: Any, uuid: str, name: str) -> MigInstance | None:
    """An instance. Its profile is the end of its name (``NVIDIA H100 80GB HBM3 MIG 1g.10gb+me``)."""
    gpu_instance = asked(pynvml.nvmlDeviceGetGpuInstanceId, part)
    _, is_named, profile = name.rpartition(" MIG ")
    if not (uuid and is_named) or gpu_instance is None:
        return None
    return MigInstance(
        id=uuid,
        profile=profile.replace("+", "."),
        gpu_instance=gpu_instance,
    )


# ── links ───────────────────────────────────────────────────────────────────────────────────────────────────


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
