"""Seats for which a write of an earlier term may still bring a pod."""

from dataclasses import replace

import pytest

from admission.decode.workload_facts import counted_generation
from admission.facts.changes import Fact
from admission.facts.pods import PodPhase
from admission.workloads.pod_shapes import shape_name
from admission.world.learned.inherited_seats import InheritedSeats
from admission.world.world import World
from queues.admissions import Admission, Recreation
from queues.workload import AdmissionId, QueueName
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    VOLCANO,
    admission,
    evicting,
    gated,
    gone,
    group,
    job,
    node,
    released,
    see,
    seen,
    volcano_job,
    world,
)

ONE = AdmissionId(1)
MEMBER = shape_name(gated("any"))
MINUTE = 60.0
ASKS = counted_generation("pods", "2")


def found(*facts: Fact, taken: Admission) -> tuple[World, InheritedSeats]:
    """A world as a term finds it."""
    known = world([node("n1"), *facts], [taken])
    return known, InheritedSeats(known, NOW, MINUTE)


def lost_release() -> tuple[World, InheritedSeats]:
    """A group of two, one of which may be let go any moment."""
    members = [released("a", f"{MEMBER}/0", "n1", group="gang"), gated("b", group="gang")]
    return found(group(2), *members, taken=admission(GROUP, "n1 n1", pod_set=MEMBER))


def test_a_gated_pod_may_be_let_go_for_any_seat_without_a_pod() -> None:
    _, inherited = lost_release()
    assert inherited.of(GROUP, NOW + 59) == {ONE: {1}}


def test_nothing_is_kept_for_a_write_once_the_api_server_has_given_it_up() -> None:
    _, inherited = lost_release()
    assert inherited.of(GROUP, NOW) != {}
    assert inherited.due(NOW + 59) == frozenset()
    assert inherited.due(NOW + 60) == {GROUP}
    assert (inherited.of(GROUP, NOW + 60), inherited.due(NOW + 60)) == ({}, frozenset())


def test_a_seat_that_a_pod_has_left_in_this_term_is_not_written_for_again() -> None:
    known, inherited = lost_release()
    inherited.of(GROUP, NOW)
    see(known, gone(known.pods["a"]))
    assert inherited.of(GROUP, NOW) == {ONE: {1}}


def test_pods_that_are_made_again_in_this_term_were_let_go_in_none_before() -> None:
    members = [released(name, f"{MEMBER}/{number}", "n1", group="gang") for number, name in enumerate("ab")]
    known, inherited = found(group(2), *members, taken=evicting(admission(GROUP, "n1 n1", pod_set=MEMBER)))
    known.observe([gone(known.pods[name]) for name in "ab"])
    again = [gated(f"{name}2", group="gang", recreated_from=name) for name in "ab"]
    see(known, *again)
    assert inherited.of(GROUP, NOW) == {}
    # Those that a term finds may have been.
    later = InheritedSeats(known, NOW, MINUTE)
    assert later.of(GROUP, NOW) == {ONE: {0, 1}}
    # Unless the term before had not yet stored that it made them.
    known.recreations.stored |= {
        name: Recreation(
            pod_uid=name, workload=GROUP, namespace="ns", name=f"{name}2", queue=QueueName("a"), manifest=""
        )
        for name in "ab"
    }
    assert InheritedSeats(known, NOW, MINUTE).of(GROUP, NOW) == {}


def test_without_a_gated_pod_a_group_has_nobody_to_let_go() -> None:
    pod = released("a", f"{MEMBER}/0", "n1", group="gang")
    _, inherited = found(group(1), pod, taken=admission(GROUP, "n1 n1", pod_set=MEMBER))
    assert inherited.of(GROUP, NOW) == {}


def test_members_of_a_group_that_was_deleted_may_be_let_go() -> None:
    members = [released("a", f"{MEMBER}/0", "n1", group="gang"), gated("b", group="gang")]
    _, inherited = found(*members, taken=admission(GROUP, "n1 n1", pod_set=MEMBER))
    assert inherited.of(GROUP, NOW) == {ONE: {1}}


@pytest.mark.parametrize("directed", [None, ONE], ids=["never resumed", "suspended by its user since"])
def test_a_job_that_is_suspended_may_be_resumed(directed: AdmissionId | None) -> None:
    taken = admission(JOB, "n1 n1", generation=ASKS)
    fact = job(2, suspended=True, generation=ASKS, directed=directed)
    _, inherited = found(fact, taken=taken)
    assert inherited.of(JOB, NOW) == {ONE: {0, 1}}


