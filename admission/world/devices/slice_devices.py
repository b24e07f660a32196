"""What a node offers of the devices in its ResourceSlices: those that are unhealthy take no new work. Pure.

Two sources say that such a device is unhealthy: its driver, by a taint, and the agent of the node, which knows the
device by its uuid or its place on the PCI bus. A device that both call unhealthy counts once. Where the driver reports
neither of some devices of a resource, these are counted like those of a device plugin (``reported_devices``).

ResourceFlavors name DeviceClasses, and DeviceClasses select devices: so it follows what a device counts as.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from admission.decode.fields import one
from admission.facts.cluster import FlavorFact, NodeFact
from admission.facts.devices import (
    DeviceClassFact,
    NodeDevicesFact,
    ReportedDevice,
    ResourceSliceFact,
    SliceDevice,
)
from admission.world.admissions import replaced
from admission.world.devices.reported_devices import with_reported
from queues.resources import NOTHING, WHOLE, Resources, device


class DeviceClasses:
    """DeviceClasses, and the resources that flavors say their devices count as."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClassFact] = {}
        self._flavors: dict[str, FlavorFact] = {}

    def put_class(self, name: str, fact: DeviceClassFact | None) -> bool:
        """A DeviceClass appeared, changed or went away. Whether that changes what devices count as."""
        replaced(self._classes, name, fact)
        return bool(self._named(name))

    def put_flavor(self, name: str, fact: FlavorFact | None) -> bool:
        """A ResourceFlavor appeared, changed or went away. Whether that changes what devices count as."""
        before = self._flavors.pop(name, None)
        if fact is not None and fact.device_classes:
            self._flavors[name] = fact
        named = [each.device_classes if each is not None else {} for each in (before, fact)]
        return named[0] != named[1]

    def _named(self, device_class: str) -> list[str]:
        """The resources that flavors say the devices of a class count as."""
        return sorted(
            {
                flavor.device_classes[device_class]
                for flavor in self._flavors.values()
                if device_class in flavor.device_classes
            }
        )

    def resource_of(self, device_class: str) -> tuple[str | None, str]:
        """The resource that devices of a class count as, and why there is none, as found and expected."""
        named = self._named(device_class)
        if not named:
            return None, (
                f"DeviceClass {device_class}: found no ResourceFlavor that names it, expected one with "
                f"deviceClasses: {{{device_class}: …}}; ask for another class, or an administrator to count it"
            )
        if len(named) > 1:
            return None, (
                f"DeviceClass {device_class}: found ResourceFlavors that count it as {' and as '.join(named)}, "
                "expected one resource; an administrator has to correct them"
            )
        known = self._classes.get(device_class)
        if known is None:
            return None, (
                f"DeviceClass {device_class}: found none of that name, expected the one that a ResourceFlavor "
                "names; ask for another class, or an administrator to create it"
            )
        if known.problem:
            return None, f"DeviceClass {device_class}: {known.problem}; an administrator has to change it"
        return named[0], ""

    def resources(self) -> frozenset[str]:
        """Resources that claimed devices count as."""
        named = (flavor.device_classes.values() for flavor in self._flavors.values())
        return frozenset(resource for each in named for resource in each)

    def counted(
        self, slices: Iterable[ResourceSliceFact], which: Callable[[SliceDevice], bool] | None = None
    ) -> Resources:
        """What the devices of these slices count as: each once for every resource with a class that selects it.

        ``which``: only these devices; None for all.
        """
        named = {name for flavor in self._flavors.values() for name in flavor.device_classes}
        classes = [
            (self._classes[name], resource)
            for name in named
            if (resource := self.resource_of(name)[0]) is not None
        ]
        found: Counter[str] = Counter()
        for part in slices:
            for each in part.devices if which is None else filter(which, part.devices):
                found.update(
                    {
                        resource: WHOLE
                        for known, resource in classes
                        if known.driver in ("", part.driver) and known.attributes <= each.attributes
                    }
                )
        return Resources(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAmounts:
    """What the devices of a node's slices count as."""

    #: All of them.
    known: Resources = NOTHING
    #: Those with a taint that keeps pods off.
    tainted: Resources = NOTHING
    #: These, and those that the agent calls unhealthy.
    unhealthy: Resources = NOTHING
    #: Those whose device in the agent's report is known.
    named: Resources = NOTHING


def of_newest_generation(slices: Iterable[ResourceSliceFact]) -> list[ResourceSliceFact]:
    """The slices that count: those of the newest generation of each pool."""
    slices, newest = list(slices), dict[tuple[str, str], int]()
    for each in slices:
        pool = (each.driver, each.pool)
        newest[pool] = max(newest.get(pool, 0), each.generation)
    return [each for each in slices if each.generation == newest[each.driver, each.pool]]


def slice_amounts(
    slices: Sequence[ResourceSliceFact], classes: DeviceClasses, reported: NodeDevicesFact | None
) -> SliceAmounts:
    """What the devices of these slices count as, all of the newest generation."""
    devices = reported.devices if reported is not None else ()
    known = _ids(devices)
    faulty = _ids(each for each in devices if each.fault is not None)

    def is_unhealthy(device: SliceDevice) -> bool:
        return device.is_tainted or not faulty.isdisjoint(device.ids)

    return SliceAmounts(
        known=classes.counted(slices),
        tainted=classes.counted(slices, lambda device: device.is_tainted),
        unhealthy=classes.counted(slices, is_unhealthy),
        named=classes.counted(slices, lambda device: not known.isdisjoint(device.ids)),
    )


def with_devices(fact: NodeFact, amounts: SliceAmounts, reported: NodeDevicesFact | None) -> NodeFact:
    """The node with its devices: as many as it or its slices announce, less unhealthy ones."""
    offered = _with_slices(fact, amounts)
    if reported is None:
        return offered
    left = _with_named(with_reported(offered, reported), with_reported(fact, reported), amounts)
    return replace(left, faulty=one(_faulty(offered, left))) if left.faults else left


def _faulty(offered: NodeFact, left: NodeFact) -> Resources:
    """What a node does not offer because of unhealthy devices, beyond what is withheld, with the amount of each single
    device where it shares them."""
    amounts = {name: offered.allocatable[name] - left.allocatable[name] for name in offered.allocatable}
    for resource in offered.allocatable:
        if device(resource, 0) in offered.allocatable:
            known = (offered.allocatable[resource] + offered.withheld[resource]) // WHOLE
            rows = [device(resource, number) for number in range(known)]
            amounts |= {row: WHOLE - left.allocatable[row] for row in rows}
    return Resources({name: units for name, units in amounts.items() if units > 0})


def _with_slices(fact: NodeFact, amounts: SliceAmounts) -> NodeFact:
    """The node with as many devices as it announces itself, or more. Those with a taint are withheld, as a device
    plugin withholds those that it calls unhealthy."""
    known = amounts.known
    if known.fits(fact.allocatable):
        return fact
    offered = fact.allocatable.largest(known - amounts.tainted)
    has = Resources({name: max(fact.allocatable[name] + fact.withheld[name], known[name]) for name in known})
    withheld = {**fact.withheld, **{name: has[name] - offered[name] for name in known}}
    return replace(fact, allocatable=one(offered), withheld=one(Resources(withheld)))


def _with_named(left: NodeFact, by_plugin: NodeFact, amounts: SliceAmounts) -> NodeFact:
    """What is left of a node: exactly, of resources whose devices are all known; of others what both ways of counting
    leave. ``by_plugin``: the node without slices."""
    healthy, offered = amounts.known - amounts.unhealthy, dict(left.allocatable)
    for name in amounts.known:
        exact = max(by_plugin.allocatable[name], healthy[name])
        is_known = amounts.named[name] == amounts.known[name]
        offered[name] = exact if is_known else min(exact, left.allocatable[name])
    return replace(left, allocatable=one(Resources(offered)))


def _ids(devices: Iterable[ReportedDevice]) -> frozenset[str]:
    return frozenset(name for each in devices for name in each.names)
