"""What is wrong with a device now: by its reading, and by faults that were reported and are not over. Pure."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from admission.agent.health.conditions import (
    FAULTS,
    ConditionType,
    DeviceHealth,
    Fault,
    Problem,
)
from admission.agent.readings import (
    SWITCH,
    DeviceEvent,
    DeviceReading,
    EventKind,
    NodeReading,
    RecoveryAction,
)
from admission.agent.xids import XidClass, xid, xid_class

#: Degrees Celsius: above the first a device is overheated, until it is below the second.
HOT: Final = 95
COOL: Final = 90
#: Seconds without another one after which a fault is over, where nothing else can show a recovery.
QUIET: Final = 600
#: Seconds within which a fault that is reported again is not written down again.
_GRAIN: Final = 60

FALLEN: Final = "FallenOffTheBus"
_COUNTED: Final = "UncorrectedErrors"
_TOLD_ERROR: Final = "UncorrectedErrorReported"
#: What is done after XIDs of a class, the worst class first; those that leave a device healthy have no row.
AFTER: Final = {
    XidClass.HARDWARE: "Check the hardware, and replace the device if it comes again.",
    XidClass.REBOOT: "Reboot the node.",
    XidClass.RESET: "Reset the device.",
    XidClass.UNKNOWN: "It counts as one after which the device has to be reset.",
}
_RECOVERIES: Final = {
    RecoveryAction.RESET: ("ResetDevice", "a reset of the device"),
    RecoveryAction.REBOOT: ("RebootNode", "a reboot of the node"),
    RecoveryAction.DRAIN: ("DrainPeers", "that work on its peers ends"),
    RecoveryAction.DRAIN_AND_RESET: ("DrainAndReset", "that work on the device ends, and then a reset"),
    RecoveryAction.RECOVER_FABRIC: ("RecoverFabric", "a recovery of the NVLink domain"),
    RecoveryAction.RESET_BUS: ("ResetBus", "a reset of its PCI bus"),
    RecoveryAction.REBOOT_SYSTEM: ("RebootSystem", "a reboot of the whole system"),
}


def is_fault(event: DeviceEvent) -> bool:
    """Whether a device takes no work after an event. That the recovery action has changed is shown by the reading."""
    match event.kind:
        case EventKind.RECOVERY_CHANGED:
            return False
        case EventKind.XID:
            return event.code is not None and not xid_class(event.code).is_healthy
        case _:
            return True


def faults_after(
    faults: Iterable[Fault],
    events: Iterable[DeviceEvent],
    device: DeviceReading,
    *,
    restarted: bool,
    now: int,
) -> tuple[Fault, ...]:
    """Faults of a device that are not over, after these events and with this reading.

    A fault is over when the driver asked for a recovery and does not any more, or the device came back, or the driver
    or the node was started again (``restarted``). Where none of this can be seen it is over after a quiet time.
    """
    asks = device.recovery not in (None, RecoveryAction.NONE)
    # A clock that was set back must not keep a device unhealthy.
    present = [replace(each, last=min(each.last, now)) for each in faults]
    kept = {(each.kind, each.xid): each for each in present if not _is_over(each, device, restarted, now)}
    for event in events:
        if is_fault(event):
            key = (event.kind, event.code)
            told = kept.get(key)
            if told is None or now - told.last >= _GRAIN:
                kept[key] = Fault(kind=event.kind, xid=event.code, last=now)
    told_of = (replace(each, asked=each.asked or asks) for each in kept.values())
    return tuple(sorted(told_of, key=lambda each: (each.kind, each.xid or 0)))


def _is_over(fault: Fault, device: DeviceReading, restarted: bool, now: int) -> bool:
    kind = _class(fault.xid)
    if restarted or (fault.asked and device.recovery is RecoveryAction.NONE):
        return True
    if kind.is_healthy:
        return True  # reported to an agent with another table
    if device.lost or now - fault.last < QUIET or device.recovery not in (None, RecoveryAction.NONE):
        return False
    match kind:
        case XidClass.HARDWARE:
            return False
        case XidClass.REBOOT:
            return device.recovery is RecoveryAction.NONE
        case _:
            return True


def _class(xid: int | None) -> XidClass:
    """The class of an XID. ``xid``: None for a fault of another kind, after which a reset is needed."""
    return XidClass.RESET if xid is None else xid_class(xid)


# ── NVLinks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def idle_links(device: DeviceReading, before: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """NVLinks that were never active since the device was first seen: a card without a bridge has such.

    ``before``: as they were, None if the device was not seen yet, or only as lost.
    """
    if device.lost:
        return before
    down = set(device.links_down)
    return tuple(sorted(down if before is None else down & set(before)))


def _links_down(device: DeviceReading, node: NodeReading, idle: Iterable[int]) -> tuple[int, ...] | None:
    """NVLinks that are down and should not be: they were active, or are on a device of the same model on a switch.

    None if that is not known: the device that a link leads to may be the one that does not work, and MIG switches
    links off on some models.
    """
    if device.lost:
        return None
    if device.mig_enabled or (SWITCH not in device.linked_to and any(each.lost for each in node.devices)):
        return None
    alike = [
        each
        for each in node.devices
        if SWITCH in each.linked_to and each.model == device.model and not (each.lost or each.mig_enabled)
    ]
    down = set(device.links_down)
    expected = down - set(idle) | {link for link in down for each in alike if link not in each.links_down}
    return tuple(sorted(expected))


# ── problems by type ────────────────────────────────────────────────────────────────────────────────────────────


def problems(
    device: DeviceReading,
    node: NodeReading,
    earlier: DeviceHealth | None,
    present: DeviceHealth,
    *,
    restarted: bool,
) -> dict[ConditionType, Problem]:
    """Problems of a device, without marks and flapping. ``present``: its faults and idle links as they are now.

    A problem goes on while nothing can be read about it, unless the driver was started again.
    """
    hot = earlier is not None and not restarted and earlier.has(ConditionType.OVERHEATED)
    told = {
        **_of_reading(device, hot=hot),
        **_of_links(_links_down(device, node, present.idle_links or ())),
    }
    for kind, problem in _of_faults(present.faults).items():
        told[kind] = told.get(kind) or problem
    if earlier is not None and not restarted:
        told = {**_going_on(earlier), **told}
    return {kind: problem for kind, problem in told.items() if problem is not None}


def _of_reading(device: DeviceReading, *, hot: bool) -> dict[ConditionType, Problem | None]:
    """What a reading shows: a problem, or None for no such problem. What it does not show is absent."""
    if device.lost:
        message = "the device does not answer: it has fallen off the bus, or the vendor's library hangs"
        return {ConditionType.LOST: Problem(reason=FALLEN, message=message)}
    told: dict[ConditionType, Problem | None] = {ConditionType.LOST: None}
    if device.remapping is not None:
        told[ConditionType.ROW_REMAP_FAILURE] = _if(
            device.remapping.failed, "NoSpareRow", "a row of memory cannot be remapped: replace the device"
        )
        told[ConditionType.RESET_PENDING] = _if(
            device.remapping.pending,
            "RowsToRemap",
            "a reset makes remapped rows of memory effective: reset the device when it is idle",
        )
    if device.recovery is not None:
        reason, asked = _RECOVERIES.get(device.recovery, ("", ""))
        told[ConditionType.RECOVERY_NEEDED] = _if(bool(reason), reason, f"the driver asks for {asked}")
    if device.uncorrected_errors is not None:
        message = (
            "memory had errors that could not be corrected since the driver was loaded: reset the device"
        )
        told[ConditionType.ECC_UNCORRECTED] = _if(device.uncorrected_errors > 0, _COUNTED, message)
    if (degrees := device.telemetry.temperature) is not None:
        is_hot = degrees > HOT or (hot and degrees >= COOL)
        message = f"it was above {HOT} °C and has not been below {COOL} °C since"
        told[ConditionType.OVERHEATED] = _if(is_hot, "TooHot", message)
    return told


def _of_links(down: tuple[int, ...] | None) -> dict[ConditionType, Problem | None]:
    if down is None:
        return {}
    if not down:
        return {ConditionType.LINK_DOWN: None}
    some = f"NVLink {down[0]} is" if len(down) == 1 else f"NVLinks {', '.join(map(str, down))} are"
    return {ConditionType.LINK_DOWN: Problem(reason="NvLinkDown", message=f"{some} down")}


def _of_faults(faults: Iterable[Fault]) -> dict[ConditionType, Problem | None]:
    told: dict[ConditionType, Problem | None] = {ConditionType.XID_FAULT: None}
    xids = []
    for fault in faults:
        match fault.kind:
            case EventKind.XID if fault.xid is not None:
                xids.append(fault.xid)
            case EventKind.ECC_UNCORRECTED:
                message = (
                    "the driver told of an error of memory that could not be corrected: reset the device"
                )
                told[ConditionType.ECC_UNCORRECTED] = Problem(reason=_TOLD_ERROR, message=message)
            case EventKind.LOST:
                message = "the driver told that the device is not available"
                told[ConditionType.LOST] = Problem(reason="LossReported", message=message)
            case _:
                pass
    if xids:
        order = list(AFTER)
        worst, *others = sorted(xids, key=lambda xid: (order.index(_class(xid)), xid))
        also = f" (also {', '.join(map(str, others))})" if others else ""
        message = f"XID {worst}{also}: {xid(worst).meaning} {AFTER[_class(worst)]}"
        told[ConditionType.XID_FAULT] = Problem(reason=f"Xid{worst}", message=message)
    return told


def _going_on(earlier: DeviceHealth) -> dict[ConditionType, Problem | None]:
    """Problems that there were. Those of faults are left out: the faults say whether they go on."""
    return {
        each.type: Problem(reason=each.reason, message=each.message)
        for each in earlier.conditions
        if each.status
        and each.type in (*FAULTS, ConditionType.RESET_PENDING)
        and each.type is not ConditionType.XID_FAULT
        and each.reason != _TOLD_ERROR
    }


def _if(holds: bool, reason: str, message: str) -> Problem | None:
    return Problem(reason=reason, message=message) if holds else None
