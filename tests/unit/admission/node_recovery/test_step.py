"""One node: faults that come back, persons, restarts, and what is shown."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.jobs import job_name
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.step import (
    ATTEMPTS,
    ATTEMPTS_WITHIN,
    SETTLE_TIMEOUT,
    CircuitBreaker,
    NodeEvent,
    NodeTurn,
    reports_known_devices,
)
from admission.node_recovery.view import (
    KILLS_PODS,
    BlackHole,
    JobProgress,
    RecoveryJob,
    TaintOwner,
)
from tests.builders.node_agents.node_devices import reported
from tests.unit.admission.node_recovery.recovered_nodes import (
    LOST,
    MARKED,
    NODE,
    NOW,
    POLICY,
    SINCE,
    XID,
    fault_of,
    gang,
    job_of,
    state,
    turn,
    view,
)

HOLE = BlackHole(since=SINCE, gangs=3)


def said(found: NodeTurn) -> str:
    return "" if found.event is None else found.event.message


def test_a_node_is_closed_with_its_fault_in_words(golden: Any) -> None:
    found = turn(view(RecoveryState(), faults=(XID,), gangs=(gang("on", 3), gang("beside", 0))))
    assert found.writes
    assert found.state.annotation() == golden
    expected = (
        "GPU 3: Xid79 (fallen off the bus): closed to new GPU work: 1 gang on unhealthy devices must go now, "
        "1 gang may go on for 1h"
    )
    assert found.event == NodeEvent("GpuNodeDraining", expected, warning=True)


def test_a_node_waits_where_the_circuit_breaker_does_not_let_it_go_and_that_is_said_once(golden: Any) -> None:
    crowded = CircuitBreaker(out=3, most_out=3)
    first = turn(view(RecoveryState(), faults=(XID,)), breaker=crowded)
    assert first.state.waits == "circuit-breaker"
    assert said(first) == golden
    assert turn(view(first.state, faults=(XID,)), now=NOW + 60, breaker=crowded).is_idle
    gone = turn(view(first.state), now=NOW + 60, breaker=crowded)
    assert (gone.writes, gone.state.annotation()) == (True, "")


def test_a_gang_whose_devices_are_not_known_may_be_on_the_faulty_one() -> None:
    seen = view(state(RecoveryPhase.DRAINING), faults=(XID,), gangs=(gang("unknown"), gang("beside", 0)))
    assert [key.uid for key in turn(seen).evicted] == ["unknown"]


def test_a_node_looks_again_when_its_gangs_have_to_go() -> None:
    seen = view(state(RecoveryPhase.DRAINING), faults=(XID,), gangs=(gang("beside", 0),))
    assert turn(seen).look_again == SINCE + POLICY.drain_timeout


def test_the_next_attempt_has_a_job_of_another_name() -> None:
    first = state(RecoveryPhase.RECOVERING)
    assert job_name(NODE, replace(first, attempts=2)) != job_name(NODE, first)
    assert job_name(NODE, replace(first, since=SINCE + 1)) != job_name(NODE, first)


def test_a_job_that_was_seen_and_is_gone_is_not_made_again() -> None:
    known = state(RecoveryPhase.RECOVERING)
    seen = turn(view(known, faults=(XID,), jobs=job_of(known, JobProgress.RUNNING)))
    assert seen.state.job == job_name(NODE, known)
    gone = turn(view(seen.state, faults=(XID,)))
    assert (gone.state.phase, gone.creates) == (RecoveryPhase.VERIFYING, None)


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
    assert turn(replace(silent, annotation=first.state.annotation()), now=NOW + 10**6).is_idle
    create = turn(view(first.state, faults=faults)).creates
    assert create is not None
    assert create.name == job_name(NODE, known)


def test_what_is_waited_for_while_a_node_is_verified_is_said() -> None:
    waits = "the fault is gone: waits until its devices are reported as healthy"
    for policy, expected in (
        (replace(POLICY, verify_job=None), waits),
        (POLICY, f"{waits}, then it is tested by a Job from ops/test-gpu"),
    ):
        found = turn(view(state(RecoveryPhase.DRAINING)), policy)
        assert found.event == NodeEvent("GpuNodeVerifying", expected)


def test_why_the_agent_is_waited_for_is_said() -> None:
    known, late = state(RecoveryPhase.VERIFYING), SINCE + SETTLE_TIMEOUT
    found = turn(view(known, is_reported=False), now=late)
    assert (found.state.phase, found.state.waits) == (RecoveryPhase.VERIFYING, "agent")
    assert said(found) == "a device that was unhealthy is not reported any more: waits for the agent"


def test_foreign_pods_are_waited_for() -> None:
    found = turn(view(state(RecoveryPhase.DRAINING), faults=(XID,), foreign_pods=2))
    assert found.state.waits == "foreign-pods"
    assert said(found).startswith("2 pods that Muster did not admit hold devices")


def test_a_node_that_only_killed_pods_is_not_kept_closed_by_an_agent_that_it_never_had() -> None:
    known = state(RecoveryPhase.VERIFYING, devices=())
    policy = replace(POLICY, verify_job=None)
    assert turn(view(known, is_reported=False), policy).state.phase is RecoveryPhase.NONE


def test_another_fault_does_not_hide_the_one_whose_device_is_not_reported() -> None:
    known = state(RecoveryPhase.DRAINING, fault="GPU 5: Xid79", devices=("GPU-5",))
    for seen in (
        view(known, is_reported=False, faults=(XID,)),
        view(known, is_reported=False, black_hole=HOLE),
    ):
        entered = turn(seen).state
        assert entered.phase is RecoveryPhase.RECOVERING
        assert (entered.devices, entered.fault) == (("GPU-5",), "GPU 5: Xid79")


def test_every_device_with_a_fault_is_remembered_and_none_by_the_words_of_a_message() -> None:
    lost = [fault_of(LOST, number=number) for number in range(8)]
    closed = turn(view(RecoveryState(), faults=tuple(lost))).state
    assert closed.devices == tuple(f"GPU-{number}" for number in range(8))
    assert not reports_known_devices(closed.annotation(), map(reported, range(7)))
    words = XID._replace(message="see RMA 12, GPU 9: bad fan")
    for device, known in (("GPU-3", reported(3)), ("", reported(3, id=""))):
        seen = turn(view(RecoveryState(), faults=(words._replace(device=device),))).state
        assert reports_known_devices(seen.annotation(), [known])
        assert not reports_known_devices(seen.annotation(), [reported(4), reported(9)])


def test_a_device_with_a_fault_is_known_by_its_uuid() -> None:
    known = state(RecoveryPhase.RECOVERING).annotation()
    assert not reports_known_devices(known, [reported(3, id="GPU-4")])
    assert reports_known_devices(known, [reported(1, id="GPU-3")])
    well = replace(state(RecoveryPhase.NONE, attempts=1), devices=("GPU-3",)).annotation()
    for annotation in (well, "spoiled", ""):
        assert reports_known_devices(annotation, [reported(1)])
        assert not reports_known_devices(annotation, ())


def test_a_fault_that_soon_comes_back_goes_on_counting_attempts() -> None:
    known = state(RecoveryPhase.NONE, attempts=ATTEMPTS)
    soon = SINCE + ATTEMPTS_WITHIN - 1
    draining = turn(view(known, faults=(XID,)), now=soon).state
    assert turn(view(draining, faults=(XID,)), now=soon).state.phase is RecoveryPhase.FAILED


def test_attempts_are_forgotten_after_a_day() -> None:
    known, ends = state(RecoveryPhase.NONE, attempts=2), SINCE + ATTEMPTS_WITHIN
    before = turn(view(known), now=ends - 1)
    assert (before.is_idle, before.look_again) == (True, ends)
    over = turn(view(known), now=ends)
    assert (over.writes, over.state.annotation()) == (True, "")


def opened_by_hand(known: RecoveryState, **seen: Any) -> NodeTurn:
    return turn(view(known, taint=TaintOwner.ABSENT, **seen))


def test_a_person_who_takes_the_taint_away_accepts_the_fault_and_only_that_one() -> None:
    other = DeviceFault(device="GPU-0", number=0, reason="EccUncorrected", message="", since=NOW)
    opened = opened_by_hand(state(RecoveryPhase.FAILED), faults=(XID,))
    assert opened.state.accepted == ("GPU-3/Xid79",)
    assert turn(view(opened.state, faults=(XID,))).is_idle
    again = turn(view(opened.state, faults=(XID, other)))
    assert (again.state.phase, again.state.fault) == (RecoveryPhase.DRAINING, "GPU 0: EccUncorrected")


def test_a_lighter_fault_of_the_same_device_counts_though_the_worst_one_is_accepted() -> None:
    ecc = FaultCondition("EccUncorrected", "UncorrectedErrors", "reset it", NOW)
    opened = opened_by_hand(state(RecoveryPhase.FAILED), faults=(fault_of(LOST),))
    assert turn(view(opened.state, faults=(fault_of(LOST),))).is_idle
    again = turn(view(opened.state, faults=(fault_of(LOST, ecc),))).state
    assert (again.phase, again.fault) == (RecoveryPhase.DRAINING, "GPU 3: UncorrectedErrors (reset it)")
    both = opened_by_hand(again, faults=(fault_of(LOST, ecc),)).state
    assert both.accepted == ("GPU-3/EccUncorrected/UncorrectedErrors", "GPU-3/Lost/FallenOffTheBus")
    left = turn(view(both, faults=(fault_of(ecc),))).state
    assert (left.phase, left.accepted) == (RecoveryPhase.NONE, ("GPU-3/EccUncorrected/UncorrectedErrors",))


def test_an_accepted_fault_counts_again_when_it_was_gone() -> None:
    gone = turn(view(state(RecoveryPhase.NONE, accepted=("GPU-3/Xid79",))))
    assert (gone.writes, gone.state.annotation()) == (True, "")


def test_a_person_who_opens_a_node_that_killed_pods_has_a_gang_tried_there() -> None:
    opened = opened_by_hand(state(RecoveryPhase.FAILED), black_hole=HOLE)
    assert opened.state.accepted == (KILLS_PODS,)
    assert opened.tries_gang


def test_a_fault_that_no_job_ends_waits_for_a_person_and_uses_up_no_attempt() -> None:
    known, faults = state(RecoveryPhase.DRAINING, attempts=0), (fault_of(LOST, MARKED),)
    first = turn(view(known, faults=faults))
    assert (first.state.phase, first.state.attempts) == (RecoveryPhase.DRAINING, 0)
    assert first.state.waits == "person"
    assert said(first) == "GPU 3: MarkedByPerson (fans): no Job ends this: waits for a person"
    assert turn(view(first.state, faults=faults), now=NOW + 10**6).is_idle
    unmarked = turn(view(first.state, faults=(fault_of(LOST),))).state
    assert (unmarked.phase, unmarked.attempts) == (RecoveryPhase.RECOVERING, 1)
    well = turn(view(first.state)).state
    assert (well.phase, well.attempts) == (RecoveryPhase.VERIFYING, 0)


def test_gangs_leave_a_node_that_waits_for_a_person() -> None:
    known, faults = state(RecoveryPhase.DRAINING, attempts=0), (fault_of(MARKED),)
    seen = view(known, faults=faults, gangs=(gang("on", 3), gang("beside", 0)))
    assert [key.uid for key in turn(seen).evicted] == ["on"]
    assert [key.uid for key in turn(seen, now=SINCE + POLICY.drain_timeout).evicted] == ["beside", "on"]


def test_a_failed_test_is_not_taken_for_a_fault_that_is_gone() -> None:
    known = state(RecoveryPhase.VERIFYING, attempts=ATTEMPTS)
    failed = turn(view(known, jobs=job_of(known, JobProgress.FAILED))).state
    assert (failed.phase, failed.test_failed) == (RecoveryPhase.FAILED, True)
    assert turn(view(failed), now=NOW + 100).is_idle


def test_a_node_whose_annotation_a_person_removes_is_tried_again() -> None:
    known = state(RecoveryPhase.FAILED, test_failed=True, attempts=ATTEMPTS)
    again = turn(view(known, annotation="", faults=(XID,))).state
    assert (again.phase, again.attempts) == (RecoveryPhase.RECOVERING, 1)


def test_after_a_failed_test_the_repair_job_runs_though_no_fault_is_reported() -> None:
    assert turn(view(state(RecoveryPhase.RECOVERING, test_failed=True))).creates


def test_a_lost_annotation_leads_through_a_test_and_not_straight_back() -> None:
    for annotation in ("", "{", '{"phase":"gone"}'):
        found = turn(view(RecoveryState(), annotation=annotation, taint=TaintOwner.MUSTER))
        assert (found.state.phase, found.state.since) == (RecoveryPhase.VERIFYING, NOW)


def test_an_unreadable_annotation_of_a_node_in_service_is_removed() -> None:
    found = turn(view(RecoveryState(), annotation="{"))
    assert (found.writes, found.state.annotation()) == (True, "")


def test_a_taint_of_a_person_alone_asks_for_nothing() -> None:
    assert turn(view(RecoveryState(), taint=TaintOwner.PERSON)).is_idle


def test_jobs_of_phases_that_are_over_are_deleted() -> None:
    left = RecoveryJob(namespace="ops", name="muster-recover-gpu-7-old", created=SINCE)
    seen = view(state(RecoveryPhase.FAILED), faults=(XID,), jobs={left.name: left})
    assert turn(seen).deletes == (left,)
    assert turn(replace(seen, jobs={left.name: replace(left, deleting=True)})).is_idle


def test_a_node_that_is_back_says_so_and_remembers_its_attempts() -> None:
    known = state(RecoveryPhase.VERIFYING)
    found = turn(view(known, jobs=job_of(known, JobProgress.SUCCEEDED)))
    assert said(found) == f"Job {job_name(NODE, known)} succeeded: back in service"
    assert found.state == RecoveryState(since=NOW, attempts=1)


def test_long_faults_do_not_make_the_annotation_change_again_and_again() -> None:
    long, policy = XID._replace(message="x" * 5000), replace(POLICY, job=None)
    closed = turn(view(RecoveryState(), faults=(long,)), policy)
    assert len(closed.state.annotation()) < 1000
    assert turn(view(closed.state, faults=(long,)), policy).is_idle
