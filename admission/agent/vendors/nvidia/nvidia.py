"""NVIDIA's devices of a node, as the agent reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pynvml

from admission.agent.readings import (
    DeviceEvent,
    DeviceId,
    DeviceReading,
    Link,
    MigInstance,
    NodeReading,
    Process,
)
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia import device as device_reads
from admission.agent.vendors.nvidia.device import HEALTH, FixedFacts, device_facts
from admission.agent.vendors.nvidia.events import Events
from admission.agent.vendors.nvidia.fields import field_values
from admission.agent.vendors.nvidia.library import VENDOR, DeviceLost, Library, SessionOver, asked
from admission.agent.vendors.nvidia.links import Linked, NvLinks, Ways
from admission.agent.vendors.nvidia.mig import MigInstances
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed

#: The kernel has another text here after each boot of the node.
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: As the kernel calls the driver.
_DRIVER: Final = "nvidia"
#: NVML is started again when a device is lost, in case that brings it back; after 2, 4, 8 such reads, then each 16th.
MOST_READS_BETWEEN_STARTS: Final = 16
#: The newest first; an older driver has the other one.
_PROCESS_CALLS: Final = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
)


@dataclass(slots=True)
class _Known:
    """A device that was seen since the agent started. It keeps its index, whatever other devices come and go."""

    index: int
    facts: FixedFacts
    #: Session of NVML in which the facts were read.
    session: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class _Present:
    """A device that answered in this read."""

    reading: DeviceReading
    linked: Linked


class Nvidia:
    """Devices of NVIDIA on this node: the Protocol ``Vendor``.

    ``read`` and ``wait`` may be called by two threads, each by one. Nothing is written to a device. ``library``: path
    of ``libnvidia-ml.so.1``. If None, the dynamic linker finds it. ``sysfs``: where the kernel's ``/sys`` is.
    ``boot_id``: the file that names the boot of the node.
    """

    def __init__(
        self, library: Path | None = None, sysfs: Path = Path("/sys"), boot_id: Path = BOOT_ID
    ) -> None:
        self._library = Library(library)
        self._sysfs = sysfs
        self._boot = _content(boot_id)
        #: The driver was found to have gone; how often it has come back since the agent started.
        self._driver_went = False
        self._driver_loads = 0
        #: The kernel's sign of this load of the driver, as of the start of the session.
        self._module = ""
        self._events = Events(self._library)
        self._known: dict[DeviceId, _Known] = {}
        self._mig = MigInstances()
        self._nvlinks = NvLinks()
        self._ways = Ways()
        self._session = 0
        self._versions = ("", "")
        self._bound: frozenset[str] = frozenset()
        self._reads_with_lost = 0
        #: Devices that the last reading called lost.
        self._lost: set[DeviceId] = set()
        #: Devices that do not answer in this read.
        self._gone: set[DeviceId] = set()
        #: Whether a device was seen for the first time, or again, in this read.
        self._came_back = False

    def read(self) -> NodeReading:
        """All devices as they are now, those that are lost among them. Errors as in ``Vendor``; see ``DriverReplaced``.

        A device is hot plugged when the kernel's list of bound devices changes: NVML sees it only when started again.
        """
        if self._library.running and self._should_start_again():
            self._library.stop()
        session = self._session
        reading = self._read_or_start_again()
        if session == self._session and self._newly_lost(reading):
            reading = self._read_of_new_session(reading)
        self._lost = {device.id for device in reading.devices if device.lost}
        self._reads_with_lost = self._reads_with_lost + 1 if self._lost else 0
        return reading

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        """Events since the last call. Empty after ``seconds``, or when NVML is started again. Raises VendorFailed."""
        return self._events.wait(seconds)

    def close(self) -> None:
        """Let go of the driver: as long as NVML runs, devices cannot be reset nor the driver be unloaded.

        The next ``read`` starts it again.
        """
        self._library.stop()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read_or_start_again(self) -> NodeReading:
        try:
            return self._read()
        except SessionOver:
            self._driver_went = True
            self._library.stop()
        except DeviceLost:
            self._library.stop()
        try:
            return self._read()
        except (SessionOver, DeviceLost) as error:
            raise VendorFailed(vendor=VENDOR, why=str(error)) from error

    def _read_of_new_session(self, reading: NodeReading) -> NodeReading:
        """Start NVML again: was the device reset, or replaced? The reading itself where it does not start now."""
        try:
            self._library.stop()
            return self._read_or_start_again()
        except VendorFailed:
            return reading

    def _newly_lost(self, reading: NodeReading) -> bool:
        return any(device.lost and device.id not in self._lost for device in reading.devices)

    def _should_start_again(self) -> bool:
        """Whether devices may have come that this session of NVML does not see."""
        if pci.bound_devices(_DRIVER, self._sysfs) != self._bound:
            return True
        reads = self._reads_with_lost
        return reads > 1 and (reads & (reads - 1) == 0 or reads % MOST_READS_BETWEEN_STARTS == 0)

    def _start(self) -> bool:
        """Start NVML where it does not run; True: this is the first read since it was started."""
        if not self._library.running:
            self._bound = pci.bound_devices(_DRIVER, self._sysfs)
        try:
            self._library.start()
        except VendorAbsent as error:
            if not self._known:
                raise
            self._driver_went = True
            raise VendorFailed(vendor=VENDOR, why=f"it was there before, and now: {error}") from error
        if self._session == self._library.session:
            return False
        if self._driver_went:
            self._driver_went = False
            self._driver_loads += 1
        self._session = self._library.session
        # Not before: from now on the driver is held and cannot be loaded again without an error that is seen.
        self._module = pci.module_load(_DRIVER, self._sysfs)
        self._mig.forget()
        self._versions = _versions()
        return True

    # ── one read ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> NodeReading:
        begins = self._start()
        self._came_back = False
        found = self._handles()
        self._gone = self._known.keys() - {uuid for uuid, _ in found}
        present = [each for each in map(self._present, found) if each is not None]
        if self._came_back and not begins:
            self._library.device_came_back()
        answered = {each.reading.id for each in present}
        for uuid, known in self._known.items():
            known.lost = uuid not in answered
        if not self._known:
            self._library.stop()  # so that the next read counts again
            raise VendorAbsent(vendor=VENDOR, why="the driver runs, but there is no device")
        devices = [each.reading for each in present]
        devices += [_lost(known) for known in self._known.values() if known.lost]
        return NodeReading(
            vendor=VENDOR,
            driver_version=self._versions[0],
            driver_start=self._driver_start(),
            runtime_version=self._versions[1],
            devices=tuple(sorted(devices, key=lambda device: device.index)),
            links=self._links(present),
        )

    def _driver_start(self) -> str:
        if self._boot and self._module:
            return f"{self._boot}/{self._driver_loads}/{self._module}"
        if self._boot and self._driver_loads:
            return f"{self._boot}/{self._driver_loads}"
        return self._boot

    def _handles(self) -> list[tuple[DeviceId, Any]]:
        """Devices that answer, in the order of the library: by their bus ids."""
        count = asked(pynvml.nvmlDeviceGetCount)
        if count is None:
            raise SessionOver(why="it does not say how many devices there are")
        found = []
        for place in range(count):
            try:
                handle = asked(pynvml.nvmlDeviceGetHandleByIndex, place)
                uuid = asked(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
            except DeviceLost:
                continue
            if uuid:
                found.append((uuid, handle))
        return found

    def _present(self, found: tuple[DeviceId, Any]) -> _Present | None:
        """One device. None if it stopped answering in the middle."""
        uuid, handle = found
        try:
            known = self._recognise(uuid, handle)
            return self._device(known, handle)
        except DeviceLost:
            return None

    def _recognise(self, uuid: DeviceId, handle: Any) -> _Known:
        """What does not change of a device; asked again when it is new, or back, or NVML was started again."""
        known = self._known.get(uuid)
        if known is not None and not known.lost and known.session == self._session:
            return known
        self._nvlinks.forget(uuid)
        facts = device_facts(handle, uuid, self._sysfs)
        known = _Known(known.index if known else self._index(facts), facts, self._session)
        self._known[uuid] = known
        self._came_back = True
        return known

    def _index(self, facts: FixedFacts) -> int:
        """Index of a new device: of the lost one in whose place it is, which is replaced; else the first free one."""
        for uuid in self._gone & self._known.keys():
            if self._known[uuid].facts.bus_id == facts.bus_id:
                return self._known.pop(uuid).index
        taken = {known.index for known in self._known.values()}
        return next(index for index in range(len(taken) + 1) if index not in taken)

    def _device(self, known: _Known, handle: Any) -> _Present:
        facts, uuid = known.facts, known.facts.id
        values = field_values(handle, (*HEALTH, *self._nvlinks.fields(uuid, handle)))
        active, inactive, version = self._nvlinks.of(uuid, handle, values)
        mig_enabled = device_reads.mig_enabled(handle)
        instances = self._mig.of(uuid, handle, facts.memory_bytes) if mig_enabled else ()
        reading = replace(
            _unchanging(known),
            mig_enabled=mig_enabled,
            mig_instances=instances,
            ecc_enabled=device_reads.ecc_enabled(handle, values),
            ecc=device_reads.ecc_errors(handle, values),
            remapping=device_reads.row_remapping(handle, values),
            fabric=device_reads.fabric(handle),
            links_down=inactive,
            recovery=device_reads.recovery_action(values),
            processes=processes(handle, instances),
            telemetry=device_reads.telemetry(handle, values),
        )
        linked = Linked(
            id=uuid,
            index=known.index,
            handle=handle,
            bus_id=facts.bus_id,
            active=active,
            version=version,
        )
        return _Present(reading, linked)

    def _links(self, present: Sequence[_Present]) -> tuple[Link, ...]:
        depends_on = (
            self._session,
            tuple(
                (each.reading.id, each.reading.mig_enabled, each.reading.fabric, tuple(each.linked.active))
                for each in present
            ),
        )
        return self._ways.between([each.linked for each in present], depends_on)


def _versions() -> tuple[str, str]:
    driver = asked(pynvml.nvmlSystemGetDriverVersion) or ""
    runtime = asked(pynvml.nvmlSystemGetCudaDriverVersion) or 0
    return driver, f"{runtime // 1000}.{runtime % 1000 // 10}" if runtime else ""


def _unchanging(known: _Known) -> DeviceReading:
    facts = known.facts
    return DeviceReading(
        id=facts.id,
        index=known.index,
        minor=facts.minor,
        module=facts.module,
        model=facts.model,
        memory_bytes=facts.memory_bytes,
        bus_id=facts.bus_id,
        pcie_root=facts.pcie_root,
        numa_node=facts.numa_node,
    )


def _lost(known: _Known) -> DeviceReading:
    return replace(_unchanging(known), lost=True)


def _content(file: Path) -> str:
    """The text of a small file; "": it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def processes(handle: Any, instances: Sequence[MigInstance]) -> tuple[Process, ...]:
    """Processes that compute on a device, by pid as the agent's own pid namespace has it: the agent needs ``hostPID``.

    Empty also where the driver does not report them. Raises SessionOver, DeviceLost.
    """
    answers: list[Any] = next(
        (told for told in (asked(call, handle) for call in _PROCESS_CALLS) if told is not None), []
    )
    parts = {(each.gpu_instance, each.compute_instance): each.id for each in instances}
    return tuple(
        Process(
            pid=each.pid,
            memory_bytes=each.usedGpuMemory,
            instance=parts.get((each.gpuInstanceId, each.computeInstanceId)),
        )
        for each in sorted(answers, key=lambda each: int(each.pid))
    )
