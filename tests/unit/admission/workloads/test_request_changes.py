"""What is created, resumed or seated is what was admitted."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.snapshot import Rollback
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.seats import seat_map_of
from queues import kind_names
from queues.admissions import Admission
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import AdmissionId, DeviceShare, HostPort, Obstacle, PodSet, WorkloadKey
from tests.builders.facts import (
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gated,
    gpus,
    job,
    released,
    state_of,
    volcano_job,
)
from tests.tables import named_rows

ONE = AdmissionId(1)


def asking(fact: WorkloadFact, count: int, **more: Any) -> WorkloadFact:
    """The same with pods of so many GPUs."""
    (pods,) = fact.pod_sets
    return replace(fact, pod_sets=(replace(pods, takes=gpus(count)),), **more)


# ── pods and their seats ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [released("p", "worker/0", "n1", takes=gpus(8)), released("p", "worker/0", "n2")],
    ids=["asks more", "on another node"],
)
def test_a_seat_is_for_pods_that_ask_no_more_and_are_on_its_node(given: Any) -> None:
    place = seat_map_of(admission(VOLCANO, "n1"), [given])
    assert (place.seated, place.unseated, place.mismatched) == ({}, (given,), (given,))
    found = state_of(volcano_job(1), [given], [admission(VOLCANO, "n1")])
    assert found.started == ()
    rollback = found.evictable[ONE]
    assert (rollback.code, rollback.not_before) == ("SeatMismatch", NOW + 10)
    assert "pod p " in rollback.message


def test_every_resource_counts() -> None:
    seat = replace(admission(VOLCANO, "n1").seats[0], takes=Resources({"cpu": 1000, "pods": 1}))
    taken = replace(admission(VOLCANO, "n1"), seats=(seat,))
    given = released("p", "worker/0", takes=Resources({"cpu": 1000, "memory": 1, "pods": 1}))
    assert seat_map_of(taken, [given]).mismatched == (given,)


def test_parts_of_devices_count_as_such() -> None:
    half = DeviceShare(devices=1, milli=500)
    takes = {"nvidia.com/gpu": 500, "nvidia.com/gpu#3": 500, "pods": 1}
    seat = replace(admission(VOLCANO, "n1").seats[0], takes=Resources(takes))
    taken = replace(admission(VOLCANO, "n1"), seats=(seat,))
    bare = Resources({"pods": 1})
    fits = released("p", "worker/0", takes=bare, share=half)
    assert seat_map_of(taken, [fits]).seated == {0: fits}
    two = released("p", "worker/0", takes=bare, share=replace(half, devices=2, milli=250))
    assert seat_map_of(taken, [two]).mismatched == (two,)


BARE = WorkloadKey(kind_names.POD, "bare")


@named_rows(
    ("fact", "pods", "taken"),
    {
        "of a directed Job": (
            job(1, directed=ONE),
            [released("p", None, "n1", takes=gpus(2))],
            admission(JOB, "n1", started=True),
        ),
        "gated still": (job(2), [gated("a"), gated("p", takes=gpus(2))], admission(JOB, "n1 n2")),
        # It asks anew.
        "a bare pod that grew while it waited": (
            None,
            [gated("p", queue=TEAM, takes=gpus(2))],
            admission(BARE, "n1"),
        ),
    },
)
def test_a_pod_that_asks_more_than_its_seat_sends_its_gang_back(
    fact: WorkloadFact | None, pods: list[PodFact], taken: Admission
) -> None:
    found = state_of(fact, pods, [taken], key=taken.workload)
    rollback = found.evictable[ONE]
    assert (rollback.code, found.unbooked) == ("SeatMismatch", None)
    assert rollback.message == "pod p asks 2 nvidia.com/gpu, expected at most 1, which its seat has"


def test_a_gated_pod_with_ports_that_were_not_admitted_sends_its_gang_back() -> None:
    waiting = gated("a", ports=(HostPort(80),))
    assert state_of(job(1), [waiting], [admission(JOB, "n1")]).evictable[ONE].code == "SeatMismatch"


def test_a_gang_that_runs_goes_on_while_a_pod_that_asks_more_waits_and_says_so() -> None:
    taken = admission(JOB, "n1 n2", started=True)
    found = state_of(job(2), [released("a", "main/0", "n1"), gated("b", takes=gpus(8))], [taken])
    assert (found.evictable, found.ended, found.leftovers) == ({}, {}, ())
    assert found.problem.code == "SeatMismatch"


def test_a_pod_that_grows_while_its_gang_runs_is_adopted_with_all_that_it_takes() -> None:
    """It was resized in place. Its old seat is given back once the new one is in the books."""
    taken = admission(VOLCANO, "n1 n1", started=True)
    fact = volcano_job(2)
    grown = released("b", "worker/1", "n1", takes=gpus(2), index=1, task="worker")
    pods = [released("a", "worker/0", "n1", index=0, task="worker"), grown]
    found = state_of(fact, pods, [taken])
    assert (found.evictable, found.leftovers) == ({}, ())
    assert [(each.uid, each.ordinal, each.takes) for each in found.unbooked.pods] == [("b", 1, gpus(2))]
    larger = admission(VOLCANO, "n1", number=2, first=1, adopted={"b": 0}, started=True)
    larger = replace(larger, seats=(replace(larger.seats[0], takes=gpus(2)),))
    found = state_of(fact, pods, [taken, larger])
    assert (found.unbooked, found.ended) == (None, {ONE: frozenset({1})})


# ── templates and their seats ───────────────────────────────────────────────────────────────────────────────


def test_a_suspended_job_whose_template_asks_more_goes_back_and_asks_anew() -> None:
    fact = asking(job(2, suspended=True), 8)
    found = state_of(fact, [], [admission(JOB, "n1 n2")])
    told = "pods of main ask 8 nvidia.com/gpu, expected at most 1, which was admitted"
    assert found.evictable[ONE] == Rollback(ReasonCode.REQUEST_CHANGED, told, NOW)


def test_a_suspended_job_that_was_changed_otherwise_goes_back_too() -> None:
    """For instance other nodes, or another level of the topology."""
    taken = admission(JOB, "n1 n2", generation="before.2", started=True)
    found = state_of(job(2, suspended=True, generation="after.2"), [], [taken])
    assert found.evictable[ONE].code == "RequestChanged"


def test_a_suspended_job_that_is_as_it_was_admitted_keeps_its_seats() -> None:
    """It may be scaled, and its seats may be older than generations that tell one from the other."""
    for generation in ("same.2", "same.1", "same", ""):
        taken = admission(JOB, "n1 n2", generation=generation)
        assert state_of(job(2, suspended=True, generation="same.2"), [], [taken]).evictable == {}


def test_a_job_that_runs_may_be_scaled() -> None:
    taken = admission(JOB, "n1 n2", generation="before", started=True)
    assert state_of(job(3, generation="after"), [], [taken]).evictable == {}


def of_two(started: bool) -> Admission:
    return admission(VOLCANO, "n1 n2", started=started, generation="before")


def test_a_volcano_job_whose_template_asks_more_before_its_start_goes_back() -> None:
    fact = asking(volcano_job(2), 8, generation="after")
    found = state_of(fact, [released("a", "worker/0", "n1")], [of_two(False)])
    assert found.evictable[ONE].code == "RequestChanged"
    assert found.outgrown == {ONE: frozenset({1})}


def test_a_volcano_job_that_runs_gives_a_seat_back_that_its_next_pod_would_outgrow() -> None:
    fact = asking(volcano_job(2), 8, generation="after")
    found = state_of(fact, [released("a", "worker/0", "n1")], [of_two(True)])
    assert (found.evictable, found.ended) == ({}, {ONE: frozenset({1})})
    assert found.outgrown == {ONE: frozenset({1})}


def test_no_pod_is_made_from_a_template_that_cannot_be_used() -> None:
    nothing = PodSet(name="worker", count=2, takes=Resources())
    broken = Obstacle(ReasonCode.INVALID_SPEC, "spec.tasks[0].template.spec.nodeName: found 'n9'")
    fact = volcano_job(2, pod_sets=(nothing,), obstacle=broken)
    found = state_of(fact, [released("a", "worker/0", "n1")], [of_two(False)])
    assert found.outgrown == {ONE: frozenset({1})}
    assert "nodeName" in found.evictable[ONE].message


def test_a_suspended_job_that_got_gates_of_others_goes_back_and_one_that_runs_stays() -> None:
    held = Obstacle(ReasonCode.OTHER_GATES, "spec.template.spec.schedulingGates: found example.org/wait")
    taken = admission(JOB, "n1 n2", started=True)
    found = state_of(job(2, suspended=True, obstacle=held), [], [taken])
    assert "example.org/wait" in found.evictable[ONE].message
    assert not state_of(job(2, obstacle=held), [], [taken]).evictable


def test_a_volcano_job_may_be_scaled_and_asks_no_less_for_its_pods() -> None:
    found = state_of(volcano_job(3, generation="after"), [], [of_two(True)])
    assert (found.evictable, found.ended, found.outgrown) == ({}, {}, {})


def test_memory_of_a_device_that_was_changed_is_not_taken_on_trust() -> None:
    """How much of a device it is depends on the node, so the seat does not tell."""
    share = DeviceShare(devices=1, memory=4000)
    seats = {"nvidia.com/gpu": 500, "nvidia.com/gpu#0": 500, "pods": 1}
    taken = of_two(False)
    taken = replace(taken, seats=tuple(replace(seat, takes=Resources(seats)) for seat in taken.seats))
    pods = PodSet(name="worker", count=2, takes=Resources({"pods": 1}), share=share)
    for generation, outgrown in (("before", {}), ("after", {ONE: frozenset({0, 1})})):
        fact = volcano_job(2, pod_sets=(pods,), generation=generation)
        assert state_of(fact, [], [taken]).outgrown == outgrown
