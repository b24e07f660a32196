"""Ordinals of pods: memory and time follow the number of pods, whatever the numbers are."""

import tracemalloc

import pytest

from admission.workloads.pod_sets import FreeOrdinals, numbered
from admission.workloads.pod_shapes import shape_name
from queues.workload import PodSet
from tests.builders.facts import (
    GROUP,
    NOW,
    admission,
    gated,
    gpus,
    group,
    pod,
    released,
    state_of,
    volcano_job,
)


def test_a_large_ordinal_that_is_held_costs_no_more_than_a_small_one() -> None:
    tracemalloc.start()
    try:
        pods = numbered(PodSet(name="main", count=0, takes=gpus()), {2_000_000_000}, 3)
        assert pods.wanted() == (0, 1, 2_000_000_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_ordinals_in_a_row_need_no_list() -> None:
    pods = numbered(PodSet(name="main", count=0, takes=gpus()), {0, 1}, 4)
    assert (pods.count, pods.ordinals, pods.wanted()) == (4, (), (0, 1, 2, 3))


def test_gaps_are_no_pods_that_are_present() -> None:
    """A group of three of which two pods are left has two, whichever of them ended."""
    taken = admission(GROUP, "n1 n2 n3", pod_set=shape_name(gated("a")), ended=frozenset({0}), started=True)
    left = [
        released(name, f"{taken.seats[0].pod_set}/{place}", f"n{place + 1}", group="gang")
        for place, name in ((1, "b"), (2, "c"))
    ]
    (pods,) = state_of(group(3), left, [taken]).workload.pod_sets
    assert (pods.count, pods.wanted()) == (2, (1, 2))


def test_free_ordinals_are_the_lowest_ones() -> None:
    free = FreeOrdinals({0, 2})
    assert [free.take(), free.take(), free.take(7), free.take(7), free.take()] == [1, 3, 7, 4, 5]


@pytest.mark.parametrize(("index", "ordinal"), [(1, 1), (4, 0), (99_999, 0), (None, 0)])
def test_a_running_pod_is_adopted_at_its_index_if_that_lies_within_its_set(
    index: int | None, ordinal: int
) -> None:
    running = pod("w", "n1", task="worker", index=index, adopt_until=NOW + 60)
    unbooked = state_of(volcano_job(4), [running]).unbooked
    assert [each.ordinal for each in unbooked.pods] == [ordinal]


def test_members_of_a_group_are_adopted_within_their_number() -> None:
    members = [
        pod(f"m{place}", "n1", group="gang", index=wish, adopt_until=NOW + 60)
        for place, wish in enumerate((99_999, 1, None))
    ]
    unbooked = state_of(group(3), members).unbooked
    assert [each.ordinal for each in unbooked.pods] == [0, 1, 2]


def test_thousands_of_pods_are_numbered_in_one_pass() -> None:
    members = [pod(f"m{place:05}", "n1", group="gang", adopt_until=NOW + 60) for place in range(20_000)]
    unbooked = state_of(group(3), members).unbooked
    assert [each.ordinal for each in unbooked.pods] == list(range(20_000))
