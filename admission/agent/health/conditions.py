"""Conditions of a device, what is remembered besides them, and how a Device object carries both over a restart."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self

from admission.agent.readings import DeviceId, EventKind, NodeReading
from queues.api.names import HEALTH_MEMORY
from queues.json_values import list_at, mapping_at, text_at, value_at


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with a device."""

    #: In one word of letters and digits, such as ``Xid79``.
    reason: str
    #: For people.
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One aspect of a device's health."""

    type: ConditionType
    status: bool
    reason: str
    message: str = ""
    #: Whole seconds since the epoch, as documents have it. It moves when ``status`` does, and never else.
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that was reported once and that no reading shows. It stays until a reading shows a recovery."""

    kind: EventKind
    #: The XID; None for other kinds.
    xid: int | None = None
    #: When it was reported last, to the minute; seconds since the epoch.
    last: int
    #: Whether the driver has asked for a recovery since.
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """Health of one device: its conditions, and what the next assessment has to know besides them."""

    healthy: bool
    #: ``Healthy``, and every problem that there is or was, by type.
    conditions: tuple[Condition, ...]
    faults: tuple[Fault, ...] = ()
    #: When it last became faulty or well, the oldest first; three at most.
    changes: tuple[int, ...] = ()
    #: NVLinks that were never active since the device was first seen. None if it was not seen yet.
    idle_links: tuple[int, ...] | None = None

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

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self:
        """The state that a stored Device object carries, also one that koordlet or a person wrote.

        ``document``: None for an empty state. What cannot be read counts as absent.
        """
        found = _json(value_at(document, "metadata", "annotations", HEALTH_MEMORY))
        memory = mapping_at(found)
        # Without an annotation nothing is known; a device that it leaves out has nothing to be remembered.
        nothing = {"idleLinks": ()} if isinstance(found, Mapping) else {}
        remembered = mapping_at(memory, "devices")
        starts = {
            vendor: start for vendor, start in mapping_at(memory, "drivers").items() if isinstance(start, str)
        }
        devices: dict[DeviceId, DeviceHealth] = {}
        for device in list_at(document, "spec", "devices"):
            conditions = tuple(_read_conditions(value_at(device, "conditions")))
            if conditions and isinstance(identity := value_at(device, "id"), str):
                devices[identity] = _remembered(conditions, {**nothing, **mapping_at(remembered, identity)})
        return cls(devices=devices, driver_starts=starts)


# ── as parts of a Device object ─────────────────────────────────────────────────────────────────────────────────

#: Names of a fault's fields in the annotation.
_KINDS: Final = {kind.value: kind for kind in EventKind}
_TYPES: Final = {kind.value: kind for kind in ConditionType}
_STATUSES: Final = {"True": True, "False": False}
_XID_REASON: Final = re.compile(r"Xid(\d{1,5})")


def condition_documents(health: DeviceHealth) -> list[dict[str, str]]:
    """The conditions as ``spec.devices[].conditions`` has them."""
    return [
        {
            "type": each.type.value,
            "status": str(each.status),
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": time_text(each.since),
        }
        for each in health.conditions
    ]


def memory_text(health: Mapping[DeviceId, DeviceHealth], readings: Sequence[NodeReading]) -> str:
    """What ``from_document`` needs besides the conditions, for the annotation of the Device."""
    devices = {name: memory for name, each in sorted(health.items()) if (memory := _memory(each))}
    starts = {each.vendor: each.driver_start for each in readings if each.driver_start}
    memory = {key: value for key, value in (("devices", devices), ("drivers", starts)) if value}
    return json.dumps(memory, separators=(",", ":"), sort_keys=True)


def time_text(seconds: int) -> str:
    """``2026-11-21T02:30:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _memory(health: DeviceHealth) -> dict[str, Any]:
    faults = [
        {"kind": each.kind.value, "xid": each.xid, "last": each.last, "asked": each.asked}
        for each in health.faults
    ]
    memory: dict[str, Any] = {"faults": faults, "changes": list(health.changes)}
    memory = {key: value for key, value in memory.items() if value}
    if health.idle_links != ():
        memory["idleLinks"] = health.idle_links
    return memory


def _remembered(conditions: tuple[Condition, ...], memory: Mapping[str, Any]) -> DeviceHealth:
    health = DeviceHealth(
        healthy=any(each.type is ConditionType.HEALTHY and each.status for each in conditions),
        conditions=conditions,
        faults=tuple(_read_faults(memory.get("faults"))),
        changes=_numbers(memory.get("changes"))[-3:],
        idle_links=None if memory.get("idleLinks") is None else _numbers(memory["idleLinks"]),
    )
    if health.has(ConditionType.XID_FAULT) and not health.faults:
        return _with_fault_of_condition(health)
    return health


def _with_fault_of_condition(health: DeviceHealth) -> DeviceHealth:
    """The health with the XID that its condition names, for a Device whose annotation was taken away."""
    found = health.condition(ConditionType.XID_FAULT)
    if found is None or not (named := _XID_REASON.fullmatch(found.reason)):
        return health
    return replace(health, faults=(Fault(kind=EventKind.XID, xid=int(named[1]), last=found.since),))


def _read_conditions(found: Any) -> Iterator[Condition]:
    """The conditions of known types, by type; of two of one type the first."""
    read: dict[str, Condition] = {}
    for each in map(mapping_at, list_at(found)):
        kind, status = _TYPES.get(text_at(each, "type")), _STATUSES.get(text_at(each, "status"))
        since = _seconds(each.get("lastTransitionTime"))
        if kind is not None and status is not None and since is not None and kind not in read:
            reason, message = text_at(each, "reason"), text_at(each, "message")
            read[kind] = Condition(type=kind, status=status, reason=reason, message=message, since=since)
    return (read[kind] for kind in sorted(read))


def _read_faults(found: Any) -> Iterator[Fault]:
    for each in map(mapping_at, list_at(found)):
        kind, xid = _KINDS.get(text_at(each, "kind")), each.get("xid")
        numbered = isinstance(xid, int) if kind is EventKind.XID else xid is None
        if kind is not None and numbered and isinstance(last := each.get("last"), int):
            yield Fault(kind=kind, xid=xid, last=last, asked=each.get("asked") is True)


def _seconds(found: Any) -> int | None:
    try:
        told = datetime.fromisoformat(text_at(found))
        return int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


def _numbers(found: Any) -> tuple[int, ...]:
    return tuple(each for each in list_at(found) if isinstance(each, int) and not isinstance(each, bool))


def _json(found: Any) -> Any:
    try:
        return json.loads(found) if isinstance(found, str) else None
    except (ValueError, RecursionError):
        return None
