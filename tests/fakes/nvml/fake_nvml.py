"""A node of NVIDIA devices that is made up: the fake library (``nvml*.c``) plays what this object writes."""

import ctypes
import mmap
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fakes.nvml import build
from tests.fakes.nvml.state import (
    DEVICES,
    EVENTS,
    LINKS,
    MODELS,
    NO_INSTANCE,
    Device,
    Instance,
    LinkState,
    Presence,
    State,
)

XID, DOUBLE_BIT_ECC, GPU_UNAVAILABLE, RECOVERY_ACTION = 0x8, 0x2, 0x4000, 0x8000
NOT_SUPPORTED: Final = 3
TO_A_GPU, TO_A_SWITCH = 0, 2
FABRIC_COMPLETED: Final = 3


class FakeNvml:
    """Up to 16 devices in a folder: the state that the library reads, and the part of ``/sys`` that goes with it.

    Whoever opens the same folder, in this process or another, sees and changes the same node. Each change is seen by
    the processes that use the library at their next call.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sysfs = path / "sys"
        #: What ``FAKE_NVML_STATE`` has to name.
        self.file = path / "state"
        fresh = not self.file.exists()
        path.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a+b") as file:
            if fresh:
                file.truncate(ctypes.sizeof(State))
            self._memory = mmap.mmap(file.fileno(), ctypes.sizeof(State))
        self.state = State.from_buffer(self._memory)
        if fresh:
            self.state.size = ctypes.sizeof(State)
            self.state.driver_version = b"570.124.06"
            self.state.cuda_version = 12080
            self.state.driver_starts = self.state.driver_loaded = 1
            (self.sysfs / "bus/pci/devices").mkdir(parents=True)
            (self.sysfs / "bus/pci/drivers/nvidia").mkdir(parents=True)
            (self.sysfs / "module/nvidia").mkdir(parents=True)

    @property
    def library(self) -> Path:
        """The ``libnvidia-ml.so.1`` that plays this node in a process with ``environment()``."""
        return build.library()

    def environment(self) -> dict[str, str]:
        """What a process needs so that ``pynvml`` finds this node without being told."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "FAKE_NVML_STATE": str(self.file)}

    # ── devices ──────────────────────────────────────────────────────────────────────────────────────────────

    def add_device(self, model: str = "H100", *, nvlinks: str = "none", numa: int = 0, **values: Any) -> str:
        """Plug a device in; returns its uuid. ``nvlinks``: ``switched`` or ``none`` (``connect`` makes pairs).

        A process sees it in sessions that begin from now on. ``values`` are fields of ``state.Device``; a ``numa`` of
        -1 is what the kernel says where it does not know.
        """
        slot = next(i for i in range(DEVICES) if not self.state.devices[i].uuid)
        kind, device = MODELS[model], self.state.devices[slot]
        device.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{self.path.name}/{slot}/{model}')}".encode()
        device.name, device.memory_total = kind.name.encode(), kind.memory
        device.bus_id = f"00000000:{0x18 + 8 * slot:02X}:00.0".encode()
        device.minor, device.module, device.pcie_root = slot, slot + 1, slot // 2
        device.mig_supported = bool(kind.profiles)
        device.ecc_supported = device.ecc_enabled = kind.ecc
        device.event_types = XID | DOUBLE_BIT_ECC | GPU_UNAVAILABLE | RECOVERY_ACTION
        device.temperature, device.power, device.power_limit = 40, 70_000, kind.power_limit
        device.clock_reasons = 1
        for link in device.links[: kind.nvlinks]:
            link.state = LinkState.UP if nvlinks == "switched" else LinkState.DOWN
            link.remote_type = TO_A_SWITCH
        if nvlinks == "switched":
            device.fabric_state = FABRIC_COMPLETED
        for name, value in values.items():
            setattr(device, name, value)
        device.presence = Presence.PRESENT
        self._plug(device, numa)
        return device.uuid.decode()

    def device(self, uuid: str) -> Device:
        """State of a device, to be read and changed."""
        return next(each for each in self.state.devices if each.uuid.decode() == uuid)

    def devices(self) -> Iterator[Device]:
        """All that were ever plugged in, in this order."""
        return (each for each in self.state.devices if each.uuid)

    def set(self, uuid: str, **values: Any) -> None:
        """Change fields of ``state.Device``: ``set(uuid, temperature=95, remap_failed=1)``."""
        device = self.device(uuid)
        for name, value in values.items():
            getattr(device, name)
            setattr(device, name, value)

    def replace(self, uuid: str, model: str = "H100", **values: Any) -> str:
        """Put a new device in the place of one that was unplugged; returns its uuid."""
        return self.add_device(model, bus_id=bytes(self.device(uuid).bus_id), **values)

    # ── loss and return, hot plug ────────────────────────────────────────────────────────────────────────────

    def lose(self, uuid: str) -> None:
        """The device falls off the bus: it is still counted, and answers nothing."""
        self.device(uuid).presence = Presence.LOST

    def bring_back(self, uuid: str, *, to_running_sessions: bool = True) -> None:
        """It answers again; else only to sessions that begin from now on, as after a reset."""
        device = self.device(uuid)
        device.back_after = self.state.sessions
        device.presence = Presence.PRESENT if to_running_sessions else Presence.BACK

    def unplug(self, uuid: str) -> None:
        """The device is taken out: sessions that run find it lost, later ones do not find it."""
        device = self.device(uuid)
        device.presence = Presence.UNPLUGGED
        (self.sysfs / "bus/pci/drivers/nvidia" / _bus(device)).unlink(missing_ok=True)

    def plug(self, uuid: str) -> None:
        """Put one that was taken out back in."""
        device = self.device(uuid)
        device.presence = Presence.PRESENT
        self._driver_link(device)

    def _plug(self, device: Device, numa: int) -> None:
        bus = _bus(device)
        root = f"pci0000:{0x17 + 0x20 * device.pcie_root:02x}"
        real = self.sysfs / "devices" / root / f"0000:{0x17 + 0x20 * device.pcie_root:02x}:01.0" / bus
        shutil.rmtree(real, ignore_errors=True)
        real.mkdir(parents=True)
        (real / "numa_node").write_text(f"{numa}\n")
        known = self.sysfs / "bus/pci/devices" / bus
        known.unlink(missing_ok=True)
        known.symlink_to(real.resolve())
        self._driver_link(device)

    def _driver_link(self, device: Device) -> None:
        bound = self.sysfs / "bus/pci/drivers/nvidia" / _bus(device)
        if not bound.is_symlink():
            bound.symlink_to((self.sysfs / "bus/pci/devices" / _bus(device)).resolve())

    # ── MIG, NVLinks, processes ──────────────────────────────────────────────────────────────────────────────

    def partition(self, uuid: str, *profiles: str) -> list[str]:
        """Switch MIG on and make these instances in place of all others; returns their ids.

        The id of an instance follows from its place, as with the real driver: one of another profile gets it again.
        """
        device = self.device(uuid)
        known = next(kind.profiles for kind in MODELS.values() if kind.name == device.name.decode())
        assert set(profiles) <= set(known)
        ids = []
        device.mig_enabled = 1
        for place, instance in enumerate(device.instances):
            if place >= len(profiles):
                instance.used = 0
                continue
            instance.gpu_instance, instance.compute_instance = 7 + place, 0
            instance.profile = profiles[place].encode()
            instance.uuid = f"MIG-{_part(uuid, place)}".encode()
            instance.used = 1
            ids.append(instance.uuid.decode())
        return ids

    def whole(self, uuid: str) -> None:
        """Switch MIG off."""
        device = self.device(uuid)
        for instance in device.instances:
            instance.used = 0
        device.mig_enabled = 0

    def instances(self, uuid: str) -> list[Instance]:
        """MIG instances that are there."""
        return [each for each in self.device(uuid).instances if each.used]

    def connect(self, first: str, second: str, *, links: int = 4) -> None:
        """Make NVLinks between two devices, in the first places of each that are not up."""
        for here, there in ((first, second), (second, first)):
            device = self.device(here)
            free = [link for link in device.links[: self._links_of(device)] if link.state == LinkState.DOWN]
            for link in free[:links]:
                link.remote_type, link.remote_slot = TO_A_GPU, self._slot(there)
                link.state = LinkState.UP

    def link(self, uuid: str, number: int, *, up: bool) -> None:
        """Take an NVLink down, or up again."""
        self.device(uuid).links[number].state = LinkState.UP if up else LinkState.DOWN

    def run(self, uuid: str, pid: int, *, memory: int = 1 << 30, instance: str = "") -> None:
        """A process computes on a device, or on one of its MIG instances."""
        device = self.device(uuid)
        process = device.processes[device.process_count]
        process.pid, process.memory = pid, memory
        process.gpu_instance = process.compute_instance = NO_INSTANCE
        for each in self.instances(uuid):
            if each.uuid.decode() == instance:
                process.gpu_instance, process.compute_instance = each.gpu_instance, each.compute_instance
        device.process_count += 1

    def end_processes(self, uuid: str) -> None:
        """Nothing computes on a device any more."""
        self.device(uuid).process_count = 0

    # ── events, the driver, calls ────────────────────────────────────────────────────────────────────────────

    def xid(self, uuid: str, code: int, *, instance: str = "") -> None:
        """The driver reports an XID of a device, or of one of its MIG instances."""
        self.event(uuid, XID, code, instance=instance)

    def event(self, uuid: str, kind: int, data: int = 0, *, instance: str = "") -> None:
        """An event of a kind (``XID``, ``DOUBLE_BIT_ECC``, …). Sets that were made before it get it."""
        event = self.state.events[self.state.events_written % EVENTS]
        event.type, event.data, event.slot = kind, data, self._slot(uuid)
        event.gpu_instance = event.compute_instance = NO_INSTANCE
        for each in self.instances(uuid):
            if each.uuid.decode() == instance:
                event.gpu_instance, event.compute_instance = each.gpu_instance, each.compute_instance
        self.state.events_written += 1

    def stop_driver(self) -> None:
        """The driver is unloaded: no session of before is any good from now on."""
        self.state.driver_loaded = 0

    def start_driver(self, version: str = "") -> None:
        """The driver is loaded, perhaps another version."""
        if version:
            self.state.driver_version = version.encode()
        self.state.driver_starts += 1
        self.state.driver_loaded = 1
        self._load_module()

    def restart_driver(self, version: str = "") -> None:
        """The driver is loaded again in one go."""
        self.stop_driver()
        self.start_driver(version)

    def slow(self, milliseconds: float) -> None:
        """From now on each call takes this long."""
        self.state.delay_microseconds = round(milliseconds * 1000)

    def fail(self, function: str, code: int) -> None:
        """A function of NVML, or a field by its number (``field 230``), fails with this NVML_ERROR; 0: not any more."""
        named = [each for each in self.state.failures if each.function.decode() == function]
        failure = (named or [each for each in self.state.failures if not each.function])[0]
        failure.function, failure.code = function.encode(), code

    def unsupported(self, *functions: str) -> None:
        """These functions, or fields, are not supported."""
        for function in functions:
            self.fail(function, NOT_SUPPORTED)

    @property
    def calls(self) -> int:
        """How many calls of NVML there were, by all processes. Calls that wait for events are counted once."""
        return int(self.state.calls)

    @property
    def sessions(self) -> int:
        """How often a process has initialised NVML."""
        return int(self.state.sessions)

    @property
    def misuses(self) -> int:
        """How often a process did what the real library does not forgive; see ``state.h``."""
        return int(self.state.misuses)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _load_module(self) -> None:
        """The kernel makes the folder of the module, which never is the inode of one before."""
        folder = self.sysfs / "module/nvidia"
        folder.rename(folder.with_name(f"before-{self.state.driver_starts}"))
        folder.mkdir()

    def _slot(self, uuid: str) -> int:
        return next(i for i, each in enumerate(self.state.devices) if each.uuid.decode() == uuid)

    def _links_of(self, device: Device) -> int:
        return next((i for i in range(LINKS) if device.links[i].state == LinkState.ABSENT), LINKS)


def _bus(device: Device) -> str:
    """As the kernel writes it: ``0000:18:00.0``."""
    domain, _, rest = device.bus_id.decode().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _part(device: str, place: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{device}/{place}")
