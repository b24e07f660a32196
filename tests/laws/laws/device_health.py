"""Laws of the health of devices: a function takes a history and raises where the law is broken."""

from collections.abc import Iterable
from dataclasses import replace as with_changes
from typing import Any, Final

from msgspec.structs import replace

from admission.agent.device_object import device_document, difference
from admission.agent.health import ConditionType
from admission.agent.readings import DeviceEvent, DeviceReading, EventKind, RecoveryAction
from admission.agent.remembered import AgentMemory, remembered
from admission.agent.xids import XidClass, xid_class
from tests.laws.worlds.device_health import (
    DEVICES,
    HARMLESS,
    MARKS,
    Assessed,
    History,
    Step,
    assessed,
    well,
)

#: Seconds, as docs/reference/health.md promises them.
DAMPING: Final = 600
QUIET: Final = 600


def a_device_with_a_certain_problem_is_never_healthy(history: History) -> None:
    for each in assessed(history):
        for device in each.step.reading.devices:
            health = each.health[device.id]
            if _is_certainly_ill(device) or device.id in MARKS[each.step.mark]:
                assert not health.healthy, device
            (sum_of_all,) = (one for one in health.conditions if one.type is ConditionType.HEALTHY)
            assert sum_of_all.status is health.healthy


def _is_certainly_ill(device: DeviceReading) -> bool:
    return (
        device.lost
        or (device.remapping is not None and device.remapping.failed)
        or device.recovery not in (None, RecoveryAction.NONE)
        or (device.uncorrected_errors or 0) > 0
        or (device.telemetry.temperature or 0) > 95
    )


def a_device_is_well_again_when_the_driver_was_started_again(history: History) -> None:
    """Whatever was before, hardware faults included: no state is without an exit."""
    end = (well(start="before"), well(start="again"), well(start="again", after=DAMPING))
    assert all(health.healthy for health in assessed((*history, *end))[-1].health.values())


def a_device_is_well_again_in_time_though_nothing_is_started(history: History) -> None:
    """Faults that a program or a passing error may have caused are over when nothing tells of them any more."""
    end = tuple(well(after=60, recovery=RecoveryAction.NONE) for _ in range((QUIET + DAMPING) // 60 + 1))
    last = assessed((*map(_without_hardware, history), *end))[-1]
    assert all(health.healthy for health in last.health.values())


def _without_hardware(step: Step) -> Step:
    kept = [
        each for each in step.events if each.code is None or xid_class(each.code) is not XidClass.HARDWARE
    ]
    return with_changes(step, events=tuple(kept))


def since_moves_only_with_the_status(history: History) -> None:
    found = assessed(history)
    for before, after in zip([None, *found], found, strict=False):
        for name, health in after.health.items():
            earlier = before.health.get(name) if before is not None else None
            for condition in health.conditions:
                known = earlier.condition(condition.type) if earlier is not None else None
                moved = known is None or known.status is not condition.status
                assert condition.since == (after.now if moved or known is None else known.since), condition


def an_assessment_depends_on_its_input_only(history: History) -> None:
    """Not on the order of devices, nor on what happened to other ones."""
    found = assessed(history)
    assert assessed(history) == found
    other_order = tuple(
        with_changes(step, reading=replace(step.reading, devices=step.reading.devices[::-1]))
        for step in history
    )
    assert [each.health for each in assessed(other_order)] == [each.health for each in found]
    for name in DEVICES:
        own = tuple(
            with_changes(step, events=tuple(each for each in step.events if each.device in (None, name)))
            for step in history
        )
        assert [each.health.get(name) for each in assessed(own)] == [each.health.get(name) for each in found]


def harmless_xids_change_nothing(history: History) -> None:
    more = tuple(with_changes(step, events=(*step.events, *_harmless())) for step in history)
    assert [each.health for each in assessed(more)] == [each.health for each in assessed(history)]


def _harmless() -> Iterable[DeviceEvent]:
    return (DeviceEvent(kind=EventKind.XID, device=None, code=code) for code in HARMLESS)


def an_agent_that_starts_again_goes_on_alike(history: History) -> None:
    """From the stored object, at each step."""
    for each in assessed(history):
        stored = remembered(_document(each), "u").health_state()
        assert (stored.devices, stored.driver_starts) == (each.health, each.state.driver_starts)


def nothing_is_written_while_no_condition_changes(history: History) -> None:
    """Time passes, and the same is read: the object stays the same unless a condition has changed.

    A fault that is over while the device is lost changes no condition, and is forgotten with one write.
    """
    for each in assessed(history):
        (later,) = assessed((with_changes(each.step, after=60, events=()),), each.state, each.now)
        if [(health.conditions, len(health.faults)) for health in each.health.values()] == [
            (health.conditions, len(health.faults)) for health in later.health.values()
        ]:
            assert difference(_document(each), _document(later)) is None


def _document(found: Assessed) -> dict[str, Any]:
    memory = AgentMemory.of([found.step.reading], found.health).text()
    return device_document("n", "u", [found.step.reading], found.health, (), memory=memory)
