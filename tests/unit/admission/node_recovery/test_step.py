"""One node: faults that come back, persons, restarts, and what is told."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.effects import (
    CreateJob,
    DeleteJob,
    EvictGangs,
    Tell,
    TryNode,
    WriteNode,
)
from admission.node_recovery.recovery_jobs import job_name
from admission.node_recovery.state import FaultCause, RecoveryPhase, RecoveryState, StartedBy, WaitsFor
from admission.node_recovery.step import step
from admission.node_recovery.step_input import LACKS_DEVICES, lacks_devices
from admission.node_recovery.view import (
    KILLS_PODS,
    BlackHole,
    JobProgress,
    RecoveryContext,
    RecoveryJob,
    TaintOwner,
)
from tests.builders.node_agents.node_devices import reported
from tests.unit.admission.node_recovery.recovered_nodes import (
    CONTEXT,
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
    view,
)

PERSON = StartedBy.PERSON


def test_a_node_is_cordoned_with_its_fault_in_words() -> None:
    turn = step(view(RecoveryState(), faults=(XID,)), CONTEXT, POLICY, NOW)
    write, tell = turn.effects
    assert isinstance(write, WriteNode)
    assert write.annotation == (
        '{"phase":"cordoned","since":"2027-01-15T08:01:40Z","faultSince":"2027-01-15T07:59:00Z","cause":"device",'
        '"fault":"GPU 3: Xid79 (fallen off the bus)","devices":["GPU-3"],"by":"muster"}'
    )
    assert tell == Tell(
        node=NODE,
        reason="GpuNodeCordoned",
        message="GPU 3: Xid79 (fallen off the bus): no new GPU work",
        warning=True,
    )


def test_a_node_waits_where_the_circuit_breaker_does_not_let_it_go_and_that_is_told_once() -> None:
    crowded = RecoveryContext(out=3, most_out=3, templates=CONTEXT.templates)
    first = step(view(RecoveryState(), faults=(XID,)), crowded, POLICY, NOW)
    assert first.state.waits is WaitsFor.CIRCUIT_BREAKER
    assert [effect.message for effect in first.effects if isinstance(effect, Tell)] == [
        "GPU 3: Xid79 (fallen off the bus): nothing is done now (3 nodes out of service, cordoned or not ready; the "
        "policy allows 3)"
    ]
    assert step(view(first.state, faults=(XID,)), crowded, POLICY, NOW + 60).effects == ()
    gone = step(view(first.state), crowded, POLICY, NOW + 60)
    assert gone.effects == (WriteNode(node=NODE, annotation="", tainted=False),)


def test_a_gang_whose_devices_are_not_known_may_be_on_the_faulty_one() -> None:
    shown = view(state(RecoveryPhase.DRAINING), faults=(XID,), gangs=(gang("unknown"), gang("beside", 0)))
    (evict,) = step(shown, CONTEXT, POLICY, NOW).effects
    assert isinstance(evict, EvictGangs)
    assert [key.uid for key in evict.gangs] == ["unknown"]


def test_a_node_looks_again_when_its_gangs_have_to_go() -> None:
    shown = view(state(RecoveryPhase.DRAINING), faults=(XID,), gangs=(gang("beside", 0),))
    assert step(shown, CONTEXT, POLICY, NOW).look_again == SINCE + 3600


def test_a_person_who_asks_to_drain_has_all_gangs_evicted_now() -> None:
    known = state(RecoveryPhase.DRAINING, by=PERSON, cause=FaultCause.PERSON)
    (evict,) = step(view(known, gangs=(gang("any", 0),), hold=True), CONTEXT, POLICY, NOW).effects
    assert isinstance(evict, EvictGangs)
    assert evict.message == "node gpu-7 is taken out of service"


def test_a_node_that_a_person_drained_stays_out_until_the_next_word() -> None:
    known = state(RecoveryPhase.DRAINING, by=PERSON, cause=FaultCause.PERSON)
    assert step(view(known), CONTEXT, POLICY, NOW + 10**6).effects == ()


def test_the_next_attempt_has_a_job_of_another_name() -> None:
    first = state(RecoveryPhase.RECOVERING)
    assert job_name(NODE, replace(first, attempts=2)) != job_name(NODE, first)
    assert job_name(NODE, replace(first, since=SINCE + 1)) != job_name(NODE, first)


def test_a_job_that_was_seen_and_is_gone_is_not_made_again() -> None:
    known = state(RecoveryPhase.RECOVERING)
    seen = step(view(known, faults=(XID,), jobs=job_of(known, JobProgress.RUNNING)), CONTEXT, POLICY, NOW)
    assert seen.state.job == job_name(NODE, known)
    gone = step(view(seen.state, faults=(XID,)), CONTEXT, POLICY, NOW)
    assert gone.state.attempts == known.attempts + 1
    assert not any(isinstance(effect, CreateJob) for effect in gone.effects)


def test_a_missing_template_is_told_once_and_costs_no_attempt() -> None:
    known, without = state(RecoveryPhase.RECOVERING), replace(CONTEXT, templates=frozenset())
    first = step(view(known, faults=(XID,)), without, POLICY, NOW)
    assert first.state == replace(known, waits=WaitsFor.TEMPLATE)
    assert "waits for CronJob ops/recover-gpu, which does not exist or cannot be read" in str(first.effects)
    assert step(view(first.state, faults=(XID,)), without, POLICY, NOW + 9999).effects == ()
    there = step(view(first.state, faults=(XID,)), CONTEXT, POLICY, NOW)
    assert any(isinstance(effect, CreateJob) for effect in there.effects)


def test_a_refused_job_is_told_and_tried_again() -> None:
    known = state(RecoveryPhase.RECOVERING)
    turn = step(view(known, faults=(XID,), refused="exceeded quota"), CONTEXT, POLICY, NOW)
    assert turn.state.waits is WaitsFor.JOB_REFUSED
    assert [type(effect) for effect in turn.effects] == [WriteNode, Tell, CreateJob]
    assert "exceeded quota" in str(turn.effects)


@pytest.mark.parametrize("phase", [RecoveryPhase.RECOVERING, RecoveryPhase.VERIFYING])
def test_a_job_waits_for_its_node_to_be_ready_and_that_uses_up_no_attempt(phase: RecoveryPhase) -> None:
    known = state(phase)
    faults = (XID,) if phase is RecoveryPhase.RECOVERING else ()
    silent = view(known, faults=faults, ready=False)
    first = step(silent, CONTEXT, POLICY, NOW)
    assert (first.state.phase, first.state.attempts, first.state.waits) == (phase, 1, WaitsFor.NODE)
    assert "the node is not ready: its Job waits until it is" in str(first.effects)
    assert (
        step(replace(silent, annotation=first.state.annotation()), CONTEXT, POLICY, NOW + 10**6).effects == ()
    )
    [create] = [
        effect
        for effect in step(view(first.state, faults=faults), CONTEXT, POLICY, NOW).effects
        if isinstance(effect, CreateJob)
    ]
    assert create.name == job_name(NODE, known)


def test_what_is_waited_for_while_a_node_is_verified_is_told() -> None:
    policy = replace(POLICY, verify_job=None)
    for each, expected in (
        (policy, "waits until its devices are reported as healthy"),
        (
            POLICY,
            "waits until its devices are reported as healthy, then it is tested by a Job from ops/test-gpu",
        ),
    ):
        turn = step(view(state(RecoveryPhase.CORDONED)), CONTEXT, each, NOW)
        [tell] = [effect for effect in turn.effects if isinstance(effect, Tell)]
        assert (tell.reason, tell.message) == ("GpuNodeVerifying", f"the fault is gone: {expected}")


def test_why_the_agent_is_waited_for_is_told() -> None:
    known, late = state(RecoveryPhase.VERIFYING), SINCE + POLICY.verify_timeout
    for renewed, expected in (
        (SINCE, "the agent has not renewed its lease since then"),
        (LACKS_DEVICES, "the agent does not report a device any more that was unhealthy"),
        (None, "no agent reports the devices any more"),
    ):
        told = step(view(known, lease_renewed_at=renewed), CONTEXT, POLICY, late).effects
        assert f"{expected}: waits for it" in str(told)


def test_foreign_pods_are_waited_for() -> None:
    turn = step(view(state(RecoveryPhase.DRAINING), faults=(XID,), foreign_pods=2), CONTEXT, POLICY, NOW)
    assert turn.state.waits is WaitsFor.FOREIGN_PODS
    assert "2 pods that Muster did not admit hold devices" in str(turn.effects)


def test_a_failed_recovery_job_is_not_believed_before_the_agent_had_time() -> None:
    known = state(RecoveryPhase.RECOVERING)
    jobs = job_of(known, JobProgress.FAILED)
    ends = NOW - 10 + POLICY.verify_timeout
    waiting = step(view(known, faults=(XID,), jobs=jobs), CONTEXT, POLICY, NOW)
    assert (waiting.state.attempts, waiting.look_again) == (1, ends)
    unread = step(view(known, faults=(XID,), jobs=jobs), CONTEXT, POLICY, ends)
    assert unread.state.attempts == 2  # it was read after the end of the Job
    stale = step(view(known, faults=(XID,), jobs=jobs, lease_renewed_at=NOW - 20), CONTEXT, POLICY, ends)
    assert (stale.state.attempts, stale.state.waits) == (1, WaitsFor.AGENT)


def test_a_node_whose_fault_was_reported_waits_until_its_devices_are_reported_again() -> None:
    known = state(RecoveryPhase.VERIFYING, fault="GPU 3: Xid79")
    late = SINCE + POLICY.verify_timeout
    for unread in (view(known, lease_renewed_at=None), view(known, lease_renewed_at=LACKS_DEVICES)):
        turn = step(unread, CONTEXT, POLICY, late)
        assert (turn.state.phase, turn.state.waits) == (RecoveryPhase.VERIFYING, WaitsFor.AGENT)
        asked = step(replace(unread, order="verify"), CONTEXT, POLICY, late)
        assert asked.state.cause is FaultCause.DEVICE, "a person's test does not make up for the report"
    drained = state(RecoveryPhase.VERIFYING, cause=FaultCause.PERSON, by=StartedBy.PERSON)
    policy = replace(POLICY, verify_job=None)
    assert step(view(drained, lease_renewed_at=None), CONTEXT, policy, NOW).state.phase is RecoveryPhase.NONE


def test_another_fault_does_not_hide_the_one_whose_device_is_not_reported() -> None:
    known = state(RecoveryPhase.DRAINING, fault="GPU 5: Xid79")
    hole = BlackHole(since=SINCE, gangs=3)
    for seen in (
        view(known, lease_renewed_at=LACKS_DEVICES, faults=(XID,)),
        view(known, lease_renewed_at=None, black_hole=hole),
    ):
        entered = step(seen, CONTEXT, POLICY, NOW).state
        assert entered.phase is RecoveryPhase.RECOVERING
        assert (entered.cause, entered.fault) == (FaultCause.DEVICE, "GPU 5: Xid79")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"fault": "GPU 3: Xid79 (GPU 9 has fallen off the bus)"}, {3}),
        ({"fault": "GPU 3: Xid79, GPU 4: Lost (gone), GPU 12: Lost and 5 more"}, {3, 4, 12}),
        ({"fault": "GPU 3: Lost and pods of 3 different gangs failed soon after their start"}, {3}),
        ({"fault": "GPU 3: Lost and GPU 4: Lo"}, {3, 4}),
        ({"fault": "GPU 3: Lost and GPU 4"}, {3}),
        ({"fault": "GPU 3: Lost", "cause": FaultCause.PERSON}, set()),
        ({}, set()),
    ],
)
def test_of_an_annotation_without_uuids_the_numbers_in_the_text_count(
    more: dict[str, Any], expected: set[int]
) -> None:
    annotation = state(RecoveryPhase.RECOVERING, **more).annotation()
    assert not lacks_devices(annotation, map(reported, expected))
    for number in expected:
        assert lacks_devices(annotation, map(reported, expected - {number}))
    assert not lacks_devices("spoiled", ())
    assert not lacks_devices("", ())


def test_every_device_with_a_fault_is_remembered_and_none_by_the_words_of_a_message() -> None:
    lost = [fault_of(LOST, number=number) for number in range(8)]
    cordoned = step(view(RecoveryState(), faults=tuple(lost)), CONTEXT, POLICY, NOW).state
    assert cordoned.devices == tuple(f"GPU-{number}" for number in range(8))
    assert lacks_devices(cordoned.annotation(), map(reported, range(7)))
    words = XID._replace(message="see RMA 12, GPU 9: bad fan")
    for device, known in (("GPU-3", reported(3)), ("", reported(3, id=""))):
        seen = step(
            view(RecoveryState(), faults=(words._replace(device=device),)), CONTEXT, POLICY, NOW
        ).state
        assert not lacks_devices(seen.annotation(), [known])
        assert lacks_devices(seen.annotation(), [reported(4), reported(9)])


def test_a_device_with_a_fault_is_known_by_its_uuid() -> None:
    known = state(RecoveryPhase.RECOVERING, fault="GPU 3: Xid79", devices=("GPU-3",)).annotation()
    assert lacks_devices(known, [reported(3, id="GPU-4")])
    assert not lacks_devices(known, [reported(1, id="GPU-3")])
    well = replace(state(RecoveryPhase.NONE, attempts=1), devices=("GPU-3",)).annotation()
    assert not lacks_devices(well, ())


def test_the_uuids_go_with_the_fault_that_a_person_replaces() -> None:
    known = state(RecoveryPhase.FAILED, devices=("GPU-3",))
    asked = step(view(known, order="drain"), CONTEXT, POLICY, NOW).state
    assert (asked.cause, asked.devices) == (FaultCause.PERSON, ())


def test_a_fault_that_soon_comes_back_goes_on_counting_attempts() -> None:
    known = state(RecoveryPhase.NONE, attempts=POLICY.attempts)
    soon = SINCE + POLICY.attempts_within - 1
    cordoned = step(view(known, faults=(XID,)), CONTEXT, POLICY, soon).state
    draining = step(view(cordoned, faults=(XID,)), CONTEXT, POLICY, soon).state
    assert step(view(draining, faults=(XID,)), CONTEXT, POLICY, soon).state.phase is RecoveryPhase.FAILED


def test_attempts_are_forgotten_after_a_while() -> None:
    known = state(RecoveryPhase.NONE, attempts=2)
    ends = SINCE + POLICY.attempts_within
    assert step(view(known), CONTEXT, POLICY, ends - 1) == replace(
        step(view(known), CONTEXT, POLICY, ends - 1), effects=(), look_again=ends
    )
    over = step(view(known), CONTEXT, POLICY, ends)
    assert over.effects == (WriteNode(node=NODE, annotation="", tainted=False),)


def test_a_person_accepts_a_fault_and_only_that_one() -> None:
    other = DeviceFault(device="GPU-0", number=0, reason="EccUncorrected", message="", since=NOW)
    done = step(view(state(RecoveryPhase.FAILED), faults=(XID,), order="done"), CONTEXT, POLICY, NOW)
    assert done.state.accepted == ("GPU-3/Xid79",)
    assert step(view(done.state, faults=(XID,)), CONTEXT, POLICY, NOW).effects == ()
    again = step(view(done.state, faults=(XID, other)), CONTEXT, POLICY, NOW)
    assert (again.state.phase, again.state.fault) == (RecoveryPhase.CORDONED, "GPU 0: EccUncorrected")


def test_a_lighter_fault_of_the_same_device_counts_though_the_worst_one_is_accepted() -> None:
    ecc = FaultCondition("EccUncorrected", "UncorrectedErrors", "reset it", NOW)
    done = step(
        view(state(RecoveryPhase.FAILED), faults=(fault_of(LOST),), order="done"), CONTEXT, POLICY, NOW
    )
    assert step(view(done.state, faults=(fault_of(LOST),)), CONTEXT, POLICY, NOW).effects == ()
    again = step(view(done.state, faults=(fault_of(LOST, ecc),)), CONTEXT, POLICY, NOW).state
    assert (again.phase, again.fault) == (RecoveryPhase.CORDONED, "GPU 3: UncorrectedErrors (reset it)")
    assert again.fault_since == NOW
    both = step(view(done.state, faults=(fault_of(LOST, ecc),), order="done"), CONTEXT, POLICY, NOW).state
    assert both.accepted == ("GPU-3/EccUncorrected/UncorrectedErrors", "GPU-3/Lost/FallenOffTheBus")
    left = step(view(both, faults=(fault_of(ecc),)), CONTEXT, POLICY, NOW).state
    assert (left.phase, left.accepted) == (RecoveryPhase.NONE, ("GPU-3/EccUncorrected/UncorrectedErrors",))


def test_what_an_older_muster_accepted_stays_accepted_until_its_worst_fault_is_over() -> None:
    before = state(RecoveryPhase.NONE, accepted=("GPU-3/FallenOffTheBus",))
    assert step(view(before, faults=(fault_of(LOST, MARKED),)), CONTEXT, POLICY, NOW).effects == ()
    over = step(view(before, faults=(fault_of(MARKED),)), CONTEXT, POLICY, NOW).state
    assert over.phase is RecoveryPhase.CORDONED


def test_a_fault_that_no_job_ends_waits_for_a_person_and_uses_up_no_attempt() -> None:
    known, faults = state(RecoveryPhase.DRAINING, attempts=0), (fault_of(LOST, MARKED),)
    first = step(view(known, faults=faults), CONTEXT, POLICY, NOW)
    assert (first.state.phase, first.state.attempts) == (RecoveryPhase.DRAINING, 0)
    assert first.state.waits is WaitsFor.PERSON
    [tell] = [effect for effect in first.effects if isinstance(effect, Tell)]
    expected = "GPU 3: MarkedByPerson (fans): no recovery Job ends this: waits for a person"
    assert (tell.reason, tell.message) == ("GpuNodeWaits", expected)
    assert step(view(first.state, faults=faults), CONTEXT, POLICY, NOW + 10**6).effects == ()
    unmarked = step(view(first.state, faults=(fault_of(LOST),)), CONTEXT, POLICY, NOW).state
    assert (unmarked.phase, unmarked.attempts) == (RecoveryPhase.RECOVERING, 1)
    well = step(view(first.state), CONTEXT, POLICY, NOW).state
    assert (well.phase, well.attempts) == (RecoveryPhase.VERIFYING, 0)


def test_gangs_leave_a_node_that_waits_for_a_person() -> None:
    known, faults = state(RecoveryPhase.DRAINING, attempts=0), (fault_of(MARKED),)
    seen = view(known, faults=faults, gangs=(gang("on", 3), gang("beside", 0)))
    [on] = step(seen, CONTEXT, POLICY, NOW).effects
    assert [key.uid for key in on.gangs] == ["on"]  # type: ignore[union-attr]
    [all_of_them] = step(seen, CONTEXT, POLICY, SINCE + POLICY.drain_timeout).effects
    assert [key.uid for key in all_of_them.gangs] == ["beside", "on"]  # type: ignore[union-attr]


def test_a_person_may_have_a_job_run_whatever_the_fault() -> None:
    faults = (fault_of(MARKED),)
    asked = step(
        view(state(RecoveryPhase.DRAINING), faults=faults, order="recover"), CONTEXT, POLICY, NOW
    ).state
    [create] = step(view(asked, faults=faults), CONTEXT, POLICY, NOW).effects
    assert isinstance(create, CreateJob)
    jobs = job_of(asked, JobProgress.SUCCEEDED)
    tested = step(view(asked, faults=faults, jobs=jobs), CONTEXT, POLICY, NOW).state
    after = step(view(tested, faults=faults, lease_renewed_at=NOW + 1), CONTEXT, POLICY, NOW + 2).state
    assert (after.phase, after.attempts) == (RecoveryPhase.DRAINING, asked.attempts)


def test_an_accepted_fault_counts_again_when_it_was_gone() -> None:
    accepted = state(RecoveryPhase.NONE, accepted=("GPU-3/Xid79",))
    gone = step(view(accepted), CONTEXT, POLICY, NOW)
    assert gone.effects == (WriteNode(node=NODE, annotation="", tainted=False),)


def test_an_order_takes_back_that_a_fault_was_accepted() -> None:
    accepted = state(RecoveryPhase.NONE, accepted=("GPU-3/Xid79",))
    turn = step(view(accepted, faults=(XID,), order="recover"), CONTEXT, POLICY, NOW)
    assert (turn.state.accepted, turn.state.cause) == ((), FaultCause.DEVICE)


def test_a_person_who_says_done_has_a_node_tried_that_killed_pods() -> None:
    hole = BlackHole(since=SINCE, gangs=3)
    turn = step(view(state(RecoveryPhase.FAILED), black_hole=hole, order="done"), CONTEXT, POLICY, NOW)
    assert turn.state.accepted == (KILLS_PODS,)
    assert TryNode(node=NODE) in turn.effects


def test_the_order_is_consumed_in_the_write_that_follows_it() -> None:
    turn = step(view(RecoveryState(), order="cordon"), CONTEXT, POLICY, NOW)
    (write,) = (effect for effect in turn.effects if isinstance(effect, WriteNode))
    assert write.consumes_order
    assert write.tainted
    assert (turn.state.by, turn.state.cause) == (PERSON, FaultCause.PERSON)


def test_an_order_counts_under_every_policy_and_beyond_the_circuit_breaker() -> None:
    policy = replace(POLICY, recovers=False, max_nodes_out=0)
    known = step(view(RecoveryState(), order="recover"), RecoveryContext(most_out=0), policy, NOW).state
    (create,) = step(view(known), CONTEXT, policy, NOW).effects
    assert isinstance(create, CreateJob)


def test_what_a_person_asked_for_on_a_well_node_is_not_tried_again() -> None:
    known = state(RecoveryPhase.RECOVERING, by=PERSON, cause=FaultCause.PERSON)
    turn = step(view(known, jobs=job_of(known, JobProgress.FAILED)), CONTEXT, POLICY, NOW)
    assert (turn.state.phase, turn.state.cause) == (RecoveryPhase.FAILED, FaultCause.PERSON)
    assert step(view(turn.state), CONTEXT, POLICY, NOW + 10**6).effects == ()


def test_a_recovery_job_of_a_person_runs_though_the_node_is_well_and_has_gangs() -> None:
    known = state(RecoveryPhase.RECOVERING, by=PERSON, cause=FaultCause.PERSON)
    (create,) = step(view(known, gangs=(gang("any", 0),)), CONTEXT, POLICY, NOW).effects
    assert isinstance(create, CreateJob)


def test_hold_lets_the_step_of_a_person_go_on_but_not_the_next_one() -> None:
    known = state(RecoveryPhase.RECOVERING, by=PERSON, cause=FaultCause.PERSON)
    assert step(view(known, hold=True), CONTEXT, POLICY, NOW).effects
    done = view(known, hold=True, jobs=job_of(known, JobProgress.SUCCEEDED))
    assert step(done, CONTEXT, POLICY, NOW).effects == ()
    assert step(replace(done, hold=False), CONTEXT, POLICY, NOW).state.phase is RecoveryPhase.VERIFYING


def test_a_failed_test_is_not_taken_for_a_fault_that_is_gone() -> None:
    known = state(RecoveryPhase.VERIFYING, attempts=POLICY.attempts)
    failed = step(view(known, jobs=job_of(known, JobProgress.FAILED)), CONTEXT, POLICY, NOW).state
    assert (failed.phase, failed.cause) == (RecoveryPhase.FAILED, FaultCause.VERIFICATION)
    assert step(view(failed, lease_renewed_at=NOW + 99), CONTEXT, POLICY, NOW + 100).effects == ()


def test_a_node_whose_test_failed_comes_back_by_another_test_that_a_person_asks_for() -> None:
    known = state(RecoveryPhase.FAILED, cause=FaultCause.VERIFICATION, attempts=POLICY.attempts)
    asked = step(view(known, order="verify"), CONTEXT, POLICY, NOW).state
    assert asked.phase is RecoveryPhase.VERIFYING
    later = NOW + 10
    tested = view(asked, lease_renewed_at=later, jobs=job_of(asked, JobProgress.SUCCEEDED))
    assert step(tested, CONTEXT, POLICY, later).state.phase is RecoveryPhase.NONE


def test_after_a_failed_test_the_recovery_job_runs_though_no_fault_is_reported() -> None:
    known = state(RecoveryPhase.RECOVERING, cause=FaultCause.VERIFICATION)
    (create,) = step(view(known), CONTEXT, POLICY, NOW).effects
    assert isinstance(create, CreateJob)


def test_a_lost_annotation_leads_through_a_test_and_not_straight_back() -> None:
    for annotation in ("", "{", '{"phase":"gone"}'):
        lost = view(RecoveryState(), annotation=annotation, taint=TaintOwner.MUSTER)
        turn = step(lost, CONTEXT, POLICY, NOW)
        assert turn.state.phase is RecoveryPhase.VERIFYING
        assert turn.state.since == NOW


def test_an_unreadable_annotation_of_a_node_in_service_is_removed() -> None:
    turn = step(view(RecoveryState(), annotation="{"), CONTEXT, POLICY, NOW)
    assert turn.effects == (WriteNode(node=NODE, annotation="", tainted=False),)


def test_a_taint_of_a_person_alone_asks_for_nothing() -> None:
    assert step(view(RecoveryState(), taint=TaintOwner.PERSON), CONTEXT, POLICY, NOW).effects == ()


def test_jobs_of_phases_that_are_over_are_deleted() -> None:
    left = RecoveryJob(namespace="ops", name="muster-recover-gpu-7-old", created=SINCE)
    shown = view(state(RecoveryPhase.FAILED), faults=(XID,), jobs={left.name: left})
    assert step(shown, CONTEXT, POLICY, NOW).effects == (
        DeleteJob(node=NODE, namespace="ops", name=left.name),
    )
    going = replace(left, deleting=True)
    assert step(replace(shown, jobs={left.name: going}), CONTEXT, POLICY, NOW).effects == ()


def test_a_node_tells_how_long_it_was_away() -> None:
    known = state(RecoveryPhase.VERIFYING)
    turn = step(view(known, jobs=job_of(known, JobProgress.SUCCEEDED)), CONTEXT, POLICY, NOW)
    (tell,) = (effect for effect in turn.effects if isinstance(effect, Tell))
    assert tell.message == f"Job {job_name(NODE, known)} succeeded: back in service after 2m40s"
    assert turn.state == RecoveryState(since=NOW, attempts=1)


def test_long_faults_do_not_make_the_annotation_change_again_and_again() -> None:
    long = XID._replace(message="x" * 5000)
    turn = step(view(RecoveryState(), faults=(long,)), CONTEXT, replace(POLICY, attempts=9), NOW)
    assert len(turn.state.annotation()) < 1000
    held = view(turn.state, faults=(long,), hold=True)
    assert step(held, CONTEXT, POLICY, NOW).effects == ()
