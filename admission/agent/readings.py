"""What a vendor's library says of the accelerators of one node, as values. Pure: no library, no clock.

A field that is ``None`` is unknown: the library, the driver or the device does not report it. Unknown stays unknown; it
never becomes zero.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

#: Uuid of a device as its vendor writes it, for instance ``GPU-5f0c…``. It stays with the device across restarts.
DeviceId = str

#: What an NVLink leads to, if not to another device of the node.
SWITCH: Final = "switch"


class MigInstance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a device that MIG has made."""

    id: DeviceId
    #: As the device plugin names its resource: ``1g.10gb``, ``3g.40gb``.
    profile: str
    gpu_instance: int


class RowRemapping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of memory that were replaced by spare ones."""

    #: True: a reset of the device makes the remapping effective.
    pending: bool
    #: True: there is no spare row left. The device has to be replaced.
    failed: bool


class Fabric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The NVLink domain across nodes that a device is in."""

    cluster: str
    clique: int
    #: Whether the fabric manager has finished with it.
    complete: bool


class RecoveryAction(StrEnum):
    """What the driver asks for so that a device works again, in the order of NVML's numbers."""

    NONE = "none"
    RESET = "reset-device"
    REBOOT = "reboot-node"
    DRAIN = "drain-peers"
    DRAIN_AND_RESET = "drain-and-reset"
    RECOVER_FABRIC = "recover-fabric"
    RESET_BUS = "reset-bus"
    REBOOT_SYSTEM = "reboot-system"


class Telemetry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changes all the time: it is for metrics and thresholds; only steps of it are written (``load``)."""

    #: Degrees Celsius.
    temperature: int | None = None
    #: Milliwatts.
    power: int | None = None
    power_limit: int | None = None
    #: Reasons for lower clocks: ``hw-slowdown``, ``sw-thermal``, ``hw-thermal``, ``hw-power-brake``, …
    throttling: tuple[str, ...] = ()
    #: Per cent of the last sample period.
    utilisation: int | None = None
    memory_used_bytes: int | None = None


class DeviceReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device. Of a lost one only what does not change is known, from before."""

    id: DeviceId
    #: Place among the devices of the node, from 0: what ``muster.dev/devices`` names. A library counts the devices that
    #: it has; the agent has each device keep its number (``KnownDevices``).
    index: int
    #: Number of its device file (``/dev/nvidia0``). None if unknown.
    minor: int | None = None
    #: Place on the board. None if unknown.
    module: int | None = None
    #: As the vendor names it: ``NVIDIA H100 80GB HBM3``.
    model: str
    memory_bytes: int
    #: ``0000:18:00.0``.
    bus_id: str = ""
    #: The root complex that it hangs on: ``pci0000:17``; "": unknown.
    pcie_root: str = ""
    numa_node: int | None = None
    #: None if the device has no MIG, or does not report it.
    mig_enabled: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    #: Errors of memory since the driver was loaded. None if the device does not count them.
    uncorrected_errors: int | None = None
    remapping: RowRemapping | None = None
    fabric: Fabric | None = None
    #: What its active NVLinks lead to: bus ids of devices of the node, and SWITCH.
    linked_to: frozenset[str] = frozenset()
    #: Numbers of NVLinks that are there but not active.
    links_down: tuple[int, ...] = ()
    recovery: RecoveryAction | None = None
    #: Pids of the processes that compute on it, in the agent's own pid namespace.
    processes: tuple[int, ...] = ()
    telemetry: Telemetry = Telemetry()
    #: True: it was there and does not answer any more ("fallen off the bus").
    lost: bool = False


def as_lost(device: DeviceReading) -> DeviceReading:
    """The device as it is reported while it does not answer: with what does not change.

    Its MIG instances too: the device plugin goes on offering them.
    """
    return DeviceReading(
        id=device.id,
        index=device.index,
        minor=device.minor,
        module=device.module,
        model=device.model,
        memory_bytes=device.memory_bytes,
        bus_id=device.bus_id,
        pcie_root=device.pcie_root,
        numa_node=device.numa_node,
        mig_enabled=device.mig_enabled,
        mig_instances=device.mig_instances,
        lost=True,
    )


class NodeReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All devices of one vendor on a node, by index."""

    #: As Koordinator's label has it: ``nvidia``.
    vendor: str
    driver_version: str = ""
    #: Another text after each boot of the node and each load of the driver. "": unknown.
    driver_start: str = ""
    #: Version of CUDA, ``12.8``; "": unknown.
    runtime_version: str = ""
    #: When the reading began, in seconds since the epoch. None if unknown.
    began: float | None = None
    devices: tuple[DeviceReading, ...] = ()


def all_lost(reading: NodeReading) -> NodeReading:
    """A reading whose devices all are lost."""
    return replace(reading, devices=tuple(map(as_lost, reading.devices)))


class EventKind(StrEnum):
    """What a library reports by itself."""

    #: An error code of NVIDIA's driver.
    XID = "xid"
    #: An uncorrectable error of memory.
    ECC_UNCORRECTED = "ecc-uncorrected"
    #: The driver asks for another recovery action than before: read the device again.
    RECOVERY_CHANGED = "recovery-changed"
    #: The device does not answer any more.
    LOST = "lost"


class DeviceEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to a device."""

    kind: EventKind
    #: None if the library does not say which device it was; then it counts for each.
    device: DeviceId | None
    #: The XID; None for other kinds.
    code: int | None = None
