"""What a node offers of the devices that its agent reports: unhealthy ones take no new work. Pure.

Two sources say that a device is unhealthy: the device plugin, which takes it out of the node's ``allocatable`` (its
``capacity`` keeps it), and the agent, by a Device object. They may say it at different times, of different devices, or
one of them not at all. A node offers what both allow; a device that both leave out counts once. The agent tells which
devices the plugin leaves out where the kubelet's list does; else they are taken for those that the agent calls
unhealthy. If the plugin knows fewer devices than are reported (one is kept for a display), nothing tells which: they
are not taken for the unhealthy ones. The devices of each resource are counted by themselves: those of a vendor, or of a
model that its plugin names.

Where NVLinks do not join all healthy devices (pairs, boards, cards without NVLink), each of them is offered by
its number, so that pods get those that are linked best.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.decode.fields import one
from admission.facts.cluster import NodeFact
from admission.facts.devices import DeviceFault, NodeDevicesFact, ReportedDevice
from queues.api.reading.device_shares import VGPU
from queues.resources import GPU, WHOLE, Resources, device
from queues.workload import DevicePlace, DevicePlaces

#: What other device plugins call devices than the usual one of their vendor: Intel's those with the driver i915,
#: Volcano's those that it shares.
_OTHERWISE: Final = {"gpu.intel.com/xe": "gpu.intel.com/i915", GPU: VGPU}
#: The end of what NVIDIA's plugin calls devices that it shares (``renameByDefault``).
_SHARED: Final = ".shared"
#: Numbers of devices are below it: each is a row of the table of all nodes.
_MOST_NUMBERS: Final = 64


def with_reported(fact: NodeFact, reported: NodeDevicesFact) -> NodeFact:
    """The node without the unhealthy devices, with their faults, and with how the others are linked."""
    reported = _as_offered(fact, reported)
    faults = tuple(each.fault for each in reported.devices if each.fault is not None)
    linked = _linked(fact, reported)
    if not faults and not linked:
        return fact if reported.load == fact.load else replace(fact, load=reported.load)
    amounts = _amounts(fact, reported) if faults else dict(fact.allocatable)
    for places in linked:
        if not places.in_parts:
            amounts |= {device(places.resource, place.number): WHOLE for place in places.each}
    return replace(
        fact,
        allocatable=one(Resources(amounts)),
        devices=linked,
        load=reported.load,
        faults=faults,
        offers_faulty_devices=_offers_faulty(fact, reported),
        faulty_pods=_faulty_pods(reported.holders, _not_accepted(fact, faults)),
    )


def _as_offered(fact: NodeFact, reported: NodeDevicesFact) -> NodeDevicesFact:
    """The devices by the resources that the node offers: without a registration Intel's driver is not known, nor that
    the plugin of Volcano's vGPUs offers the devices."""
    offered = {*fact.allocatable, *fact.withheld}
    instead = {
        usual: other for usual, other in _OTHERWISE.items() if usual not in offered and other in offered
    }
    if not instead:
        return reported
    devices = (replace(each, resource=instead.get(each.resource, each.resource)) for each in reported.devices)
    return replace(reported, devices=tuple(devices))


def _amounts(fact: NodeFact, reported: NodeDevicesFact) -> dict[str, int]:
    """What the node offers without the unhealthy devices."""
    amounts, by_resource = dict(fact.allocatable), _by_resource(reported)
    for resource, devices in by_resource.items():
        if _in_parts(fact, resource):
            amounts |= _one_by_one(amounts[resource], fact.withheld[resource], resource, devices)
        elif resource in amounts:
            whole = _whole_units(devices)
            amounts[resource] = _offered(amounts[resource], fact.withheld[resource], devices, whole)
    for profile, units in _units_by_profile(reported).items():
        if profile in amounts:
            amounts[profile] = _offered(amounts[profile], fact.withheld[profile], reported.devices, units)
    return amounts


def _by_resource(reported: NodeDevicesFact) -> dict[str, tuple[ReportedDevice, ...]]:
    """The devices that count as each resource."""
    return {
        resource: tuple(each for each in reported.devices if each.resource == resource)
        for resource in sorted({each.resource for each in reported.devices})
    }


def _in_parts(fact: NodeFact, resource: str) -> bool:
    """Whether a node shares its devices, and has an amount for each of them."""
    return device(resource, 0) in fact.allocatable


def _linked(fact: NodeFact, reported: NodeDevicesFact) -> tuple[DevicePlaces, ...]:
    """How the whole healthy devices of each resource are linked, as far as that is reported."""
    found = (_places(fact, resource, devices) for resource, devices in _by_resource(reported).items())
    return one(tuple(places for places in found if places is not None))


def _places(fact: NodeFact, resource: str, devices: tuple[ReportedDevice, ...]) -> DevicePlaces | None:
    """How the whole healthy devices of a resource are linked.

    None if the agent does not report it for all of them, or if they cannot be distinguished: the plugin offers some of
    them several times, or they have no numbers of their own.
    """
    whole = [each for each in devices if not each.is_partitioned]
    well = [each for each in whole if each.fault is None]
    if resource not in fact.allocatable or not well:
        return None
    in_parts, islands = _in_parts(fact, resource), {each.island for each in well}
    if None in islands:
        return None
    if len(islands) == 1:
        return one(DevicePlaces(resource=resource, in_parts=in_parts))
    numbers = {each.number for each in whole}
    known = (fact.allocatable[resource] + fact.withheld[resource]) // WHOLE
    if known > len(whole) or len(numbers) < len(whole) or max(numbers) >= _MOST_NUMBERS:
        return None
    if in_parts and max(numbers) >= known:
        return None  # its devices are numbered in another way
    places = (
        DevicePlace(each.number, each.island, each.pcie_root, each.numa)
        for each in sorted(well, key=lambda each: each.number)
        if each.island is not None
    )
    return one(DevicePlaces(resource=resource, each=tuple(places), in_parts=in_parts))


