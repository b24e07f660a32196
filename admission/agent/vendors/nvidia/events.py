"""What NVML reports by itself: XIDs, uncorrectable errors, devices that went away."""

import ctypes
from contextlib import suppress
from typing import Any, Final

import pynvml

from admission.agent.readings import DeviceEvent, DeviceId, EventKind
from admission.agent.vendors.nvidia.library import DeviceLost, asked

#: Events of one answer; the rest comes with the next.
MOST_EVENTS: Final = 256

_KINDS: Final = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.ECC_UNCORRECTED,
    pynvml.nvmlEventTypeGpuUnavailableError: EventKind.LOST,
    pynvml.nvmlEventTypeGpuRecoveryAction: EventKind.RECOVERY_CHANGED,
}
_WANTED: Final = sum(_KINDS)


class Events:
    """Events of all devices, in one session of NVML."""

    def __init__(self) -> None:
        self._set: Any = None
        #: Devices that are registered, by the address that their handle is.
        self._devices: dict[int, tuple[DeviceId, Any]] = {}
        #: Whether devices have to be registered anew: at first, when one came back, and after an error.
        self.stale = True

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """Events since the last call, all that are there when the first has come; none after ``seconds``.

        Returns at once where no device reports events. Raises SessionOver.
        """
        events = self._register() if self.stale else []
        if not self._devices:
            return tuple(events)
        found, error = self._taken(0 if events else seconds)
        events += found
        match error:
            case pynvml.NVML_ERROR_GPU_IS_LOST:
                lost = [uuid for uuid, handle in self._devices.values() if not _answers(handle)]
                events += [DeviceEvent(kind=EventKind.LOST, device=uuid) for uuid in lost]
                # Without them: this set would say the same for ever.
                self.stale = True
            case pynvml.NVML_ERROR_TIMEOUT | None:
                pass
            case _:
                self.free()
        return tuple(events)

    def free(self) -> None:
        """Give the set back; the next wait makes another one."""
        if self._set is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._set)
        self._set, self._devices, self.stale = None, {}, True

    def _taken(self, seconds: float) -> tuple[list[DeviceEvent], int | None]:
        """Events of the set, and the error that ended them; None if there may be more."""
        events: list[DeviceEvent] = []
        while len(events) < MOST_EVENTS:
            try:
                data = pynvml.nvmlEventSetWait(self._set, 0 if events else round(seconds * 1000))
            except pynvml.NVMLError as error:
                return events, error.value
            kind = _KINDS.get(data.eventType, EventKind.RECOVERY_CHANGED)
            known = self._devices.get(_address(data.device))
            events.append(
                DeviceEvent(
                    kind=kind,
                    device=known[0] if known else None,
                    code=data.eventData if kind is EventKind.XID else None,
                )
            )
        return events, None

    def _register(self) -> list[DeviceEvent]:
        """Register all devices that answer with a new set; returns what the old one still had."""
        remaining = self._taken(0)[0] if self._set is not None else []
        self.free()
        self._set = asked(pynvml.nvmlEventSetCreate)
        for place in range(asked(pynvml.nvmlDeviceGetCount) or 0) if self._set is not None else ():
            with suppress(DeviceLost, pynvml.NVMLError):
                self._register_device(place)
        self.stale = self._set is None
        return remaining

    def _register_device(self, place: int) -> None:
        """One device, if it has events. Raises SessionOver, DeviceLost, NVMLError."""
        handle = asked(pynvml.nvmlDeviceGetHandleByIndex, place)
        uuid: DeviceId = asked(pynvml.nvmlDeviceGetUUID, handle) or "" if handle is not None else ""
        types = (asked(pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & _WANTED if uuid else 0
        if types:
            pynvml.nvmlDeviceRegisterEvents(handle, types, self._set)
            self._devices[_address(handle)] = uuid, handle


def _answers(handle: Any) -> bool:
    try:
        return asked(pynvml.nvmlDeviceGetUUID, handle) is not None
    except DeviceLost:
        return False


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
