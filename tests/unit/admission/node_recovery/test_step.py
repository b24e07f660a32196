"""One node: faults that come back, persons, restarts, and what is shown."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from admission.agent.health.assessment import DAMPING
from admission.agent.health.problems import QUIET
from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.jobs import RecoveryJob, job_of
from admission.node_recovery.state import IN_SERVICE, RecoveryPhase, RecoveryState, moment
from admission.node_recovery.step import ATTEMPTS, ATTEMPTS_WITHIN, SETTLE_TIMEOUT, NodeEvent, NodeTurn
from tests.unit.admission.node_recovery.recovered_nodes import (
    LOST,
    MARKED,
    NODE,
    NOW,
    RULES,
    SINCE,
    XID,
    fault_of,
    gang,
    is_idle,
    state,
    turn,
    view,
    with_job,
)


def test_a_device_that_is_well_after_its_job_is_called_healthy_before_the_attempt_has_failed() -> None:
    # XIDs that no reading ends are over after the quiet time, and a device that was flapping after the damping then.
    assert SETTLE_TIMEOUT >= QUIET + DAMPING + 300


def said(found: NodeTurn) -> str:
    return "" if found.event is None else found.event.message


def test_a_node_is_closed_with_its_fault_in_words(golden: Any) -> None:
    found = turn(view(IN_SERVICE, faults=(XID,), gangs=(gang("on", 3), gang("beside", 0))))
    assert found.writes
    assert found.state.annotation() == golden
    expected = (
        "GPU 3: Xid79 (fallen off the bus): closed to new GPU work: 1 gang on unhealthy devices must go now, "
        "1 gang may go on for 1h"
    )
    assert found.event == NodeEvent("GpuNodeDraining", expected, warning=True)


def test_a_node_waits_where_the_circuit_breaker_does_not_let_it_go_and_that_is_said_once() -> None:
    many = "3 nodes out of service"
    first = turn(view(IN_SERVICE, faults=(XID,), held_back=many))
    assert first.state.waits == "circuit-breaker"
    assert said(first) == f"GPU 3: Xid79 (fallen off the bus): nothing is done now ({many})"
    assert is_idle(turn(view(first.state, faults=(XID,), held_back=many), now=NOW + 60))
    gone = turn(view(first.state, held_back=many), now=NOW + 60)
    assert (gone.writes, gone.state.annotation()) == (True, "")


def test_a_gang_whose_devices_are_not_known_may_be_on_the_faulty_one() -> None:
    seen = view(state(RecoveryPhase.DRAINING), faults=(XID,), gangs=(gang("unknown"), gang("beside", 0)))
    assert {key.uid: why for key, why in turn(seen).evicted.items()} == {
        "unknown": "GPU 3: Xid79 (fallen off the bus), on node gpu-7"
    }


def test_a_refused_job_is_said_and_tried_again() -> None:
    found = turn(view(state(RecoveryPhase.RECOVERING), faults=(XID,), refused="exceeded quota"))
    assert found.state.waits == "job-refused"
    assert found.creates
    assert "exceeded quota" in said(found)


@pytest.mark.parametrize("phase", [RecoveryPhase.RECOVERING, RecoveryPhase.VERIFYING])
def test_a_job_waits_for_its_node_to_be_ready_and_that_uses_up_no_attempt(phase: RecoveryPhase) -> None:
    known = state(phase)
    faults = (XID,) if phase is RecoveryPhase.RECOVERING else ()
    silent = view(known, faults=faults, ready=False)
    first = turn(silent)
    assert (first.state.phase, first.state.attempts, first.state.waits) == (phase, 1, "node")
    assert said(first) == "the node is not ready: its Job waits until it is"
    assert is_idle(turn(replace(silent, annotation=first.state.annotation()), now=NOW + 10**6))
    assert turn(view(first.state, faults=faults)).creates == job_of(NODE, known, RULES)


def test_what_is_waited_for_while_a_node_is_verified_is_said() -> None:
    waits = "the fault is gone: waits until its devices are reported as healthy"
    for rules, expected in (
        (replace(RULES, verify_job=None), waits),
        (RULES, f"{waits}, then it is tested by a Job from ops/test-gpu"),
    ):
        found = turn(view(state(RecoveryPhase.DRAINING)), rules)
        assert found.event == NodeEvent("GpuNodeVerifying", expected)


def test_why_the_agent_is_waited_for_is_said() -> None:
    known, late = state(RecoveryPhase.VERIFYING), SINCE + SETTLE_TIMEOUT
    found = turn(view(known, reported=frozenset({"GPU-4"})), now=late)
    assert (found.state.phase, found.state.waits) == (RecoveryPhase.VERIFYING, "agent")
    assert said(found) == "a device that was unhealthy is not reported any more: waits for the agent"


def test_a_node_that_only_killed_pods_is_not_kept_closed_by_an_agent_that_it_never_had() -> None:
    seen = view(state(RecoveryPhase.VERIFYING, devices=()), reported=frozenset())
    assert turn(seen, replace(RULES, verify_job=None)).state.phase is RecoveryPhase.NONE


def test_another_fault_does_not_hide_the_one_whose_device_is_not_reported() -> None:
    known = state(RecoveryPhase.DRAINING, devices=("GPU-5",))
    for seen in (view(known, faults=(XID,)), view(known, kills_pods="pods fail")):
        entered = turn(seen).state
        assert (entered.phase, entered.devices) == (RecoveryPhase.RECOVERING, ("GPU-5",))


def test_every_device_with_a_fault_is_remembered_by_its_uuid_or_its_number() -> None:
    faults = [fault_of(LOST, number=number) for number in range(8)]
    closed = turn(view(IN_SERVICE, faults=(*faults, XID._replace(device="", number=9)))).state
    assert closed.devices == ("9", *(f"GPU-{number}" for number in range(8)))


def test_a_fault_that_soon_comes_back_goes_on_counting_attempts() -> None:
    known = state(RecoveryPhase.NONE, attempts=ATTEMPTS)
    soon = SINCE + ATTEMPTS_WITHIN - 1
    draining = turn(view(known, faults=(XID,)), now=soon).state
    assert turn(view(draining, faults=(XID,)), now=soon).state.phase is RecoveryPhase.FAILED


def test_attempts_are_forgotten_after_a_day() -> None:
    known, ends = state(RecoveryPhase.NONE, attempts=2), SINCE + ATTEMPTS_WITHIN
    assert is_idle(turn(view(known), now=ends - 1))
    over = turn(view(known), now=ends)
    assert (over.writes, over.state.annotation()) == (True, "")


def opened_by_hand(known: RecoveryState, **seen: Any) -> NodeTurn:
    return turn(view(known, taint=None, **seen))


def test_a_person_who_takes_the_taint_away_accepts_the_fault_and_only_that_one() -> None:
    other = DeviceFault(device="GPU-0", number=0, reason="EccUncorrected", message="", since=NOW)
    opened = opened_by_hand(state(RecoveryPhase.FAILED), faults=(XID,))
    assert opened.state.accepted == ("GPU-3/Xid79",)
    assert is_idle(turn(view(opened.state, faults=(XID,))))
    again = turn(view(opened.state, faults=(XID, other)))
    assert again.state.phase is RecoveryPhase.DRAINING
    assert said(again).startswith("GPU 0: EccUncorrected: closed")


def test_a_lighter_fault_of_the_same_device_counts_though_the_worst_one_is_accepted() -> None:
    ecc = FaultCondition("EccUncorrected", "UncorrectedErrors", "reset it", NOW)
    opened = opened_by_hand(state(RecoveryPhase.FAILED), faults=(fault_of(LOST),))
    again = turn(view(opened.state, faults=(fault_of(LOST, ecc),))).state
    assert again.phase is RecoveryPhase.DRAINING
    both = opened_by_hand(again, faults=(fault_of(LOST, ecc),)).state
    assert both.accepted == ("GPU-3/EccUncorrected/UncorrectedErrors", "GPU-3/Lost/FallenOffTheBus")
    left = turn(view(both, faults=(fault_of(ecc),))).state
    assert (left.phase, left.accepted) == (RecoveryPhase.NONE, ("GPU-3/EccUncorrected/UncorrectedErrors",))


def test_an_accepted_fault_counts_again_when_it_was_gone() -> None:
    gone = turn(view(state(RecoveryPhase.NONE, accepted=("GPU-3/Xid79",))))
    assert (gone.writes, gone.state.annotation()) == (True, "")


def test_a_fault_that_no_job_ends_waits_for_a_person_and_uses_up_no_attempt() -> None:
    known, faults = state(RecoveryPhase.DRAINING, attempts=0), (fault_of(LOST, MARKED),)
    first = turn(view(known, faults=faults))
    assert (first.state.phase, first.state.attempts) == (RecoveryPhase.DRAINING, 0)
    assert first.state.waits == "person"
    assert said(first) == "GPU 3: MarkedByPerson (fans): no Job ends this: waits for a person"
    assert is_idle(turn(view(first.state, faults=faults), now=NOW + 10**6))
    assert turn(view(first.state, faults=(fault_of(LOST),))).state.phase is RecoveryPhase.RECOVERING
    well = turn(view(first.state)).state
    assert (well.phase, well.attempts) == (RecoveryPhase.VERIFYING, 0)


def test_a_failed_test_is_not_taken_for_a_fault_that_is_gone() -> None:
    known = state(RecoveryPhase.VERIFYING, attempts=ATTEMPTS)
    failed = turn(view(known, jobs=with_job(known, False))).state
    assert (failed.phase, failed.test_failed) == (RecoveryPhase.FAILED, True)
    assert is_idle(turn(view(failed), now=NOW + 100))


def test_a_node_whose_annotation_a_person_removes_is_tried_again() -> None:
    known = state(RecoveryPhase.FAILED, test_failed=True, attempts=ATTEMPTS)
    again = turn(view(known, annotation="", faults=(XID,))).state
    assert (again.phase, again.attempts) == (RecoveryPhase.RECOVERING, 0)


def test_a_lost_annotation_leads_through_a_test_and_not_straight_back() -> None:
    for annotation in ("", "{", '{"phase":"gone"}'):
        found = turn(view(IN_SERVICE, annotation=annotation, taint="muster"))
        assert (found.state.phase, found.state.since) == (RecoveryPhase.VERIFYING, moment(NOW))


def test_an_unreadable_annotation_of_a_node_in_service_is_removed() -> None:
    found = turn(view(IN_SERVICE, annotation="{"))
    assert (found.writes, found.state.annotation()) == (True, "")


def test_a_taint_of_a_person_alone_asks_for_nothing() -> None:
    assert is_idle(turn(view(IN_SERVICE, taint="fans")))


def test_the_job_of_a_phase_that_is_over_is_deleted_if_it_runs() -> None:
    known = state(RecoveryPhase.VERIFYING)
    [(job, _)] = with_job(known, None).items()
    for succeeded, deleted in ((None, job), (False, None)):
        seen = view(known, faults=(XID,), jobs={job: RecoveryJob(SINCE, succeeded)})
        assert turn(seen).deletes == deleted
        assert turn(replace(seen, taint=None)).deletes == deleted


def test_a_node_that_is_back_says_so_and_remembers_its_attempts() -> None:
    known = state(RecoveryPhase.VERIFYING)
    [(job, _)] = with_job(known, None).items()
    found = turn(view(known, jobs=with_job(known, True)))
    assert said(found) == f"Job {job.name} succeeded: back in service"
    assert found.state == RecoveryState(phase=RecoveryPhase.NONE, since=moment(NOW), attempts=1)


def test_a_repair_counts_when_its_job_is_over_however_it_ended() -> None:
    known = state(RecoveryPhase.RECOVERING, attempts=0)
    for succeeded in (True, False):
        found = turn(view(known, faults=(XID,), jobs=with_job(known, succeeded))).state
        assert (found.phase, found.attempts) == (RecoveryPhase.VERIFYING, 1)
    again = structs.replace(known, attempts=1)
    assert job_of(NODE, again, RULES) != job_of(NODE, known, RULES), "the next attempt has a Job of its own"
