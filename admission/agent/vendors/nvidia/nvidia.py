"""NVIDIA's devices of a node, as the agent reads them."""

from pathlib import Path
from typing import Any, Final

import pynvml

from admission.agent.readings import DeviceEvent, DeviceId, DeviceReading, NodeReading
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia import library as nvml
from admission.agent.vendors.nvidia.device import Device
from admission.agent.vendors.nvidia.events import Events
from admission.agent.vendors.nvidia.library import VENDOR, DeviceLost, SessionOver, asked
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed

#: The kernel has another text here after each boot of the node.
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: As the kernel calls the driver.
_DRIVER: Final = "nvidia"
#: NVML is started again when a device is missing, in case that brings it back: after 2, 4, 8 such reads, and then after
#: each 16th.
MOST_READS_BETWEEN_STARTS: Final = 16


class _Session:
    """NVML from its start to its end, with what does not change in between."""

    def __init__(self, sysfs: Path, bound: frozenset[str]) -> None:
        self._sysfs = sysfs
        #: Devices that the driver had when NVML was started. NVML sees no other ones.
        self.bound = bound
        # Not before the start: from now on the driver is held and cannot be loaded again without an error that is seen.
        self.module = pci.module_load(_DRIVER, sysfs)
        self.events = Events()
        self.driver_version = asked(pynvml.nvmlSystemGetDriverVersion) or ""
        cuda = asked(pynvml.nvmlSystemGetCudaDriverVersion) or 0
        self.cuda_version = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""
        self._devices: dict[DeviceId, Device] = {}

    def devices(self) -> tuple[DeviceReading, ...]:
        """Devices that answer, in the order of the library: by their bus ids. Raises SessionOver."""
        count = asked(pynvml.nvmlDeviceGetCount)
        if count is None:
            raise SessionOver(why="it does not say how many devices there are")
        known, self._devices = self._devices, {}
        readings: list[DeviceReading] = []
        for place in range(count):
            try:
                handle = asked(pynvml.nvmlDeviceGetHandleByIndex, place)
                uuid = asked(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
                if uuid:
                    device = known.get(uuid) or self._new(handle, uuid)
                    readings.append(device.read(len(readings)))
                    self._devices[uuid] = device
            except DeviceLost:
                continue  # it may have stopped answering in the middle
        return tuple(readings)

    def _new(self, handle: Any, uuid: DeviceId) -> Device:
        """A device that was not there in the last read: events of it have to be asked for."""
        self.events.stale = True
        return Device(handle, uuid, self._sysfs)


class Nvidia:
    """Devices of NVIDIA on this node: the Protocol ``Vendor``.

    Nothing is written to a device. ``library``: path of ``libnvidia-ml.so.1``. If None, the dynamic linker finds it.
    ``sysfs``: where the kernel's ``/sys`` is. ``boot_id``: the file that names the boot of the node.
    """

    def __init__(
        self, library: Path | None = None, sysfs: Path = Path("/sys"), boot_id: Path = BOOT_ID
    ) -> None:
        self._library = library
        self._sysfs = sysfs
        self._boot = _content(boot_id)
        self._session: _Session | None = None
        #: Bus ids of the devices that were there since the agent started, without those that were replaced.
        self._seen: dict[DeviceId, str] = {}
        #: Of these, those that the last reading does not have; and how many readings since all were there.
        self._missing: set[DeviceId] = set()
        self._reads_with_missing = 0
        #: How often the driver went away under a session. It tells loads apart where the kernel shows no module.
        self._driver_ends = 0

    def read(self) -> NodeReading:
        """All devices that answer. Errors as in ``Vendor``; see ``DriverReplaced``.

        A device is hot plugged when the kernel's list of bound devices changes: NVML sees it only when started again.
        """
        if self._session is not None and self._should_start_again(self._session):
            self.close()
        session = self._session
        reading = self._read_or_start_again()
        if session is self._session and self._missing_in(reading) - self._missing:
            # Was the device reset, or replaced? A new session knows.
            try:
                self.close()
                reading = self._read_or_start_again()
            except VendorFailed:
                self.close()
        self._missing = self._missing_in(reading)
        self._reads_with_missing = self._reads_with_missing + 1 if self._missing else 0
        return reading

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """As in ``Vendor``. That the session is over is for the next ``read`` to find."""
        if self._session is None:
            return ()
        try:
            return self._session.events.wait(seconds)
        except SessionOver:
            return ()

    def close(self) -> None:
        """As in ``Vendor``."""
        if self._session is not None:
            self._session.events.free()
            nvml.stop()
        self._session = None

    def _should_start_again(self, session: _Session) -> bool:
        """Whether devices may have come that this session of NVML does not see."""
        if pci.bound_devices(_DRIVER, self._sysfs) != session.bound:
            return True
        reads = self._reads_with_missing
        return reads > 1 and (reads & (reads - 1) == 0 or reads % MOST_READS_BETWEEN_STARTS == 0)

    def _missing_in(self, reading: NodeReading) -> set[DeviceId]:
        """Devices that a reading does not have. One in whose place is another one is replaced, not missing."""
        here = {device.id: device.bus_id for device in reading.devices}
        places = set(here.values())
        self._seen = {uuid: bus_id for uuid, bus_id in self._seen.items() if bus_id not in places} | here
        return self._seen.keys() - here.keys()

    def _read_or_start_again(self) -> NodeReading:
        try:
            return self._read()
        except SessionOver:
            self._driver_ends += 1
            self.close()
        except DeviceLost:
            self.close()
        try:
            return self._read()
        except (SessionOver, DeviceLost) as error:
            raise VendorFailed(vendor=VENDOR, why=str(error)) from error

    def _read(self) -> NodeReading:
        session = self._session = self._session or self._started()
        devices = session.devices()
        if not (devices or self._seen):
            self.close()  # so that the next read counts again
            raise VendorAbsent(vendor=VENDOR, why="the driver runs, but there is no device")
        return NodeReading(
            vendor=VENDOR,
            driver_version=session.driver_version,
            driver_start=f"{self._boot}/{session.module or self._driver_ends or ''}" if self._boot else "",
            runtime_version=session.cuda_version,
            devices=devices,
        )

    def _started(self) -> _Session:
        bound = pci.bound_devices(_DRIVER, self._sysfs)
        try:
            nvml.start(self._library)
        except VendorAbsent as error:
            if not self._seen:
                raise
            raise VendorFailed(vendor=VENDOR, why=f"it was there before, and now: {error}") from error
        try:
            return _Session(self._sysfs, bound)
        except SessionOver:
            nvml.stop()
            raise


def _content(file: Path) -> str:
    """The text of a small file; "": it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
