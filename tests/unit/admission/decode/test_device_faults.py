"""Conditions of an unhealthy device → its fault, and what of it only a person ends."""

from typing import Any

import pytest

from admission.agent.health.conditions import UNHEALTHY, ConditionType
from admission.decode.devices.node_devices import device_fault
from admission.facts.devices import DeviceFault
from admission.wire import WireCondition
from tests.tables import with_rows

MARK = ("MarkedUnhealthy", "MarkedByPerson")
LOST = ("Lost", "FallenOffTheBus")
SINCE = "2027-01-15T08:00:00Z"


def fault(*true: tuple[str, str], worst: str = "", more: tuple[WireCondition, ...] = ()) -> DeviceFault:
    """The fault of a device with these conditions."""
    healthy = _condition("Healthy", worst or true[0][1], status="False")
    return device_fault("GPU-3", 3, (*more, *(_condition(*each) for each in true), healthy))


def _condition(kind: str, reason: str, **more: Any) -> WireCondition:
    given = {"status": "True", "message": f"about {reason}", "last_transition_time": SINCE, **more}
    return WireCondition(type=kind, reason=reason, **given)


def test_a_fault_has_all_conditions_that_are_true_the_worst_first() -> None:
    over = _condition("Overheated", "Recovered", status="False")
    pending = _condition("ResetPending", "RowsToRemap")
    found = fault(MARK, LOST, worst="FallenOffTheBus", more=(over, pending))
    assert [(each.type, each.reason) for each in found.conditions] == [LOST, MARK]
    assert (found.reason, found.message) == ("FallenOffTheBus", "about FallenOffTheBus")
    assert found.since == 1_800_000_000
    assert found.names == ("GPU-3/Lost/FallenOffTheBus", "GPU-3/MarkedUnhealthy/MarkedByPerson")


@pytest.mark.parametrize("more", [(), (_condition("Ready", "Odd"), _condition("Lost", "FallenOffTheBus"))])
def test_of_another_reporter_only_the_sum_is_understood(more: tuple[WireCondition, ...]) -> None:
    found = device_fault("GPU-3", 3, (*more, _condition("Healthy", "Odd", status="False")))
    assert (found.conditions, found.names) == ((), ("GPU-3/Odd",))
    assert found.beyond(()) == found
    assert found.beyond({"GPU-3/Odd"}) is None
    assert found.for_person() is None


def test_what_is_not_accepted_is_told_by_its_worst_condition() -> None:
    found = fault(LOST, ("XidFault", "Xid48"), MARK)
    left = found.beyond({"GPU-3/Lost/FallenOffTheBus"})
    assert (left.reason, left.message) == ("Xid48", "about Xid48")
    assert left.names == found.names[1:]
    assert found.beyond(found.names) is None
    assert found.beyond({"GPU-3/FallenOffTheBus"}) is None, "an older Muster accepted it as a whole"
    assert found.beyond({"GPU-3/Xid48"}) == found


@with_rows("conditions", "expected")
def test_a_mark_and_broken_hardware_need_a_person(
    conditions: tuple[tuple[str, str], ...], expected: str | None
) -> None:
    needing = fault(*conditions).for_person()
    assert (None if needing is None else needing.reason) == expected


def test_all_other_conditions_may_be_ended_by_a_job() -> None:
    of_persons = {ConditionType.MARKED_UNHEALTHY, ConditionType.ROW_REMAP_FAILURE}
    for kind in {*UNHEALTHY} - of_persons:
        assert fault((kind.value, "Any")).for_person() is None
