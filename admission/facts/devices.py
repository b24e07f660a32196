"""Facts about devices: those that pods claim (dynamic resource allocation), and those that node agents report."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.resources import GPU
from queues.workload import NO_LOAD, NodeLoad, NodeName


class AllocatedDevice(NamedTuple):
    """A device of a ResourceSlice that a ResourceClaim has."""

    driver: str
    pool: str
    #: Its name in the pool.
    device: str

    @property
    def of(self) -> tuple[str, str]:
        """Driver and name of its pool."""
        return self.driver, self.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimFact:
    """A ResourceClaim, or what a ResourceClaimTemplate makes: devices for a pod."""

    namespace: str
    name: str
    #: Numbers of devices by DeviceClass: as they were allocated, else as they are asked for.
    devices: tuple[tuple[str, int], ...] = ()
    #: Why they cannot be counted as they are asked for, as found and expected; "": they can.
    problem: str = ""
    #: Uid of the first pod that it is reserved for; "": none.
    user: str = ""
    #: Devices that were allocated, without those to which only administrators' access was given.
    allocated: tuple[AllocatedDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassFact:
    """A DeviceClass: which devices it selects."""

    name: str
    #: "": of all drivers.
    driver: str = ""
    #: Attributes that a device must have, as in ``SliceDevice.attributes``.
    attributes: frozenset[tuple[str, str]] = frozenset()
    #: Why its selectors cannot be read, as found and expected; "": they can.
    problem: str = ""


class SliceDevice(NamedTuple):
    """A device of a ResourceSlice."""

    #: What classes select by: ``domain/name``, type and value.
    attributes: frozenset[tuple[str, str]]
    #: What the agent of the node may call it, or the device that it is a part of: uuid, place on the PCI bus, in lower
    #: case. Empty: the driver reports nothing that Muster knows.
    ids: tuple[str, ...] = ()
    #: Whether a taint keeps pods off it.
    is_tainted: bool = False
    #: By which claims name it, in its pool.
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSliceFact:
    """Devices of one driver on one node: a ResourceSlice."""

    node: NodeName
    driver: str
    pool: str
    #: Slices of older generations than the pool's newest count no more.
    generation: int
    devices: tuple[SliceDevice, ...] = ()


class PodResourceClaim(NamedTuple):
    """An entry of a pod's ``resourceClaims``."""

    name: str
    #: The ResourceClaimTemplate of its namespace that a claim is made from for each pod; "": it names a claim.
    template: str = ""
    #: The ResourceClaim: the one it names, or the one that was made for it; "": not made yet.
    claim: str = ""


class FaultCondition(NamedTuple):
    """A condition that makes a device unhealthy."""

    #: Its type, such as ``XidFault``, and its reason, such as ``Xid79``.
    type: str
    reason: str
    #: As a sentence; "": none.
    message: str = ""
    #: Since when (seconds); 0: not known.
    since: int = 0
    #: No reset and no reboot is meant to end it: a person has to do something.
    needs_person: bool = False


class DeviceFault(NamedTuple):
    """Why a device takes no new work."""

    #: Uuid of the device, as its vendor writes it.
    device: str
    #: The number by which pods name it on its node (``muster.dev/devices``).
    number: int
    #: In one word, such as ``Xid79``, and as a sentence: of the worst condition.
    reason: str
    message: str
    #: Since when (seconds); 0: not known.
    since: int = 0
    #: All conditions that make it unhealthy, the worst first. Empty if only the reason is known.
    conditions: tuple[FaultCondition, ...] = ()

    @property
    def name(self) -> str:
        """What it is called as a whole among accepted faults, by its worst condition."""
        return f"{self.device}/{self.reason}"

    @property
    def names(self) -> tuple[str, ...]:
        """What its conditions are called among accepted faults; without conditions, the fault as a whole."""
        return tuple(map(self._name_of, self.conditions)) or (self.name,)

    def beyond(self, accepted: Container[str]) -> "DeviceFault | None":
        """What of it is not accepted, named by the worst condition of that; None for nothing.

        An older Muster accepted it as a whole, by its worst condition.
        """
        if self.name in accepted:
            return None
        return self._only(tuple(each for each in self.conditions if self._name_of(each) not in accepted))

    def for_person(self) -> "DeviceFault | None":
        """What of it no recovery Job ends; None for nothing."""
        needing = tuple(each for each in self.conditions if each.needs_person)
        return self._only(needing) if needing else None

    def _name_of(self, condition: FaultCondition) -> str:
        return f"{self.device}/{condition.type}/{condition.reason}"

    def _only(self, conditions: tuple[FaultCondition, ...]) -> "DeviceFault | None":
        """The fault with these of its conditions; None if it has conditions, and none of these is left."""
        if conditions == self.conditions:
            return self
        if not conditions:
            return None
        worst = conditions[0]
        return self._replace(
            reason=worst.reason, message=worst.message, since=worst.since or self.since, conditions=conditions
        )

    @property
    def why(self) -> str:
        """The reason with its sentence, for people."""
        return self.reason + (f" ({self.message.rstrip('.')})" if self.message else "")

    def told(self, where: str) -> str:
        """For people: which device, and why. ``where``: the node, and the pod that uses it."""
        return f"GPU {self.number} {where}, is unhealthy: {self.why}"

    def __str__(self) -> str:
        return f"GPU {self.number}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDevice:
    """A device of a node, as an agent on the node reports it."""

    id: str
    #: The number by which pods name it (``muster.dev/devices``).
    number: int
    #: Place on the PCI bus: ``0000:18:00.0``; "": not known.
    bus_id: str = ""
    #: As a label value: ``NVIDIA-H100-80GB-HBM3``; "": not known.
    model: str = ""
    #: None if it is healthy.
    fault: DeviceFault | None = None
    #: Devices with the same number are joined by NVLinks; None if not known.
    island: int | None = None
    #: PCIe root complex, such as ``pci0000:17``; "" if not known. NUMA node; None if not known.
    pcie_root: str = ""
    numa: int | None = None
    #: Whether MIG has cut it in parts: it is then offered by its instances.
    is_partitioned: bool = False
    #: Number of MIG instances by profile (``1g.10gb``).
    instances: Mapping[str, int] = field(default_factory=dict)
    #: The extended resource that it counts as while it is whole.
    resource: str = GPU
    #: Whether the kubelet may give it to a pod, of an unhealthy one; None if not known.
    is_offered: bool | None = None

    @property
    def names(self) -> frozenset[str]:
        """What drivers may call it: uuid, place on the PCI bus, in lower case."""
        return frozenset(name.lower() for name in (self.id, self.bus_id) if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevicesFact:
    """The devices of a node: a Device object (Koordinator's kind, written by Muster's agent or by koordlet)."""

    node: NodeName
    #: By number.
    devices: tuple[ReportedDevice, ...] = ()
    #: Numbers of the devices that pods have, by the pod's uid.
    holders: Mapping[str, frozenset[int]] = field(default_factory=dict)
    #: How busy and hot they are, for policies that score nodes.
    load: NodeLoad = NO_LOAD

    @property
    def has_faults(self) -> bool:
        """Whether one of the devices is unhealthy."""
        return any(each.fault is not None for each in self.devices)
