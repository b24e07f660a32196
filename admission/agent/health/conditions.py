"""Conditions of a device, and what the next assessment has to know besides them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from admission.agent.readings import DeviceId, EventKind
from queues.text_format import rfc3339


class ConditionType(StrEnum):
    """Aspects of a device's health: ``HEALTHY`` is the sum, the others are problems, true while they last."""

    HEALTHY = "Healthy"
    #: It does not answer any more.
    LOST = "Lost"
    #: A row of memory is broken and there is no spare one.
    ROW_REMAP_FAILURE = "RowRemapFailure"
    #: The driver reported XIDs after which the device has to be recovered.
    XID_FAULT = "XidFault"
    #: The driver asks for a recovery: of the device, its peers, the fabric or the node.
    RECOVERY_NEEDED = "RecoveryNeeded"
    #: Memory had errors that could not be corrected.
    ECC_UNCORRECTED = "EccUncorrected"
    #: An NVLink that should be active is not.
    LINK_DOWN = "LinkDown"
    #: It was above 95 °C and has not been below 90 °C since.
    OVERHEATED = "Overheated"
    #: A person called it unhealthy.
    MARKED_UNHEALTHY = "MarkedUnhealthy"
    #: It became healthy and unhealthy again and again.
    FLAPPING = "Flapping"
    #: A reset makes remapped rows effective. The device is healthy: it can be reset when it is idle next.
    RESET_PENDING = "ResetPending"


#: Problems of the device itself with which it takes no work, the worst first.
FAULTS: Final = (
    ConditionType.LOST,
    ConditionType.ROW_REMAP_FAILURE,
    ConditionType.XID_FAULT,
    ConditionType.RECOVERY_NEEDED,
    ConditionType.ECC_UNCORRECTED,
    ConditionType.LINK_DOWN,
    ConditionType.OVERHEATED,
)
#: All problems with which it takes no work, the worst first.
UNHEALTHY: Final = (*FAULTS, ConditionType.MARKED_UNHEALTHY, ConditionType.FLAPPING)
PROBLEMS: Final = (*UNHEALTHY, ConditionType.RESET_PENDING)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong with a device."""

    #: In one word of letters and digits, such as ``Xid79``.
    reason: str
    #: For people.
    message: str


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One aspect of a device's health."""

    type: ConditionType
    status: bool
    reason: str
    message: str = ""
    #: Whole seconds since the epoch, as documents have it. It moves when ``status`` does, and never else.
    since: int


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault that was reported once and that no reading shows. It stays until a reading shows a recovery."""

    kind: EventKind
    #: The XID; None for other kinds.
    xid: int | None = None
    #: When it was reported last, to the minute; seconds since the epoch.
    last: int
    #: Whether the driver has asked for a recovery since.
    asked: bool = False


class DeviceHealth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Health of one device: its conditions, and what the next assessment has to know besides them."""

    #: ``Healthy``, and every problem that there is or was, by type.
    conditions: tuple[Condition, ...]
    faults: tuple[Fault, ...] = ()
    #: When it last became faulty or well, the oldest first; three at most.
    changes: tuple[int, ...] = ()
    #: NVLinks that were never active since the device was first seen. None if it was not seen yet.
    idle_links: tuple[int, ...] | None = None

    @property
    def healthy(self) -> bool:
        """Whether the device takes new work."""
        return self.has(ConditionType.HEALTHY)

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of a type. None if there never was such a problem."""
        return next((each for each in self.conditions if each.type is kind), None)

    def has(self, kind: ConditionType) -> bool:
        """Whether a condition is true."""
        found = self.condition(kind)
        return found is not None and found.status


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """What one assessment leaves to the next one."""

    devices: Mapping[DeviceId, DeviceHealth] = field(default_factory=dict)
    #: Start of the driver by vendor, as in ``NodeReading.driver_start``.
    driver_starts: Mapping[str, str] = field(default_factory=dict)


def condition_documents(health: DeviceHealth) -> list[dict[str, str]]:
    """The conditions as ``spec.devices[].conditions`` of a Device object has them."""
    return [
        {
            "type": each.type.value,
            "status": str(each.status),
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": rfc3339(each.since),
        }
        for each in health.conditions
    ]
