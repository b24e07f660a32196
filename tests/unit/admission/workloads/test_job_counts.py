"""Which pods the job controller will still make, by what a Job and its pods say.

The rules of the numbers are held to recorded lives of Jobs in ``tests/laws/planted/test_job_count_bugs.py``.
"""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact
from admission.facts.workloads import JobCounts, WorkloadFact
from admission.workloads.inputs import MissingSince
from admission.workloads.job_counts import index_ranges, indexes_to_come, union
from admission.workloads.state import WorkloadState
from queues.workload import AdmissionId
from tests.builders.facts import JOB, NOW, admission, gated, job, released, state_of, wanted

ONE = AdmissionId(1)
HOUR = 3600


def indexed(parallelism: int, completions: int, over: str = "") -> JobCounts:
    ranges = index_ranges(over, below=completions)
    return JobCounts(parallelism=parallelism, completions=completions, over=ranges)


def test_indexes_far_apart_cost_no_more_than_near_ones() -> None:
    counts = JobCounts(parallelism=2, completions=2**31 - 1, over=((0, 2**31 - 4),))
    assert indexes_to_come(counts, ()) == (2**31 - 3, 2**31 - 2)


def test_ranges_are_joined() -> None:
    assert union(((0, 2), (7, 7)), ((3, 4), (6, 6))) == ((0, 4), (6, 7))


def sweep(over: str = "", **facts: Any) -> WorkloadFact:
    """An Indexed Job of three, its pods released with one patch."""
    done = frozenset(index for first, last in index_ranges(over, below=3) for index in range(first, last + 1))
    fact = job(3, indexed=True, directed=ONE, counts=indexed(3, 3, over), **facts)
    return replace(fact, pod_sets=(replace(fact.pod_sets[0], done=done),))


def of_index(index: int, node: str = "n1", **facts: Any) -> PodFact:
    return released(f"sweep-{9 - index}", None, node, index=index, **facts)


def at_rest(fact: WorkloadFact, pods: list[PodFact], nodes: str, *, ready: bool = True) -> WorkloadState:
    """The state an hour after an index ended, once its seat is given back."""
    held = admission(JOB, nodes, started=True, ready=ready, opened_at=NOW - HOUR)
    ended = state_of(fact, pods, [held]).ended.get(ONE, frozenset())
    return state_of(fact, pods, [replace(held, ended=ended)], now=NOW + HOUR)


def test_pods_that_are_on_other_nodes_than_those_of_their_indexes_give_back_the_seat_that_is_free(
    golden: Any,
) -> None:
    fact, pods = sweep("0"), [of_index(1, "n2"), of_index(2, "n1")]
    found = at_rest(fact, pods, "n1 n1 n2")
    (place,) = found.seat_maps
    assert {pod.node: place.admission.seats[seat].node for seat, pod in place.seated.items()} == golden
    assert (place.vacant(), found.evictable, found.problem) == ([], {}, None)


@pytest.mark.parametrize(
    "pods",
    [[], [of_index(2, "n1")], [of_index(2, "n2")], [of_index(2, "n3")]],
    ids=["not seen yet", "in a seat given back", "in the seat left", "in the seat of its index, given back"],
)
def test_a_directed_job_keeps_the_seat_of_another_index_for_one_that_gave_back_its_own(
    pods: list[PodFact],
) -> None:
    """Index 2 failed in the seat of index 1, after its own was given back: its next pod may be on any of the nodes."""
    held = admission(JOB, "n1 n2 n3", started=True, ended=frozenset({0, 2}))
    found = state_of(sweep("0-1"), pods, [held])
    assert found.ended == {}
    on = [pod for pod in pods if pod.node != "n2"]
    assert [pod.uid for pod in (found.unbooked.pods if found.unbooked else ())] == [pod.uid for pod in on]


def test_a_directed_job_that_lost_an_index_says_which() -> None:
    found = at_rest(sweep(), [of_index(0, "n2"), of_index(2, "n1")], "n1 n1 n2")
    assert found.problem is None
    later = state_of(
        sweep(),
        [of_index(0, "n2"), of_index(2, "n1")],
        [admission(JOB, "n1 n1 n2", started=True)],
        missing_since={ONE: MissingSince(seat=NOW - 60, needed=NOW - 60)},
    )
    assert "1 of 3 pods missing" in later.problem.message
    assert "main/1" in later.problem.message


def test_a_job_that_is_about_to_fail_keeps_no_seat_and_is_not_evicted_for_it() -> None:
    fact = replace(sweep(), counts=replace(indexed(3, 3), ends=True))
    fact = replace(fact, pod_sets=(replace(fact.pod_sets[0], done=frozenset(range(3))),))
    found = at_rest(fact, [of_index(1, deleting=True)], "n1 n1 n1")
    assert (found.seat_maps[0].vacant(), found.evictable, found.needs_seats) == ([], {}, False)


def test_pods_of_a_job_with_a_seat_for_each_index_keep_those_that_they_have() -> None:
    """Three of six completions ran at a time; then all six may."""
    fact = job(6, indexed=True, counts=indexed(6, 6, "0"))
    fact = replace(fact, pod_sets=(replace(fact.pod_sets[0], done=frozenset({0})),))
    pods = [
        released("a", "main/0", "n1", index=3),
        released("b", "main/1", "n1", index=1),
        released("c", "main/2", "n1", index=2),
        gated("d", index=4),
        gated("e", index=5),
    ]
    found = state_of(fact, pods, [admission(JOB, "n1 n1 n1", started=True)])
    assert (found.ended, wanted(found), found.needs_seats, found.is_by_ordinal) == ({}, 5, True, False)
