"""Conditions of a device of a Device object → why it takes no new work. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from admission.agent.health.conditions import UNHEALTHY, ConditionType
from admission.agent.xids import XidClass, xid_class
from admission.decode.fields import condition, seconds
from admission.facts.devices import DeviceFault, FaultCondition
from admission.wire import WireCondition
from queues.api.reading.user_values import shortened

#: Characters of a reason that are kept: any user with rights on Devices may write it.
_LONGEST: Final = 256
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
