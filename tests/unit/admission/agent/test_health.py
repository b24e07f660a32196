"""Health of devices: each kind of problem, how it begins and how it ends."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from admission.agent.health import ConditionType, HealthState
from admission.agent.readings import DeviceEvent, EventKind, RecoveryAction, as_lost
from tests.builders.node_agents.assessed_devices import MINUTE, START, Agent, healthy, told, xid
from tests.builders.node_agents.device_readings import (
    device,
    node,
    remapping,
    with_start,
)
from tests.tables import with_rows

PROGRAM, RESET, REBOOT, HARDWARE = 13, 95, 79, 64


# ── levels ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_that_is_well_has_one_condition() -> None:
    health = Agent().device()
    assert health.healthy
    assert [each.type for each in health.conditions] == [ConditionType.HEALTHY]
    assert (healthy(health).reason, healthy(health).since) == ("NoFault", START + 5)


@pytest.mark.parametrize(
    ("bad", "good", "kind", "reason"),
    [
        (
            {"remapping": remapping(failed=True)},
            {"remapping": remapping()},
            ConditionType.ROW_REMAP_FAILURE,
            "NoSpareRow",
        ),
        (
            {"uncorrected_errors": 1},
            {"uncorrected_errors": 0},
            ConditionType.ECC_UNCORRECTED,
            "UncorrectedErrors",
        ),
        ({"degrees": 96}, {"degrees": 89}, ConditionType.OVERHEATED, "TooHot"),
        (
            {"recovery": RecoveryAction.RESET},
            {"recovery": RecoveryAction.NONE},
            ConditionType.RECOVERY_NEEDED,
            "ResetDevice",
        ),
    ],
)
def test_a_level_makes_a_device_unhealthy_for_as_long_as_it_is_read(
    bad: dict[str, Any], good: dict[str, Any], kind: ConditionType, reason: str
) -> None:
    agent = Agent()
    assert agent.device(**good).healthy
    health = agent.device(**bad)
    assert told(health, kind) == (True, reason)
    assert (health.healthy, healthy(health).reason) == (False, reason)
    assert healthy(health).message
    health = agent.device(**good)
    assert told(health, kind) == (False, "Recovered")
    assert (health.healthy, healthy(health).reason, healthy(health).since) == (True, "Recovered", agent.now)
    assert healthy(health).message == f"after {reason}"


@pytest.mark.parametrize("action", [each for each in RecoveryAction if each is not RecoveryAction.NONE])
def test_whatever_recovery_the_driver_asks_for_the_device_is_unhealthy(action: RecoveryAction) -> None:
    health = Agent().device(recovery=action)
    assert not health.healthy
    assert re.fullmatch("[A-Z][A-Za-z]+", healthy(health).reason)
    assert healthy(health).message.startswith("the driver asks for ")


def test_a_pending_reset_is_told_and_the_device_stays_healthy() -> None:
    health = Agent().device(remapping=remapping(pending=True))
    assert health.healthy
    assert told(health, ConditionType.RESET_PENDING) == (True, "RowsToRemap")


@pytest.mark.parametrize(("degrees", "hot"), [(95, True), (90, True), (89, False), (None, True)])
def test_above_95_degrees_a_device_is_overheated_until_it_is_below_90(degrees: int | None, hot: bool) -> None:
    agent = Agent()
    assert not agent.device(degrees=95).has(ConditionType.OVERHEATED)
    assert agent.device(degrees=96).has(ConditionType.OVERHEATED)
    assert agent.device(degrees=degrees).has(ConditionType.OVERHEATED) is hot


def test_what_cannot_be_read_goes_on_until_it_can() -> None:
    agent = Agent()
    agent.device(remapping=remapping(failed=True))
    assert not agent.device(remapping=None).healthy
    assert agent.device(remapping=remapping()).healthy


def test_a_problem_of_a_lost_device_goes_on_when_it_is_back() -> None:
    agent = Agent()
    agent.device(degrees=97)
    agent.sees(node(as_lost(device())))
    assert agent.health["GPU-0"].has(ConditionType.OVERHEATED)
    assert not agent.device(degrees=97).healthy


def test_the_worst_problem_is_the_reason() -> None:
    health = Agent().device(degrees=97, remapping=remapping(failed=True), uncorrected_errors=3)
    assert healthy(health).reason == "NoSpareRow"
    assert health.has(ConditionType.OVERHEATED)
    assert health.has(ConditionType.ECC_UNCORRECTED)


# ── loss and return ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_device_is_unhealthy_and_its_return_is_told() -> None:
    agent = Agent()
    agent.device()
    health = agent.sees(node(as_lost(device())))["GPU-0"]
    assert told(health, ConditionType.LOST) == (True, "FallenOffTheBus")
    assert not health.healthy
    health = agent.device()
    assert healthy(health).reason == "Recovered"
    assert healthy(health).message == "after FallenOffTheBus"


def test_a_loss_that_is_told_counts_before_it_is_read() -> None:
    agent = Agent()
    agent.device()
    health = agent.device(events=[DeviceEvent(kind=EventKind.LOST, device="GPU-0")])
    assert told(health, ConditionType.LOST) == (True, "LossReported")
    assert not agent.device().healthy, "the next reading may still be the one before the loss"
    agent.sees(node(as_lost(device())))
    assert agent.device().healthy


def test_a_loss_that_is_told_ends_with_a_reading_of_later_in_which_the_device_answers() -> None:
    agent = Agent()
    agent.device()
    agent.device(events=[DeviceEvent(kind=EventKind.LOST, device="GPU-0")])
    told_at = agent.now
    assert not agent.sees(node(device(), began=told_at - 1))["GPU-0"].healthy
    assert not agent.restarted().sees(node(device(), began=told_at + 0.5))["GPU-0"].healthy
    assert agent.restarted().sees(node(device(), began=told_at + 1))["GPU-0"].healthy


@pytest.mark.parametrize("counter", [0, None], ids=["not counted", "no counter can be read"])
def test_an_error_of_memory_that_is_told_is_over_after_a_quiet_time(counter: int | None) -> None:
    agent = Agent()
    agent.device(uncorrected_errors=counter)
    agent.device(
        uncorrected_errors=counter, events=[DeviceEvent(kind=EventKind.ECC_UNCORRECTED, device="GPU-0")]
    )
    health = agent.device(uncorrected_errors=counter, after=10 * MINUTE - 1)
    assert told(health, ConditionType.ECC_UNCORRECTED) == (True, "UncorrectedErrorReported")
    assert agent.device(uncorrected_errors=counter, after=1).healthy


def test_a_device_that_is_gone_is_forgotten_and_the_others_stay() -> None:
    agent = Agent()
    agent.sees(node(device(0), device(1, degrees=99)))
    assert agent.sees(node(device(0))).keys() == {"GPU-0"}
    assert healthy(agent.sees(node(device(0), device(1)))["GPU-1"]).reason == "NoFault"


# ── XIDs ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("codes", [(PROGRAM, 31), (63, 154, 162, 163)], ids=["programs", "notices"])
def test_xids_of_programs_and_notices_change_nothing(codes: tuple[int, ...]) -> None:
    agent = Agent()
    before = agent.device()
    assert agent.device(events=list(map(xid, codes))) == before


@pytest.mark.parametrize("code", [RESET, REBOOT, HARDWARE, 9999])
def test_other_xids_make_the_device_unhealthy_and_no_other_one(code: int) -> None:
    agent = Agent()
    agent.sees(node(device(0), device(1)))
    health = agent.sees(node(device(0), device(1)), events=[xid(code)])
    assert told(health["GPU-0"], ConditionType.XID_FAULT) == (True, f"Xid{code}")
    assert health["GPU-0"].healthy is False
    assert health["GPU-1"].healthy is True


def test_an_xid_of_no_device_counts_for_each() -> None:
    health = Agent().sees(node(device(0), device(1)), events=[xid(RESET, on=None)])
    assert [each.healthy for each in health.values()] == [False, False]


def test_several_xids_are_told_together_the_worst_first() -> None:
    agent = Agent()
    agent.device(events=[xid(RESET)])
    found = agent.device(events=[xid(HARDWARE), xid(48)]).condition(ConditionType.XID_FAULT)
    assert found is not None
    assert found.reason == f"Xid{HARDWARE}"
    assert found.message.startswith(f"XID {HARDWARE} (also 48, {RESET}): A bad row")
    assert found.message.endswith("Check the hardware, and replace the device if it comes again.")
    assert found.since == START + 5


@pytest.mark.parametrize("code", [RESET, REBOOT, HARDWARE])
def test_it_is_over_when_the_driver_asked_for_a_recovery_and_does_not_any_more(code: int) -> None:
    agent = Agent()
    agent.device(events=[xid(code)], recovery=RecoveryAction.NONE)
    assert not agent.device(recovery=RecoveryAction.NONE).healthy, "it has not asked yet"
    agent.device(recovery=RecoveryAction.RESET)
    health = agent.device(recovery=RecoveryAction.NONE)
    assert (health.healthy, healthy(health).message) == (True, f"after Xid{code}")


@pytest.mark.parametrize("code", [RESET, REBOOT, HARDWARE])
def test_it_is_over_when_the_device_comes_back_or_the_driver_was_started_again(code: int) -> None:
    agent = Agent()
    agent.device(events=[xid(code)])
    agent.sees(node(as_lost(device())))
    assert agent.device().healthy
    agent = Agent()
    agent.sees(with_start(node(device()), "boot 1"), events=[xid(code)])
    assert not agent.sees(with_start(node(device()), "boot 1"))["GPU-0"].healthy
    assert agent.restarted().sees(with_start(node(device()), "boot 2"))["GPU-0"].healthy
    assert not agent.sees(with_start(node(device()), ""))["GPU-0"].healthy, "unknown is not another start"


@pytest.mark.parametrize(
    ("code", "recovery", "ends"),
    [
        (RESET, None, True),
        (RESET, RecoveryAction.NONE, True),
        (9999, None, True),
        (REBOOT, None, False),
        (REBOOT, RecoveryAction.NONE, True),
        (HARDWARE, None, False),
        (HARDWARE, RecoveryAction.NONE, False),
    ],
)
def test_a_quiet_time_ends_it_where_nothing_else_can(
    code: int, recovery: RecoveryAction | None, ends: bool
) -> None:
    agent = Agent()
    agent.device(events=[xid(code)], recovery=recovery)
    agent.device(events=[xid(code)], recovery=recovery, after=5 * MINUTE)
    assert not agent.device(recovery=recovery, after=10 * MINUTE - 1).healthy, "it was told again"
    assert agent.device(recovery=recovery, after=1).healthy is ends
    assert agent.device(recovery=recovery, after=86_400).healthy is ends


def test_no_quiet_time_counts_while_the_driver_asks_or_the_device_is_lost() -> None:
    agent = Agent()
    agent.device(events=[xid(RESET)])
    assert agent.device(recovery=RecoveryAction.RESET, after=3600).has(ConditionType.XID_FAULT)
    agent = Agent()
    agent.device(events=[xid(RESET)])
    assert agent.sees(node(as_lost(device())), after=3600)["GPU-0"].has(ConditionType.XID_FAULT)


def test_an_xid_that_is_told_all_the_time_is_written_down_once_a_minute() -> None:
    agent = Agent()
    first = agent.device(events=[xid(RESET)])
    assert agent.device(events=[xid(RESET)], after=59) == first
    assert agent.device(events=[xid(RESET)], after=1) != first


def test_xid_154_leaves_it_to_the_recovery_action() -> None:
    changed = DeviceEvent(kind=EventKind.RECOVERY_CHANGED, device="GPU-0")
    for event in (xid(154), changed):
        assert Agent().device(events=[event], recovery=RecoveryAction.NONE).healthy
        assert not Agent().device(events=[event], recovery=RecoveryAction.RESET).healthy


def test_a_fault_that_a_newer_table_calls_harmless_is_over() -> None:
    agent = Agent()
    agent.device(events=[xid(RESET)])
    health = agent.health["GPU-0"]
    known = replace(health, faults=tuple(replace(each, xid=PROGRAM) for each in health.faults))
    agent = Agent(HealthState(devices={"GPU-0": known}), agent.now)
    assert agent.device().healthy


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────────


@with_rows("mark", "marked")
def test_a_person_marks_devices(mark: str | None, marked: dict[str, str | None]) -> None:
    health = Agent().sees(node(device(0), device(1)), mark=mark)
    assert {name for name, each in health.items() if not each.healthy} == marked.keys()
    for name, reason in marked.items():
        assert healthy(health[name]).reason == "MarkedByPerson"
        assert healthy(health[name]).message == (reason or "muster.dev/gpu-unhealthy of the node names it")


@pytest.mark.parametrize("mark", ["7", "true", "", "0;1", "GPU-9", "x" * 5000])
def test_a_mark_that_names_no_device_is_told_with_what_is_expected(mark: str) -> None:
    agent = Agent()
    found = agent.sees(node(device(0), device(1)), mark=mark)["GPU-0"].condition(
        ConditionType.MARKED_UNHEALTHY
    )
    assert found is not None
    assert (found.status, found.reason) == (False, "InvalidMark")
    assert f"found {mark[:50]!r}"[:-1] in found.message
    assert "expected all, one of the numbers 0, 1, or the uuid of a device" in found.message
    assert len(found.message) < 300
    health = agent.sees(node(device(0), device(1)))["GPU-0"]
    assert told(health, ConditionType.MARKED_UNHEALTHY) == (False, "NotMarked")


def test_a_mark_that_is_taken_away_is_a_recovery_however_often() -> None:
    agent = Agent()
    for _ in range(5):
        assert not agent.device(mark="0").healthy
        health = agent.device()
        assert (health.healthy, healthy(health).message) == (True, "after MarkedByPerson")


# ── flapping ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_that_changes_three_times_is_flapping_until_it_was_well_for_ten_minutes() -> None:
    agent = Agent()
    agent.device()
    for degrees in (97, 40, 97):
        assert not agent.health["GPU-0"].has(ConditionType.FLAPPING)
        agent.device(degrees=degrees, after=MINUTE)
    assert told(agent.health["GPU-0"], ConditionType.FLAPPING) == (True, "Flapping")
    assert healthy(agent.health["GPU-0"]).reason == "TooHot"
    health = agent.device(degrees=40)
    well_since = agent.now
    assert (health.healthy, healthy(health).reason) == (False, "Flapping")
    agent = agent.restarted()
    assert not agent.device(after=10 * MINUTE - 1).healthy
    health = agent.device(after=1)
    assert (health.healthy, healthy(health).message, agent.now) == (
        True,
        "after Flapping",
        well_since + 10 * MINUTE,
    )
    agent.device(degrees=97)
    assert agent.device().healthy, "what was before does not count again"


def test_a_device_that_changes_seldom_is_not_flapping() -> None:
    agent = Agent()
    agent.device()
    for _ in range(5):
        assert not agent.device(degrees=97, after=6 * MINUTE).healthy
        assert agent.device(after=6 * MINUTE).healthy


def test_a_clock_that_is_set_back_keeps_nothing_unhealthy_for_long() -> None:
    agent = Agent()
    agent.device(events=[xid(RESET)])
    agent.now -= 86_400
    agent.device()
    assert agent.device(after=10 * MINUTE).healthy
    for degrees in (97, 40, 97, 40):
        agent.device(degrees=degrees)
    agent.now -= 86_400
    assert not agent.device().healthy
    assert agent.device(after=10 * MINUTE).healthy


@with_rows("before", "now", "is_over")
def test_a_fault_is_over_when_the_driver_was_loaded_again(before: str, now: str, is_over: bool) -> None:
    agent = Agent()
    agent.sees(node(device(), driver_start=before), events=[xid(HARDWARE)])
    assert agent.sees(node(device(), driver_start=now), after=3600)["GPU-0"].healthy is is_over