def _whole_units(devices: tuple[ReportedDevice, ...]) -> tuple[int, ...]:
    """How many units of their resource each device is offered as.

    Where every device is cut in parts, the plugin may call the MIG instances by the resource of whole devices.
    """
    whole = tuple(0 if each.is_partitioned else 1 for each in devices)
    return whole if any(whole) else tuple(sum(each.instances.values()) for each in devices)


def _units_by_profile(reported: NodeDevicesFact) -> dict[str, tuple[int, ...]]:
    """How many MIG instances each device is offered as, by the resource of each profile (``nvidia.com/mig-1g.10gb``).

    These are the same for all models: two profiles of one name are one resource. NVIDIA's plugin may give the instances
    that it shares a name of their own.
    """
    found: dict[str, list[int]] = {}
    for index, each in enumerate(reported.devices):
        domain = each.resource.partition("/")[0]
        for profile, count in each.instances.items():
            for shared in ("", _SHARED):
                units = found.setdefault(f"{domain}/mig-{profile}{shared}", [0] * len(reported.devices))
                units[index] = count
    return {resource: tuple(units) for resource, units in found.items()}


def _offered(
    allocatable: int, withheld: int, devices: Iterable[ReportedDevice], units: tuple[int, ...]
) -> int:
    """What is left of an amount: each unhealthy device takes its units from all that the plugin knows, and what the
    plugin withholds is among these. The plugin may offer each unit several times (time-slicing)."""
    known, reported = (allocatable + withheld) // WHOLE, sum(units)
    if not reported:
        return allocatable
    shares = max(1, -(-known // reported))
    faulty = _faulty_units(devices, units)
    # Both hold, and together also while one of the two sources has reported a change and the other one has not yet.
    left = min(known - faulty.total() * shares, allocatable // WHOLE - faulty[True] * shares)
    return min(allocatable, max(left, 0) * WHOLE)


def _faulty_units(devices: Iterable[ReportedDevice], units: Iterable[int]) -> Counter[bool | None]:
    """Units of the unhealthy devices: that the kubelet may give, may not, and for which it is not known (None)."""
    found: Counter[bool | None] = Counter()
    for each, count in zip(devices, units, strict=True):
        if each.fault is not None:
            found[each.is_offered] += count
    return found


def _offers_faulty(fact: NodeFact, reported: NodeDevicesFact) -> bool:
    """Whether the kubelet may give an unhealthy device. Where it is not known which devices the plugin holds back, it
    holds back the unhealthy ones first."""
    held_back = {name: fact.withheld[name] // WHOLE for name in fact.withheld if "/" in name}
    offered: list[tuple[str, tuple[ReportedDevice, ...], tuple[int, ...]]] = [
        (resource, devices, _whole_units(devices)) for resource, devices in _by_resource(reported).items()
    ]
    offered += [(profile, reported.devices, units) for profile, units in _units_by_profile(reported).items()]
    elsewhere = 0
    for resource, devices, units in offered:
        faulty, withheld = _faulty_units(devices, units), held_back.pop(resource, 0)
        known = fact.allocatable[resource] // WHOLE + withheld
        if faulty[True] and known:
            return True
        if not known:
            elsewhere += faulty.total()
        elif faulty[None] and withheld < faulty.total() * max(1, -(-known // sum(units))):
            return True
    # Claimed devices are counted as the resources of their classes.
    return elsewhere > sum(held_back.values())


def _one_by_one(
    allocatable: int, withheld: int, resource: str, devices: tuple[ReportedDevice, ...]
) -> dict[str, int]:
    """The amounts of a node that shares its devices. It has a row for each device; which ones the plugin leaves out
    only the agent knows."""
    count = (allocatable + withheld) // WHOLE
    faulty = {each.number for each in devices if each.fault is not None}
    rows = {device(resource, index): 0 if index in faulty else WHOLE for index in range(count)}
    # A number that has no row may be that of a device with another row: the sum leaves it out all the same.
    left = _offered(allocatable, withheld, devices, (1,) * len(devices))
    return {**rows, resource: min(left, sum(rows.values()))}


def _not_accepted(fact: NodeFact, faults: Iterable[DeviceFault]) -> list[DeviceFault]:
    left = (fault.beyond(fact.accepted) for fault in faults)
    return [fault for fault in left if fault is not None]


def _faulty_pods(
    holders: Mapping[str, frozenset[int]], faults: Iterable[DeviceFault]
) -> dict[str, DeviceFault]:
    by_number = {fault.number: fault for fault in faults}
    found = {uid: sorted(numbers & by_number.keys()) for uid, numbers in holders.items()}
    return {uid: by_number[numbers[0]] for uid, numbers in found.items() if numbers}
