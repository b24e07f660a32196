"""What NVML reports by itself: XIDs, uncorrectable errors, devices that went away."""

import ctypes
from contextlib import suppress
from typing import Any, Final

import pynvml

from admission.agent.readings import DeviceEvent, DeviceId, EventKind
from admission.agent.vendors.nvidia.library import VENDOR, DeviceLost, Library, SessionOver, asked
from admission.agent.vendors.vendor import VendorFailed

#: Seconds that one call waits. NVML cannot be stopped in the meantime.
SLICE: Final = 0.5
#: Events of one answer; the rest comes with the next.
MOST_EVENTS: Final = 256

_KINDS: Final = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.ECC_UNCORRECTED,
    pynvml.nvmlEventTypeGpuUnavailableError: EventKind.LOST,
    pynvml.nvmlEventTypeGpuRecoveryAction: EventKind.RECOVERY_CHANGED,
}
_WANTED: Final = sum(_KINDS)
#: The number of a GPU or compute instance that stands for the whole device.
_NO_INSTANCE: Final = 0xFFFFFFFF


class Events:
    """Events of all devices. They are registered again when NVML was started again, and when a device came back."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._set: Any = None
        self._generation = 0
        #: Sessions of the set, and of the last that was found to be over.
        self._session = self._over = 0
        #: Devices that are registered, by the address that their handle is.
        self._devices: dict[int, tuple[DeviceId, Any]] = {}

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """Events since the last call; after ``seconds`` without one, or when NVML has to be left: none.

        Before NVML was started it waits for that. Raises VendorFailed: the driver has gone, or NVML fails.
        """
        with self._library.waiting(seconds) as runs:
            if not runs:
                return ()
            try:
                return self._wait(seconds)
            except (SessionOver, DeviceLost) as error:
                self._over = self._session
                self._forget()
                raise VendorFailed(vendor=VENDOR, why=str(error)) from error
            finally:
                if self._library.stopping:
                    self._free()

    def _wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        if self._over == self._library.session:
            self._library.pause(seconds)  # until the thread that reads has started NVML again
            return ()
        events: list[DeviceEvent] = []
        left = seconds
        while not events and not self._library.stopping:
            if self._generation != self._library.generation:
                events += self._register()
                continue
            if left <= 0:
                break
            part = min(left, SLICE)
            left -= part
            if self._devices:
                events += self._events(part)
            else:
                self._library.pause(part)
        return tuple(events)

    def _events(self, seconds: float) -> list[DeviceEvent]:
        """Events of one slice, all that are there when the first has come."""
        events: list[DeviceEvent] = []
        while len(events) < MOST_EVENTS:
            try:
                data = pynvml.nvmlEventSetWait(self._set, 0 if events else round(seconds * 1000))
            except pynvml.NVMLError as error:
                return events or self._after(error)  # what is wrong is said again by the next wait
            events.append(self._event(data))
        return events

    def _after(self, error: Any) -> list[DeviceEvent]:
        """What an error of a wait means. Raises SessionOver, VendorFailed."""
        if error.value == pynvml.NVML_ERROR_TIMEOUT:
            return []
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            lost = [uuid for uuid, handle in self._devices.values() if not _answers(handle)]
            if lost:
                # Without them: this set would say the same for ever.
                return [*self._register(), *(DeviceEvent(kind=EventKind.LOST, device=uuid) for uuid in lost)]
        if error.value in (pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise SessionOver(why=str(error)) from error
        self._free()
        raise VendorFailed(vendor=VENDOR, why=f"waiting for events: {error}") from error

    def _event(self, data: Any) -> DeviceEvent:
        kind = _KINDS.get(data.eventType, EventKind.RECOVERY_CHANGED)
        known = self._devices.get(_address(data.device))
        return DeviceEvent(
            kind=kind,
            device=known[0] if known else None,
            code=data.eventData if kind is EventKind.XID else None,
            gpu_instance=_instance(data.gpuInstanceId),
            compute_instance=_instance(data.computeInstanceId),
        )

    def _register(self) -> list[DeviceEvent]:
        """Register all devices that answer with a new set; returns what the old one still had."""
        generation, remaining = self._library.generation, self._remaining()
        self._free()
        self._session = self._library.session
        devices: dict[int, tuple[DeviceId, Any]] = {}
        self._set = asked(pynvml.nvmlEventSetCreate)
        if self._set is None:
            raise VendorFailed(vendor=VENDOR, why="it makes no event set")
        for place in range(asked(pynvml.nvmlDeviceGetCount) or 0):
            try:
                registered = self._register_device(place)
            except DeviceLost:
                continue
            if registered is not None:
                devices[_address(registered[1])] = registered
        self._devices, self._generation = devices, generation
        return remaining

    def _register_device(self, place: int) -> tuple[DeviceId, Any] | None:
        """One device. None if it has no events, or does not answer."""
        handle = asked(pynvml.nvmlDeviceGetHandleByIndex, place)
        uuid: DeviceId = asked(pynvml.nvmlDeviceGetUUID, handle) or "" if handle is not None else ""
        types = (asked(pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & _WANTED if uuid else 0
        if not types:
            return None
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, types, self._set)
        except pynvml.NVMLError:
            return None
        return uuid, handle

    def _is_usable(self) -> bool:
        """Whether there is a set, of the session that runs. NVML has freed those of sessions before."""
        return self._set is not None and self._session == self._library.session

    def _remaining(self) -> list[DeviceEvent]:
        """Events that the set still has."""
        events: list[DeviceEvent] = []
        while self._is_usable() and len(events) < MOST_EVENTS:
            try:
                events.append(self._event(pynvml.nvmlEventSetWait(self._set, 0)))
            except pynvml.NVMLError:
                break
        return events

    def _free(self) -> None:
        if self._is_usable():
            with suppress(pynvml.NVMLError):  # it went with its session
                pynvml.nvmlEventSetFree(self._set)
        self._forget()

    def _forget(self) -> None:
        self._set, self._generation = None, 0
        self._devices = {}


def _answers(handle: Any) -> bool:
    try:
        return asked(pynvml.nvmlDeviceGetUUID, handle) is not None
    except DeviceLost:
        return False


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else number
