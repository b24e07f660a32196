"""What the world makes of what it sees, and what it notes for Postgres."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import Memo, decide
from admission.facts.changes import Fact
from admission.facts.pods import PodFact, PodPhase
from admission.volcano_jobs.state import JobState, Phase
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.state import WorkloadState, derive_state
from admission.world.persistence import Unsaved
from admission.world.queues import Standing
from admission.world.world import World
from queues import kind_names
from queues.admissions import AdmissionState, ClosedAdmission, Seat, Setbacks
from queues.plan import Setback
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey
from queues.world_rows import WorldRows
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gated,
    gone,
    gpus,
    group,
    job,
    node,
    pod,
    queue,
    released,
    see,
    seen,
    volcano_job,
    world,
)

SUSPENDED = job(1, suspended=True)


def waiting() -> World:
    return world([SUSPENDED], arrivals={JOB: 1})


def seat(count: int) -> Seat:
    return Seat(pod_set="worker", ordinal=0, node=NodeName("n1"), takes=gpus(count))


def stored(known: World) -> None:
    unsaved = known.unsaved
    unsaved.discard(Unsaved(arrivals=unsaved.arrivals.copy(), described=unsaved.described.copy()))


def test_a_workload_that_ended_is_told_to_those_who_ask_who_waits() -> None:
    known = waiting()
    stored(known)
    see(known, replace(SUSPENDED, finished=True))
    assert JOB in known.unsaved.described


def test_what_changes_nothing_that_is_told_is_not_written_again() -> None:
    known = waiting()
    stored(known)
    see(known, replace(SUSPENDED, generation="2"))
    assert not known.unsaved


def test_a_job_that_has_ended_and_holds_nothing_only_counts_as_completed() -> None:
    known = see(waiting(), replace(SUSPENDED, finished=True))
    assert (JOB in known.states, known.is_there(JOB)) == (False, True)
    assert +known.queue_totals.workloads == {(TEAM, Standing.COMPLETED): 1}
    assert not known.freeze(NOW).pending
    see(known, gone(SUSPENDED))
    assert not known.is_there(JOB)
    assert not +known.queue_totals.workloads
    assert JOB in known.unsaved.departed


def test_a_job_that_has_ended_has_a_state_as_long_as_it_holds_seats_or_a_pod_of_it_runs() -> None:
    ended, running = job(1, finished=True), released("a", "main/0", "n1", owner=JOB)
    known = world([node("n1"), ended, running], [admission(JOB, "n1", started=True)])
    assert known.states[JOB].is_over
    see(known, replace(running, phase=PodPhase.SUCCEEDED))
    assert known.states[JOB].ended == {AdmissionId(1): frozenset({0})}
    known.put_admissions([replace(known.admissions[AdmissionId(1)], state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    assert JOB not in known.states


@pytest.mark.parametrize(("queue", "described"), [(TEAM, False), (QueueName("other"), True)])
def test_what_is_stored_as_ended_is_described_again_only_in_another_queue(
    queue: QueueName, described: bool
) -> None:
    known = World(WorldRows(arrivals={JOB: 1}, ended={JOB: queue}), Timeouts())
    see(known, replace(SUSPENDED, finished=True))
    assert (JOB in known.unsaved.described) is described
    assert +known.queue_totals.workloads == {(TEAM, Standing.COMPLETED): 1}


def test_what_is_stored_as_ended_and_is_not_there_any_more_leaves() -> None:
    known = World(WorldRows(arrivals={JOB: 1}, ended={JOB: TEAM}), Timeouts())
    known.refresh(NOW)
    assert JOB in known.unsaved.departed
    assert not +known.queue_totals.workloads


# ── whose pod it is ─────────────────────────────────────────────────────────────────────────────────────────


def test_pods_of_a_deleted_group_hold_their_seats_as_long_as_they_live() -> None:
    member = released("a", "member/0", "n1", group="gang")
    known = world([node("n1"), group(1), member], [admission(GROUP, "n1", pod_set="member", started=True)])
    see(known, gone(group(1)))
    found = known.states[GROUP]
    assert (found.is_over, found.ended) == (True, {})
    assert known.node_inventory.limit(NodeName("n1")) == node("n1").allocatable, "in the books, not foreign"
    see(known, gone(member))
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({0})}


def test_a_group_that_comes_to_stand_for_a_volcano_job_is_no_workload_any_more() -> None:
    standing = group(1, stands_for=VOLCANO)
    known = world([group(1), gated("a", group="gang", queue=TEAM)], arrivals={GROUP: 1})
    see(known, standing)
    assert GROUP not in known.states
    assert GROUP in known.unsaved.departed
    see(known, gone(standing))
    assert (known.facts, known.pod_index.job_groups) == ({}, {})


@pytest.mark.parametrize("phase", ["", "Running"])
def test_of_a_group_that_stands_for_a_volcano_job_what_it_says_is_known_and_only_the_job_is_looked_at(
    phase: str,
) -> None:
    known = world([])
    known.observe([seen(group(1, stands_for=VOLCANO, phase=phase))])
    (found,) = known.pod_index.job_groups.values()
    assert (found.key, found.phase) == (GROUP, phase)
    assert known.refresh(NOW) == {VOLCANO}


def test_a_group_that_stands_for_no_volcano_job_any_more_is_a_workload() -> None:
    known = world([group(1, stands_for=VOLCANO), gated("a", group="gang", queue=TEAM)])
    see(known, group(1))
    assert known.states.keys() == {GROUP}
    assert known.pod_index.job_groups == {}


def test_pods_of_a_group_that_comes_to_stand_for_a_volcano_job_keep_their_seats() -> None:
    member = released("a", "member/0", "n1", group="gang")
    known = world([node("n1"), group(1), member], [admission(GROUP, "n1", pod_set="member", started=True)])
    see(known, group(1, stands_for=VOLCANO))
    assert known.states[GROUP].ended == {}
    see(known, gone(member))
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({0})}


def test_a_member_of_a_deleted_group_that_was_not_admitted_waits_on_its_own() -> None:
    known = world([group(1), gated("a", group="gang", queue=TEAM)])
    see(known, gone(group(1)))
    obstacle = known.states[WorkloadKey(kind_names.POD, "a")].workload.obstacle
    assert obstacle.code == "PodGroupMissing"


def test_pods_that_came_before_their_group_are_its_members_once_it_is_there() -> None:
    known = world([gated("a", group="gang", queue=TEAM), gated("b", group="gang", queue=TEAM)])
    assert known.states.keys() == {WorkloadKey(kind_names.POD, uid) for uid in "ab"}
    see(known, group(2))
    assert known.states.keys() == {GROUP}
    assert known.states[GROUP].workload.obstacle is None


def test_a_new_group_of_the_same_name_takes_the_running_members_over() -> None:
    member = released("a", "member/0", "n1", group="gang")
    known = world([node("n1"), group(1), member], [admission(GROUP, "n1", pod_set="member", started=True)])
    again = replace(group(1), key=WorkloadKey(kind_names.POD_GROUP, "second"))
    see(known, gone(group(1)), again)
    assert known.states[GROUP].ended == {AdmissionId(1): frozenset({0})}
    assert known.states[again.key].unbooked is not None


def test_the_pods_of_a_queued_job_are_its_own_though_they_name_a_group() -> None:
    member = gated("a", owner=JOB, group="gang")
    known = world([group(1), job(1), member])
    assert known.pod_index.of(JOB) == [member]
    assert known.pod_index.of(GROUP) == []


def test_pods_of_a_job_without_a_queue_are_members_of_the_group_they_name() -> None:
    member = gated("a", owner=JOB, group="gang")
    assert world([group(1), job(1, queue=None), member]).pod_index.of(GROUP) == [member]


def test_a_job_that_leaves_its_queue_keeps_what_it_holds_until_it_is_over() -> None:
    runs = released("a", "main/0", "n1", owner=JOB)
    known = world([node("n1"), job(1), runs], [admission(JOB, "n1", started=True)])
    see(known, job(1, queue=None))
    assert known.states[JOB].ended == {}
    assert known.states[JOB].unbooked is None


def test_a_foreign_pod_takes_from_its_node_until_it_ends() -> None:
    foreign = pod("a", "n1")
    known = world([node("n1"), foreign])
    assert known.states == {}
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 7000
    known.observe([seen(replace(foreign, phase=PodPhase.SUCCEEDED))])
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 8000


def test_an_adopted_pod_is_charged_once() -> None:
    member = pod("a", "n1", owner=JOB)
    known = world([node("n1"), job(1), member])
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 7000
    known.put_admissions([admission(JOB, "n1", adopted={"a": 0}, started=True)])
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 7000
    known.refresh(NOW)
    assert known.states[JOB].unbooked is None


# ── what is remembered ──────────────────────────────────────────────────────────────────────────────────────


def test_how_an_adopted_pod_of_a_volcano_job_ended_is_remembered() -> None:
    """It has no seat written on it; its task and index tell."""
    ended = pod("a", "n1", owner=VOLCANO, task="worker", index=1, phase=PodPhase.SUCCEEDED)
    known = world([volcano_job(2), ended])
    assert known.volcano_jobs.outcomes == {VOLCANO: {("worker", 1): PodPhase.SUCCEEDED}}


def member(phase: PodPhase, **facts: Any) -> PodFact:
    """The second pod of the Volcano Job, with our finalizer."""
    given = {"owner": VOLCANO, "task": "worker", "index": 1, "kept": True}
    return pod("a", "n1", phase=phase, **given | facts)


def test_a_pod_that_was_being_deleted_did_not_end_by_itself() -> None:
    ended = member(PodPhase.FAILED, deleting=True, ended_first=False)
    assert world([volcano_job(2), ended]).volcano_jobs.outcomes == {}


def test_what_had_succeeded_before_it_was_deleted_counts_though_nobody_was_there_to_see() -> None:
    ended = member(PodPhase.SUCCEEDED, deleting=True, ended_first=None)
    found = world([volcano_job(2), ended]).volcano_jobs.outcomes
    assert found == {VOLCANO: {("worker", 1): PodPhase.SUCCEEDED}}
    found = world([volcano_job(2), replace(ended, phase=PodPhase.FAILED)]).volcano_jobs.outcomes
    assert found == {}, "it runs again, as whoever deleted it wants"


def test_what_was_seen_to_live_on_after_its_deletion_did_not_succeed() -> None:
    """Its grace is over, so that the pod itself cannot tell any more."""
    told = member(PodPhase.RUNNING, deleting=True, ended_first=False)
    known = world([volcano_job(2), told])
    known.observe([seen(replace(told, phase=PodPhase.SUCCEEDED))])
    for ready in (NOW, None):
        known.observe([seen(replace(told, phase=PodPhase.SUCCEEDED, ended_first=None, ready_since=ready))])
    assert known.volcano_jobs.outcomes == {}


def test_how_pods_ended_whose_job_is_gone_is_nothing_to_remember() -> None:
    """They may outlive it for a while; a leader that comes then would store what nobody ever removes."""
    known = world([member(PodPhase.SUCCEEDED)])
    known.refresh(NOW)
    assert known.volcano_jobs.outcomes == {}
    assert not known.unsaved
    assert may_disappear(known) == ["a"]


def may_disappear(known: World) -> list[str]:
    return [each.name for each in known.volcano_jobs.may_disappear()]


def test_a_pod_may_go_once_it_is_stored_how_it_ended() -> None:
    known = world([volcano_job(2), member(PodPhase.RUNNING)])
    assert may_disappear(known) == []
    known.observe([seen(member(PodPhase.SUCCEEDED))])
    assert may_disappear(known) == []
    known.unsaved.discard(Unsaved(outcomes={"a": known.unsaved.outcomes["a"]}))
    assert may_disappear(known) == ["a"]
    known.observe([seen(member(PodPhase.SUCCEEDED, kept=False))])
    assert may_disappear(known) == []


def test_a_pod_whose_end_does_not_count_may_go_when_it_has_ended() -> None:
    told = member(PodPhase.RUNNING, deleting=True, ended_first=False)
    known = world([volcano_job(2), told])
    assert may_disappear(known) == [], "it may be about to succeed"
    known.observe([seen(replace(told, phase=PodPhase.FAILED))])
    assert may_disappear(known) == ["a"]


def test_a_pod_that_lives_on_may_go_if_nobody_asks_how_it_ends() -> None:
    told = member(PodPhase.RUNNING, deleting=True, ended_first=False)
    cases: list[list[Fact]] = [
        [told],  # its Job is gone
        [volcano_job(2, deleting=True), told],
        [volcano_job(2), replace(told, forced=True)],
        [volcano_job(2), replace(told, version=3)],
        [replace(told, owner=None)],
    ]
    for facts in cases:
        assert may_disappear(world(facts)) == ["a"], facts
    over = world([volcano_job(2), told])
    over.put_job(VOLCANO, JobState(uid=VOLCANO.uid, phase=Phase.COMPLETED))
    assert may_disappear(over) == ["a"]


def test_pods_that_are_deleted_are_let_go_first() -> None:
    ended = member(PodPhase.FAILED, owner=None)
    at_leisure = [replace(ended, uid=name, name=name) for name in "bc"]
    known = world([*at_leisure, member(PodPhase.FAILED, deleting=True, ended_first=False)])
    assert may_disappear(known) == ["a", "b", "c"]


def test_a_later_rollback_never_shortens_the_wait() -> None:
    known = world([job(1)])
    known.put_setback(JOB, Setback(NOW + 100), NOW)
    known.put_setback(JOB, Setback(NOW), NOW)
    assert known.ledger.setbacks[JOB] == Setbacks(not_before=NOW + 100, rollbacks=2)


def test_closed_admissions_are_remembered_as_long_as_their_workload() -> None:
    known = world([job(1)], [admission(JOB, "n1")])
    known.put_admissions([replace(admission(JOB, "n1"), state=AdmissionState.CLOSED)])
    assert known.admission_index.closed == {AdmissionId(1): ClosedAdmission(JOB, TEAM, NOW - 60)}
    known.forget([JOB])
    assert known.admission_index.closed == {}


def test_a_node_that_shrinks_is_looked_at_by_those_who_sit_on_it() -> None:
    known = world([node("n1"), volcano_job(1)], [admission(VOLCANO, "n1", seats=(seat(8),))])
    assert known.states[VOLCANO].evictable == {}
    see(known, node("n1", count=4))
    assert known.states[VOLCANO].evictable.keys() == {AdmissionId(1)}


def test_what_others_took_beside_a_seat_does_not_matter_to_it() -> None:
    foreign = pod("f", "n1", takes=Resources({"memory": 1}))
    known = world([node("n1"), volcano_job(1), foreign], [admission(VOLCANO, "n1")])
    assert known.states[VOLCANO].evictable == {}


def test_a_workload_that_brings_a_defect_to_light_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> WorkloadState | None:
        if inputs.key == VOLCANO:
            raise ZeroDivisionError
        return derive_state(inputs, now, timeouts)

    monkeypatch.setattr("admission.world.world.derive_state", breaks)
    known = world([job(1), volcano_job(1)], [admission(VOLCANO, "n1")], arrivals={JOB: 1, VOLCANO: 2})
    assert known.freeze(NOW).pending[JOB].obstacle is None
    obstacle = known.freeze(NOW).pending[VOLCANO].obstacle
    assert obstacle.code == "Defect"
    assert known.take_defects().keys() == {VOLCANO}
    assert known.states[VOLCANO].ended == {}


# ── queues that are removed while something of them is held ─────────────────────────────────────────────────


def parent_and_child() -> list[Fact]:
    return [queue("parent"), queue("team", parent=QueueName("parent"))]


def test_what_a_removed_queue_holds_counts_along_its_path_until_it_ends() -> None:
    taken = admission(VOLCANO, "n1", started=True)
    own = released("a", "worker/0", "n1", owner=VOLCANO)
    known = world([node("n1"), *parent_and_child(), volcano_job(1), own], [taken])
    see(known, gone(queue("team")))
    removed = known.freeze(NOW).queues[QueueName("team")]
    assert (removed.parent, removed.removed, removed.broken) == ("parent", True, "it was removed")
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    assert QueueName("team") not in known.freeze(NOW).queues


def test_a_removed_queue_is_an_ordinary_one_once_it_is_made_again() -> None:
    known = world([node("n1"), *parent_and_child(), volcano_job(1)], [admission(VOLCANO, "n1")])
    known.observe([gone(queue("team")), seen(queue("team"))])
    assert not known.freeze(NOW).queues[QueueName("team")].removed


def test_a_new_leader_knows_where_a_removed_queue_counted() -> None:
    rows = WorldRows(
        admissions=[admission(VOLCANO, "n1")],
        queues=frozenset({QueueName("parent"), QueueName("team")}),
        parents={QueueName("parent"): QueueName("root"), QueueName("team"): QueueName("parent")},
    )
    known = World(rows, Timeouts())
    known.observe([seen(queue("parent"))])
    known.drop_gone(rows.queues, ())
    found = known.freeze(NOW).queues
    assert found[QueueName("team")].parent == "parent"
    assert not found[QueueName("parent")].removed


def test_what_waits_in_a_removed_queue_waits_for_the_queue() -> None:
    facts = [node("n1"), *parent_and_child(), volcano_job(1), job(1, suspended=True)]
    known = world(facts, [admission(VOLCANO, "n1")], {VOLCANO: 1, JOB: 2})
    see(known, gone(queue("team")))
    plan, _ = decide(known.freeze(NOW), Memo())
    assert plan.reasons[JOB].code == "UnknownQueue"


def test_many_workloads_are_looked_at_in_slices_and_none_is_missed() -> None:
    facts = [replace(SUSPENDED, key=WorkloadKey(kind_names.JOB, f"u{number}")) for number in range(7)]
    at_once, known = World(WorldRows(), Timeouts()), World(WorldRows(), Timeouts())
    for each in (at_once, known):
        each.observe([seen(fact) for fact in facts])
    at_once.refresh(NOW)

    steps = known.refresh_in_slices(NOW, size=3)
    first = next(steps)
    known.mark_dirty(first[0])
    rest = list(steps)

    assert [len(part) for part in (first, *rest)] == [3, 3, 1]
    assert known.states == at_once.states
    assert known.unsaved == at_once.unsaved
    assert known.refresh(NOW) == {first[0]}, "what became dirty meanwhile is looked at the next time"


def test_a_grace_time_that_runs_is_looked_at_once_in_each_refresh() -> None:
    refused = released("a", "pod/0", group="gang", refused=(NOW, "no"))
    known = world([group(1), node("n1"), refused], [admission(GROUP, "n1", pod_set="pod")], {GROUP: 1})
    assert known.states[GROUP].look_at == 0
    assert [list(part) for part in known.refresh_in_slices(NOW, size=1)] == [[GROUP]]


# ── pods that come up larger than their template ────────────────────────────────────────────────────────────


def test_a_gang_with_pods_that_came_up_larger_asks_for_as_much_the_next_time() -> None:
    """A LimitRange or a sidecar injector adds to every pod of the namespace."""
    fact = volcano_job(2, generation="1")
    larger = released("a", "worker/0", "n1", owner=VOLCANO, takes=gpus(3))
    taken = admission(VOLCANO, "n1 n1")
    known = world([node("n1"), fact, larger], [taken], {VOLCANO: 1})
    assert [each.code for each in known.states[VOLCANO].evictable.values()] == ["SeatMismatch"]
    known.put_setback(VOLCANO, Setback(NOW + 10), NOW)
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    see(known, gone(larger))
    assert [each.takes for each in known.states[VOLCANO].workload.pod_sets] == [gpus(3)]
    seats = tuple(replace(each, takes=gpus(3)) for each in taken.seats)
    known.put_admissions([replace(taken, id=AdmissionId(2), seats=seats)])
    see(known, replace(larger, admission=AdmissionId(2)))
    assert known.states[VOLCANO].evictable == {}
    another_leaders = world([node("n1"), fact], [], {VOLCANO: 1})
    assert [each.takes for each in another_leaders.states[VOLCANO].workload.pod_sets] == [gpus(1)]
    see(known, replace(fact, generation="2"))
    assert [each.takes for each in known.states[VOLCANO].workload.pod_sets] == [gpus(1)], "another template"


def test_an_admission_of_another_ledger_is_remembered_as_long_as_a_pod_names_it() -> None:
    known, found = world([node("n1")]), released("a", None, "n1", by=99)
    for _ in range(2):
        known.observe([seen(found)])
        assert known.admission_index.unknown == {99}
        known.learn_closed({AdmissionId(99)}, {})
        known.observe([seen(found)])
        assert known.admission_index.unknown == set()
        known.observe([gone(found)])


def test_what_has_ended_and_holds_nothing_comes_and_goes_without_a_new_decision() -> None:
    known = world([queue(TEAM), node("n1")])
    known.freeze(NOW)
    see(known, job(2, finished=True))
    assert known.is_there(JOB)
    assert not known.snapshot_is_stale
    known.number({JOB: 1})
    known.refresh(NOW)
    see(known, gone(job(2, finished=True)))
    assert list(known.unsaved.departed) == [JOB]
    assert not known.snapshot_is_stale
    see(known, job(2, suspended=True))
    assert known.snapshot_is_stale