def test_a_job_that_its_user_had_suspended_before_its_eviction_may_be_resumed() -> None:
    taken = replace(evicting(admission(JOB, "n1 n1", generation=ASKS)), evicted_at=NOW - 20)
    of_user, of_muster = (
        job(2, suspended=True, suspended_at=at, generation=ASKS, directed=ONE)
        for at in (taken.evicted_at - 1, taken.evicted_at)
    )
    assert found(of_user, taken=taken)[1].of(JOB, NOW) == {ONE: {0, 1}}
    assert found(of_muster, taken=taken)[1].of(JOB, NOW) == {}


@pytest.mark.parametrize(
    "fact",
    [
        job(2, generation=ASKS),
        job(2, generation=ASKS, suspended=True, finished=True),
        job(2, generation=ASKS, suspended=True, deleting=True),
        job(2, suspended=True, generation=counted_generation("other", "2")),
    ],
    ids=["runs", "has finished", "is being deleted", "asks something else"],
)
def test_a_job_that_no_resumption_changes_keeps_nothing(fact: Fact) -> None:
    _, inherited = found(fact, taken=admission(JOB, "n1 n1", generation=ASKS))
    assert inherited.of(JOB, NOW) == {}


def test_a_pod_of_a_volcano_job_may_be_made_for_each_seat_without_one() -> None:
    pod = released("a", "worker/0", "n1", owner=VOLCANO)
    known, inherited = found(volcano_job(3), pod, taken=admission(VOLCANO, "n1 n1 n1"))
    known.volcano_jobs.outcomes[VOLCANO] = {("worker", 1): PodPhase.SUCCEEDED}
    assert inherited.of(VOLCANO, NOW) == {ONE: {2}}


def test_of_a_volcano_job_that_runs_a_pod_may_be_made_again() -> None:
    pod = released("a", "worker/0", "n1", owner=VOLCANO)
    known, inherited = found(volcano_job(2), pod, taken=admission(VOLCANO, "n1 n1", started=True))
    assert inherited.of(VOLCANO, NOW) == {ONE: {1}}
    known.observe([seen(released("b", "worker/1", "n1", owner=VOLCANO)), gone(pod)])
    assert inherited.of(VOLCANO, NOW + 1) == {}, "both have been seen"


def test_a_volcano_job_that_goes_back_lost_its_pods_by_that() -> None:
    _, inherited = found(volcano_job(2), taken=evicting(admission(VOLCANO, "n1 n1", started=True)))
    assert inherited.of(VOLCANO, NOW) == {}


def test_nothing_is_remembered_of_a_gang_that_no_write_can_bring_a_pod() -> None:
    pod = released("a", "worker/0", "n1", owner=VOLCANO)
    taken = replace(admission(VOLCANO, "n1 n1", started=True), ended=frozenset({1}))
    known, inherited = found(volcano_job(1), pod, taken=taken)
    assert inherited.of(VOLCANO, NOW) == {}
    assert inherited._seen == {}
    known.observe([gone(pod)])
    assert inherited.of(VOLCANO, NOW) == {}, "this term makes it again"


def test_what_a_term_found_is_forgotten_when_the_minute_is_over() -> None:
    _, inherited = found(volcano_job(2), taken=admission(VOLCANO, "n1 n1", started=True))
    assert inherited._admissions
    inherited.due(NOW + MINUTE)
    assert not inherited._admissions


def test_when_an_admission_was_evicted_says_nothing_of_writes_by_the_clock_of_another_postgres() -> None:
    leaving = replace(evicting(admission(VOLCANO, "n1")), evicted_at=NOW - 80)
    _, inherited = found(volcano_job(1), taken=leaving)
    assert inherited.of(VOLCANO, NOW + 59) == {ONE: {0}}
    assert inherited.of(VOLCANO, NOW + 60) == {}


def test_seats_of_this_term_are_known_to_its_own_writers() -> None:
    known, inherited = found(volcano_job(2), taken=admission(VOLCANO, "n1"))
    known.put_admissions([admission(VOLCANO, "n1", number=2, first=1)])
    known.refresh(NOW)
    assert inherited.of(VOLCANO, NOW) == {ONE: {0}}


def test_a_workload_without_admissions_keeps_nothing() -> None:
    known = world([node("n1"), volcano_job(1)])
    known.observe([seen(volcano_job(1))])
    assert InheritedSeats(known, NOW, MINUTE).of(VOLCANO, NOW) == {}
