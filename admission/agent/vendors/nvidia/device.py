"""One device: what it is, and how it is now."""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pynvml

from admission.agent.readings import (
    DeviceId,
    EccErrors,
    Fabric,
    RecoveryAction,
    RowRemapping,
    Telemetry,
)
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia.fields import ALL_LINKS, Field
from admission.agent.vendors.nvidia.library import DeviceLost, asked

RECOVERY: Final[Field] = (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0)
ECC_MODE: Final[Field] = (pynvml.NVML_FI_DEV_ECC_CURRENT, 0)
ECC_TOTALS: Final[tuple[Field, ...]] = (
    (pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 0),
    (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0),
)
REMAPPING: Final[tuple[Field, ...]] = (
    (pynvml.NVML_FI_DEV_REMAPPED_COR, 0),
    (pynvml.NVML_FI_DEV_REMAPPED_UNC, 0),
    (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0),
    (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 0),
)
NVLINK_KIB: Final[tuple[Field, ...]] = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
)
#: What is read of each device by one call.
HEALTH: Final = (RECOVERY, ECC_MODE, *ECC_TOTALS, *REMAPPING)

#: Field 230, by the constants NVML_GPU_RECOVERY_ACTION_….
_RECOVERY_ACTIONS: Final = (
    RecoveryAction.NONE,
    RecoveryAction.RESET,
    RecoveryAction.REBOOT,
    RecoveryAction.DRAIN,
    RecoveryAction.DRAIN_AND_RESET,
    RecoveryAction.RECOVER_FABRIC,
    RecoveryAction.RESET_BUS,
    RecoveryAction.REBOOT_SYSTEM,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFacts:
    """What does not change as long as the driver runs and the device stays where it is."""

    id: DeviceId
    minor: int | None
    module: int | None
    model: str
    memory_bytes: int
    bus_id: str
    pcie_root: str
    numa_node: int | None


def device_facts(handle: Any, uuid: DeviceId, sysfs: Path) -> FixedFacts:
    """What a device is. Raises SessionOver; DeviceLost, also where it does not even report its model and place."""
    model = asked(pynvml.nvmlDeviceGetName, handle)
    place = asked(pynvml.nvmlDeviceGetPciInfo, handle)
    if model is None or place is None:
        raise DeviceLost(why="it tells neither its model nor its place")
    bus_id = pci.kernel_bus_id(place.busId)
    memory = memory_of(handle)
    return FixedFacts(
        id=uuid,
        minor=asked(pynvml.nvmlDeviceGetMinorNumber, handle),
        module=asked(pynvml.nvmlDeviceGetModuleId, handle),
        model=model,
        memory_bytes=memory.total if memory is not None else 0,
        bus_id=bus_id,
        pcie_root=pci.pcie_root(bus_id, sysfs),
        numa_node=pci.numa_node(bus_id, sysfs),
    )


def memory_of(handle: Any) -> Any:
    """Memory of a device: ``total`` and ``used`` bytes. None if it does not report it; CPU and GPU may share theirs."""
    memory = asked(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return memory if memory is not None else asked(pynvml.nvmlDeviceGetMemoryInfo, handle)


def mig_enabled(handle: Any) -> bool | None:
    """Whether MIG is on. None if the device has none."""
    mode = asked(pynvml.nvmlDeviceGetMigMode, handle)
    return None if mode is None else mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def recovery_action(values: dict[Field, int]) -> RecoveryAction | None:
    """What the driver asks for. None if it does not say, or says something that is not known here."""
    action = values.get(RECOVERY, -1)
    return _RECOVERY_ACTIONS[action] if 0 <= action < len(_RECOVERY_ACTIONS) else None


def ecc_enabled(handle: Any, values: dict[Field, int]) -> bool | None:
    """Whether ECC is on. None if the device has none."""
    if ECC_MODE in values:
        return bool(values[ECC_MODE])
    mode = asked(pynvml.nvmlDeviceGetEccMode, handle)
    return None if mode is None else bool(mode[0])


def ecc_errors(handle: Any, values: dict[Field, int]) -> EccErrors | None:
    """Errors since the driver was loaded, from the fields or, on drivers without them, by calls of their own."""
    counts = [values.get(field) for field in ECC_TOTALS]
    for kind in (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED):
        if counts[kind] is None:
            counts[kind] = asked(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC)
    corrected, uncorrected = counts
    if corrected is None or uncorrected is None:
        return None
    return EccErrors(corrected=corrected, uncorrected=uncorrected)


def row_remapping(handle: Any, values: dict[Field, int]) -> RowRemapping | None:
    """Rows that were replaced. None if the device does not do that (before Ampere)."""
    rows = [values[field] for field in REMAPPING if field in values]
    if len(rows) < len(REMAPPING):
        rows = asked(pynvml.nvmlDeviceGetRemappedRows, handle)
        if rows is None:
            return None
    correctable, uncorrectable, pending, failed = rows
    return RowRemapping(
        correctable=correctable, uncorrectable=uncorrectable, pending=bool(pending), failed=bool(failed)
    )


def fabric(handle: Any) -> Fabric | None:
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


def telemetry(handle: Any, values: dict[Field, int]) -> Telemetry:
    """What changes all the time. Raises SessionOver, DeviceLost."""
    utilisation = asked(pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = memory_of(handle)
    traffic = [values[field] for field in NVLINK_KIB if field in values]
    return Telemetry(
        temperature=_temperature(handle),
        power=asked(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit=asked(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        sm_clock=asked(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        memory_clock=asked(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        throttling=_throttling(handle),
        utilisation=utilisation.gpu if utilisation is not None else None,
        memory_used_bytes=memory.used if memory is not None else None,
        nvlink_bytes=sum(traffic) * 1024 if len(traffic) == len(NVLINK_KIB) else None,
    )


def _temperature(handle: Any) -> int | None:
    degrees: int | None = asked(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
    if degrees is None:
        degrees = asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return degrees


def _throttling(handle: Any) -> tuple[str, ...]:
    reasons = asked(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        reasons = asked(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return tuple(name for bit, name in _THROTTLING.items() if reasons & bit)
