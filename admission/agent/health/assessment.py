"""Health of all devices of a node: readings, events and a person's marks → conditions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from admission.agent.health.conditions import (
    FAULTS,
    PROBLEMS,
    UNHEALTHY,
    Condition,
    ConditionType,
    DeviceHealth,
    HealthState,
    Problem,
)
from admission.agent.health.problems import FALLEN, faults_after, idle_links, problems
from admission.agent.readings import DeviceEvent, DeviceId, DeviceReading, EventKind, NodeReading
from queues.api.names import GPU_UNHEALTHY

#: Characters of a reason, and of a value in a message, that are kept.
_LONGEST: Final = 200
_EXCERPT: Final = 60
#: Entries of the annotation that are looked at.
_MOST_ENTRIES: Final = 256
_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What the annotation says."""

    #: Why, by device that is marked.
    devices: Mapping[DeviceId, str] = field(default_factory=dict)
    #: What is wrong with its value: found and expected; "": nothing.
    problem: str = ""


def read_marks(value: str | None, readings: Sequence[NodeReading]) -> Marks:
    """The marks of a value: ``all``, or indices and uuids of devices with commas between, each with ``=reason`` if
    wanted. ``value``: None if there is no annotation. An entry that names no device marks none; the others count."""
    if value is None:
        return Marks()
    devices = [device for reading in readings for device in reading.devices]
    marked: dict[DeviceId, str] = {}
    wrong = []
    for entry in value.split(",", _MOST_ENTRIES)[:_MOST_ENTRIES]:
        name, _, reason = (part.strip() for part in entry.partition("="))
        if not name and value.strip():
            continue  # a comma too many
        named = [device.id for device in devices if _names(name, device)]
        marked |= dict.fromkeys(named, reason[:_LONGEST] or f"{GPU_UNHEALTHY} of the node names it")
        if not named:
            wrong.append(name)
    return Marks(devices=marked, problem=_told(wrong[0], devices) if wrong else "")


def _names(name: str, device: DeviceReading) -> bool:
    return name in (_ALL, str(device.index)) or name.lower() == device.id.lower()


def _told(found: str, devices: Sequence[DeviceReading]) -> str:
    shown = repr(found[:_EXCERPT]) + ("…" if len(found) > _EXCERPT else "")
    expected = (
        f"all, one of the numbers {', '.join(sorted({str(device.index) for device in devices}, key=int))}, "
        "or the uuid of a device"
        if devices
        else "no value: the node has no devices"
    )
    return f"{GPU_UNHEALTHY}: found {shown}, expected {expected}"


#: A device that changed so often within so many seconds is flapping, until it was well for as long.
FLAPS: Final = 3
DAMPING: Final = 600

_NEW: Final = DeviceHealth(conditions=())
#: Of conditions that are not true.
_NONE: Final = Problem(reason="NoFault", message="")
_OVER: Final = Problem(reason="Recovered", message="")
_NOT_MARKED: Final = Problem(reason="NotMarked", message="")
_FLAPPING: Final = Problem(
    reason="Flapping",
    message=f"{FLAPS} changes within {DAMPING // 60} minutes: unhealthy until it was well for {DAMPING // 60} minutes",
)


def assess(
    state: HealthState,
    readings: Sequence[NodeReading],
    events: Sequence[DeviceEvent],
    mark: str | None,
    now: float,
) -> HealthState:
    """The health of each device in the readings: the state for the next assessment.

    ``events``: since the last assessment; the readings may be older than they are. ``mark``: value of the annotation
    ``muster.dev/gpu-unhealthy`` of the node, None if it has none. ``now``: seconds since the epoch.
    A device that is in no reading is forgotten; if it comes back it is a new one. So what cannot be read for a moment
    has to be given as it was read last, or as lost.
    """
    marks = read_marks(mark, readings)
    found: dict[DeviceId, DeviceHealth] = {}
    for node in readings:
        for device in node.devices:
            own = [each for each in events if each.device in (None, device.id)]
            earlier = _without_told_loss(state.devices.get(device.id), device, node.began)
            restarted = _came_back(earlier, device) or _driver_started(state, node)
            present = _present(earlier, device, own, restarted=restarted, now=int(now))
            told = problems(device, node, earlier, present, restarted=restarted)
            present = _damped(earlier, present, told, int(now))
            if device.id in marks.devices:
                reason = marks.devices[device.id]
                told[ConditionType.MARKED_UNHEALTHY] = Problem(reason="MarkedByPerson", message=reason)
            found[device.id] = _concluded(present, told, marks.problem, int(now))
    starts = {node.vendor: node.driver_start for node in readings if node.driver_start}
    return HealthState(devices=found, driver_starts=starts)


