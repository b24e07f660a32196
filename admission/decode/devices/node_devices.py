"""Device objects (scheduling.koordinator.sh/v1alpha1) → facts. Pure.

Muster's agent writes them, and koordlet does; what only Muster's agent reports is absent in the other's.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from admission.agent.health.conditions import UNHEALTHY, ConditionType
from admission.agent.load import Step
from admission.agent.xids import XidClass, xid_class
from admission.decode.fields import condition, one, seconds
from admission.facts.devices import DeviceFault, FaultCondition, NodeDevicesFact, ReportedDevice
from admission.wire import (
    WireCondition,
    WireDeviceAllocation,
    WireDeviceTopology,
    WireNodeDevices,
    WireReportedDevice,
    WireStruct,
)
from queues.api import names
from queues.api.reading.user_values import shortened
from queues.api.resource_names import is_extended
from queues.resources import usual_resource
from queues.workload import NO_LOAD, NodeLoad, NodeName

_GPU: Final = "gpu"
#: How high something is, as ``NodeLoad`` has it.
_STEPS: Final = {step.value: number for number, step in enumerate(Step, start=1)}
_OFFERED: Final = {"true": True, "false": False}
#: Bounds of what is kept of a Device object: any koordlet, or a user with the right, may write it.
_MOST_DEVICES: Final = 64
_MOST_ENTRIES: Final = 1024
_LONGEST: Final = 256


class _MigInstance(WireStruct):
    """What is read of an entry of ``muster.dev/mig-instances``."""

    profile: str


def node_devices_fact(found: WireNodeDevices) -> NodeDevicesFact:
    """The GPUs of a node, with what is wrong with them and which pods have them."""
    metadata = found.metadata
    of_node = (metadata.labels or {}).get(names.KOORDINATOR_GPU_VENDOR, "")
    instances = _instances((metadata.annotations or {}).get(names.MIG_INSTANCES, ""))
    # koordlet lists network cards before GPUs: the bound is on what is kept.
    gpus = [each for each in found.spec.devices or () if each.type == _GPU][:_MOST_DEVICES]
    minors, places = Counter(each.minor for each in gpus), Counter(map(_place, gpus))
    # On a node with devices of two vendors both may have one of a number: which of them a pod has is not known.
    numbers = {
        each.minor: _place(each)
        for each in gpus
        if each.minor >= 0 and minors[each.minor] == 1 and places[_place(each)] == 1
    }
    devices = [
        _device(each, _place(each), instances.get(each.id, Counter()), of_node)
        for each in gpus
        if each.minor >= 0
    ]
    return NodeDevicesFact(
        node=NodeName(metadata.name),
        devices=tuple(sorted(devices, key=lambda each: each.number)),
        holders=_holders(found.status.allocations or (), numbers),
        load=_load(metadata.labels or {}),
    )


def _load(labels: Mapping[str, str]) -> NodeLoad:
    utilisation, temperature = (
        _STEPS.get(labels.get(name, ""), 0) for name in (names.GPU_UTILISATION, names.GPU_TEMPERATURE)
    )
    return one(NodeLoad(utilisation, temperature)) if utilisation or temperature else NO_LOAD


def _resource(told: str, vendor: str) -> str:
    """What a whole device counts as: the resource that it is registered as, where that is reported and can be one.

    A reporter that states no vendor is NVIDIA's.
    """
    is_usable = len(told) <= _LONGEST and is_extended(told)
    return told if is_usable else usual_resource((vendor or "nvidia")[:_LONGEST])


def _number(text: str) -> int | None:
    """The number of a device; None if it is no number, or too large for one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else None


def _place(device: WireReportedDevice) -> int:
    """The number by which pods name a device: its place on the node where the agent reports it, else its minor."""
    told = _number((device.labels or {}).get(names.DEVICE_INDEX, ""))
    return device.minor if told is None else told


