"""MIG instances of a device."""

from dataclasses import dataclass
from typing import Any

import pynvml

from admission.agent.readings import DeviceId, MigInstance
from admission.agent.vendors.nvidia.library import asked


@dataclass(frozen=True, slots=True)
class _Named:
    """An instance by what identifies it. Its id alone does not: an instance of another profile may get it again."""

    id: DeviceId | None
    name: str


class MigInstances:
    """Instances of all devices, each asked about once: what an instance is does not change until it is destroyed."""

    def __init__(self) -> None:
        self._known: dict[DeviceId, dict[_Named, MigInstance]] = {}
        self._most: dict[DeviceId, int] = {}

    def of(self, device: DeviceId, handle: Any, memory_bytes: int) -> tuple[MigInstance, ...]:
        """Instances of a device that has MIG on, in the order of the library. Raises SessionOver, DeviceLost.

        An instance that does not report its ids is left out: it is being made or destroyed.
        """
        if device not in self._most:
            self._most[device] = asked(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        before = self._known.get(device, {})
        found: dict[_Named, MigInstance] = {}
        for place in range(self._most[device]):
            part = asked(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            if part is None:
                continue
            named = _Named(asked(pynvml.nvmlDeviceGetUUID, part), asked(pynvml.nvmlDeviceGetName, part) or "")
            instance = before.get(named)
            if instance is None:
                instance = _instance(handle, part, named, memory_bytes)
            if instance is not None:
                found[named] = instance
        self._known[device] = found
        return tuple(found.values())

    def forget(self) -> None:
        """NVML was started again: ask about everything again."""
        self._known.clear()
        self._most.clear()


def _instance(device: Any, part: Any, named: _Named, device_memory: int) -> MigInstance | None:
    gpu_instance = asked(pynvml.nvmlDeviceGetGpuInstanceId, part)
    compute_instance = asked(pynvml.nvmlDeviceGetComputeInstanceId, part)
    attributes = asked(pynvml.nvmlDeviceGetAttributes, part)
    if named.id is None or gpu_instance is None or compute_instance is None or attributes is None:
        return None
    start, size = _placement(device, gpu_instance)
    return MigInstance(
        id=named.id,
        profile=_profile(named.name, attributes, device_memory),
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
        memory_bytes=attributes.memorySizeMB << 20,
        start=start,
        size=size,
    )


def _placement(device: Any, gpu_instance: int) -> tuple[int | None, int | None]:
    """First slice and number of slices of a GPU instance. Asking for it takes rights that an agent may lack."""
    handle = asked(pynvml.nvmlDeviceGetGpuInstanceById, device, gpu_instance)
    answer = asked(pynvml.nvmlGpuInstanceGetInfo, handle) if handle is not None else None
    return (answer.placement.start, answer.placement.size) if answer is not None else (None, None)


def _profile(name: str, attributes: Any, device_memory: int) -> str:
    """A profile as the device plugin names its resource: ``1g.10gb``, ``1g.10gb.me``.

    NVML says it at the end of the name (``NVIDIA H100 80GB HBM3 MIG 1g.10gb``). Where it does not, it follows from the
    slices, and from the memory as eighths of the device's, in whole GiB.
    """
    _, told, profile = name.rpartition(" MIG ")
    if told:
        return profile.replace("+", ".")
    gpu, compute = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    whole = -(-device_memory >> 30) if device_memory else 0
    eighths = round(8 * (attributes.memorySizeMB << 20) / device_memory) if device_memory else 0
    part = "" if compute == gpu else f"{compute}c."
    return f"{part}{gpu}g.{int(eighths * whole / 8 + 0.5)}gb"