def _without_told_loss(
    earlier: DeviceHealth | None, device: DeviceReading, began: float | None
) -> DeviceHealth | None:
    """The health without a loss that the driver reported before a reading began in which the device answers."""
    if earlier is None or device.lost or began is None:
        return earlier
    # Faults are reported in whole seconds.
    faults = (each for each in earlier.faults if each.kind is not EventKind.LOST or each.last + 1 > began)
    return replace(earlier, faults=tuple(faults))


def _came_back(earlier: DeviceHealth | None, device: DeviceReading) -> bool:
    lost = earlier.condition(ConditionType.LOST) if earlier is not None else None
    return lost is not None and lost.status and lost.reason == FALLEN and not device.lost


def _driver_started(state: HealthState, node: NodeReading) -> bool:
    before, now = state.driver_starts.get(node.vendor, ""), node.driver_start
    return bool(before and now) and before != now


def _present(
    earlier: DeviceHealth | None,
    device: DeviceReading,
    events: Sequence[DeviceEvent],
    *,
    restarted: bool,
    now: int,
) -> DeviceHealth:
    """The health with faults, links and counts as they are now; the conditions are those of before."""
    before = earlier or _NEW
    return replace(
        before,
        faults=faults_after(before.faults, events, device, restarted=restarted, now=now),
        idle_links=idle_links(device, before.idle_links),
        # A clock that was set back must not keep a device unhealthy.
        changes=tuple(min(each, now) for each in before.changes),
    )


def _damped(
    earlier: DeviceHealth | None, present: DeviceHealth, told: dict[ConditionType, Problem], now: int
) -> DeviceHealth:
    """The health with its changes. While the device is flapping, that is added to what is shown of it."""
    faulty = any(kind in told for kind in FAULTS)
    changes = present.changes
    if earlier is not None and faulty != any(earlier.has(kind) for kind in FAULTS):
        changes = (*changes, now)[-FLAPS:]
    often = len(changes) == FLAPS and changes[-1] - changes[0] <= DAMPING
    lately = faulty or (bool(changes) and now - changes[-1] < DAMPING)
    if lately and (often or present.has(ConditionType.FLAPPING)):
        told[ConditionType.FLAPPING] = _FLAPPING
    return replace(present, changes=changes)


def _concluded(
    present: DeviceHealth, told: Mapping[ConditionType, Problem], invalid_mark: str, now: int
) -> DeviceHealth:
    """The health with its conditions."""
    conditions = [_healthy(present.condition(ConditionType.HEALTHY), told, now)]
    for kind in PROBLEMS:
        over = _OVER
        if kind is ConditionType.MARKED_UNHEALTHY:
            over = Problem(reason="InvalidMark", message=invalid_mark) if invalid_mark else _NOT_MARKED
        before = present.condition(kind)
        if kind in told or before is not None or over.message:
            conditions.append(_condition(before, kind, told.get(kind), over, now))
    return replace(present, conditions=tuple(sorted(conditions, key=lambda each: each.type)))


def _condition(
    before: Condition | None, kind: ConditionType, problem: Problem | None, over: Problem, now: int
) -> Condition:
    """A condition that is true while there is the problem."""
    status = problem is not None
    told = problem or over
    since = before.since if before is not None and before.status is status else now
    return Condition(type=kind, status=status, reason=told.reason, message=told.message, since=since)


def _healthy(before: Condition | None, told: Mapping[ConditionType, Problem], now: int) -> Condition:
    """The sum: false with the worst problem; true with ``Recovered`` from its last problem on."""
    worst = next((told[kind] for kind in UNHEALTHY if kind in told), None)
    if worst is None and before is not None and before.status:
        return before
    told_of = worst or (_NONE if before is None else replace(_OVER, message=f"after {before.reason}"))
    since = before.since if before is not None and before.status is (worst is None) else now
    return Condition(
        type=ConditionType.HEALTHY,
        status=worst is None,
        reason=told_of.reason,
        message=told_of.message,
        since=since,
    )
