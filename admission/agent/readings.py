"""What a vendor's library says of the accelerators of one node, as values. Pure: no library, no clock.

A field that is ``None`` is unknown: the library, the driver or the device does not report it. Unknown stays unknown; it
never becomes zero.
"""

from dataclasses import dataclass
from enum import StrEnum

#: Uuid of a device as its vendor writes it, for instance ``GPU-5f0c…``. It stays with the device across restarts.
DeviceId = str


class PciePath(StrEnum):
    """How far two devices are apart on the PCI bus, the nearest first."""

    #: Both on one board.
    SAME_BOARD = "same-board"
    #: One PCIe switch between them.
    SINGLE_SWITCH = "single-switch"
    #: Several PCIe switches, no host bridge.
    MULTIPLE_SWITCHES = "multiple-switches"
    #: Through a host bridge, that is: the same PCIe root complex or its neighbours.
    HOST_BRIDGE = "host-bridge"
    #: Through host bridges of one NUMA node.
    NUMA_NODE = "numa-node"
    #: Between NUMA nodes.
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How two devices of a node are connected. Each pair is there once, the smaller index first."""

    #: Indices of the two devices, as in ``DeviceReading.index``.
    between: tuple[int, int]
    #: Active NVLinks (or the vendor's own kind of link) between them; through a switch: of the device with fewer.
    nvlinks: int = 0
    #: Version of these links; 0: there are none.
    version: int = 0
    #: Whether they go through an NVSwitch.
    switched: bool = False
    #: None if unknown.
    path: PciePath | None = None
    #: Whether one may read the other's memory. None if unknown.
    peer_access: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A part of a device that MIG has made: one compute instance in its GPU instance."""

    id: DeviceId
    #: As the device plugin names its resource: ``1g.10gb``, ``3g.40gb``.
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_bytes: int
    #: Slices of the device: the first one, and how many. None if unknown.
    start: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRemapping:
    """Rows of memory that were replaced by spare ones."""

    correctable: int
    uncorrectable: int
    #: True: a reset of the device makes the remapping effective.
    pending: bool
    #: True: there is no spare row left. The device has to be replaced.
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EccErrors:
    """Errors of memory since the driver was loaded."""

    corrected: int
    uncorrected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The NVLink domain across nodes that a device is in."""

    cluster: str
    clique: int
    #: Whether the fabric manager has finished with it.
    complete: bool


class RecoveryAction(StrEnum):
    """What the driver asks for so that a device works again."""

    NONE = "none"
    RESET = "reset-device"
    REBOOT = "reboot-node"
    DRAIN = "drain-peers"
    DRAIN_AND_RESET = "drain-and-reset"
    RECOVER_FABRIC = "recover-fabric"
    RESET_BUS = "reset-bus"
    REBOOT_SYSTEM = "reboot-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What changes all the time: it is for metrics and thresholds, and is not written to the API server."""

    #: Degrees Celsius.
    temperature: int | None = None
    #: Milliwatts.
    power: int | None = None
    power_limit: int | None = None
    #: MHz.
    sm_clock: int | None = None
    memory_clock: int | None = None
    #: Reasons for lower clocks: ``hw-slowdown``, ``sw-thermal``, ``hw-thermal``, ``hw-power-brake``, …
    throttling: tuple[str, ...] = ()
    #: Per cent of the last sample period.
    utilisation: int | None = None
    memory_used_bytes: int | None = None
    #: Bytes since the driver was loaded, over all links.
    nvlink_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that computes on a device."""

    pid: int
    memory_bytes: int | None = None
    #: The MIG instance that it uses. None for the whole device.
    instance: DeviceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """One device. Of a lost one only ``id``, ``index``, ``minor`` and what does not change is known, from before."""

    id: DeviceId
    #: Place among the devices of the node, from 0: what ``muster.dev/devices`` names.
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
    ecc_enabled: bool | None = None
    ecc: EccErrors | None = None
    remapping: RowRemapping | None = None
    fabric: Fabric | None = None
    #: Numbers of NVLinks that are there but not active.
    links_down: tuple[int, ...] = ()
    recovery: RecoveryAction | None = None
    processes: tuple[Process, ...] = ()
    telemetry: Telemetry = Telemetry()
    #: True: it was there and does not answer any more ("fallen off the bus").
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """All devices of one vendor on a node, by index."""

    #: As Koordinator's label has it: ``nvidia``.
    vendor: str
    driver_version: str = ""
    #: ``BOOT/LOADS/MODULE``, the last two only where they are known: the boot of the node; how often this agent saw the
    #: driver come back (a smaller number than before is that of an agent that started again, and says nothing); and a
    #: sign of the kernel that is another one after each load of the driver. "": unknown.
    driver_start: str = ""
    #: ``12.8``, ROCm's or Level Zero's version; "": unknown.
    runtime_version: str = ""
    #: When the reading began, in seconds since the epoch. None if unknown.
    began: float | None = None
    devices: tuple[DeviceReading, ...] = ()
    links: tuple[Link, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """Something that happened to a device."""

    kind: EventKind
    #: None if the library does not say which device it was; then it counts for each.
    device: DeviceId | None
    #: The XID; None for other kinds.
    code: int | None = None
    #: The MIG instance concerned. None for the whole device.
    gpu_instance: int | None = None
    compute_instance: int | None = None