def _device(
    device: WireReportedDevice, number: int, instances: Mapping[str, int], of_node: str
) -> ReportedDevice:
    """A device. ``of_node``: the vendor of all devices of the node; "": each states its own."""
    labels, topology = device.labels or {}, device.topology or WireDeviceTopology()
    return ReportedDevice(
        id=device.id[:_LONGEST],
        number=number,
        bus_id=topology.bus_id[:_LONGEST],
        model=labels.get(names.GPU_MODEL, "")[:_LONGEST],
        fault=None if device.health else device_fault(device.id[:_LONGEST], number, device.conditions),
        island=_number(labels.get(names.NVLINK_ISLAND, "")),
        pcie_root=topology.pcie_id[:_LONGEST],
        numa=topology.node_id if topology.node_id >= 0 else None,
        is_offered=_OFFERED.get(labels.get(names.DEVICE_OFFERED, "")),
        is_partitioned=bool(instances) or labels.get(names.MIG_MODE) == "enabled",
        instances=instances,
        resource=_resource(
            labels.get(names.DEVICE_RESOURCE, ""), labels.get(names.KOORDINATOR_GPU_VENDOR, "") or of_node
        ),
    )


def _instances(text: str) -> dict[str, Counter[str]]:
    """Number of MIG instances by profile, of each device. Empty if there are none, or if the report cannot be read."""
    try:
        told = msgspec.json.decode(text or "{}", type=dict[str, tuple[_MigInstance, ...]])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return {
        device: Counter(each.profile[:_LONGEST] for each in instances[:_MOST_DEVICES])
        for device, instances in list(told.items())[:_MOST_DEVICES]
    }


def _holders(
    allocations: tuple[WireDeviceAllocation, ...], numbers: Mapping[int, int]
) -> dict[str, frozenset[int]]:
    """Numbers of devices by the uid of the pod that has them. ``numbers``: by minor."""
    held: dict[str, frozenset[int]] = {}
    for allocation in allocations:
        if allocation.type == _GPU:
            for entry in (allocation.entries or ())[:_MOST_ENTRIES]:
                minors = (entry.minors or ())[:_MOST_DEVICES]
                found = frozenset(numbers[minor] for minor in minors if minor in numbers)
                held[entry.uuid[:_LONGEST]] = held.get(entry.uuid[:_LONGEST], frozenset()) | found
    return held


#: Conditions that a person ends: by taking a mark away, or by replacing the device.
_OF_PERSONS: Final = frozenset({ConditionType.MARKED_UNHEALTHY, ConditionType.ROW_REMAP_FAILURE})
_XID: Final = re.compile(r"Xid([0-9]{1,5})")


def device_fault(device: str, number: int, conditions: tuple[WireCondition, ...] | None) -> DeviceFault:
    """The fault of an unhealthy device, with its conditions if they are those that Muster's agent writes."""
    found = condition(conditions, ConditionType.HEALTHY)
    told = found if found is not None and found.status != "True" else WireCondition()
    reason = (told.reason or "Unhealthy")[:_LONGEST]
    known = _fault_conditions({each.type: each for each in conditions or ()})
    return DeviceFault(
        device=device,
        number=number,
        reason=reason,
        message=shortened(told.message or ""),
        since=seconds(told.last_transition_time),
        # Of another reporter, or of a newer agent with a type that is not known here, only the sum is understood.
        conditions=known if known and known[0].reason == reason else (),
    )


def _fault_conditions(by_type: Mapping[str, WireCondition]) -> tuple[FaultCondition, ...]:
    """The conditions that make a device unhealthy, the worst first."""
    found = ((kind, by_type[kind]) for kind in UNHEALTHY if kind in by_type)
    return tuple(_fault_condition(kind, each) for kind, each in found if each.status == "True")


def _fault_condition(kind: ConditionType, told: WireCondition) -> FaultCondition:
    reason = (told.reason or "")[:_LONGEST]
    return FaultCondition(
        type=kind.value,
        reason=reason,
        message=shortened(told.message or ""),
        since=seconds(told.last_transition_time),
        needs_person=kind in _OF_PERSONS or (kind is ConditionType.XID_FAULT and _is_of_hardware(reason)),
    )


def _is_of_hardware(reason: str) -> bool:
    """Whether the worst XID says that the device itself is broken."""
    named = _XID.fullmatch(reason)
    return named is not None and xid_class(int(named[1])) is XidClass.HARDWARE
