"""Workloads that a step fails on are found by trying, in few tries, and nobody else is blamed."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from admission.containment.decider import MOST_TRIES, Culprits, find_culprits
from queues import kind_names
from queues.workload import WorkloadKey

KEYS = [WorkloadKey(kind_names.JOB, f"{number:06}") for number in range(100_000)]


class Step:
    """Fails if any of these groups of workloads is there whole."""

    def __init__(self, *fatal: frozenset[WorkloadKey]) -> None:
        self.fatal = fatal
        self.tries = 0

    async def passes(self, some: Sequence[WorkloadKey]) -> bool:
        self.tries += 1
        there = set(some)
        return not any(group <= there for group in self.fatal)


def search(step: Step, workloads: Sequence[WorkloadKey], tries: int = MOST_TRIES) -> Culprits | None:
    return asyncio.run(find_culprits(workloads, step.passes, tries=tries))


@given(st.integers(1, 200), st.sets(st.integers(0, 199), min_size=1, max_size=4))
def test_exactly_the_culprits_are_found(count: int, bad: set[int]) -> None:
    culprits = {KEYS[number] for number in bad if number < count} or {KEYS[0]}
    found = search(Step(*(frozenset({key}) for key in culprits)), KEYS[:count])
    assert found is not None
    assert found.complete
    assert set(found.found) == culprits


@given(st.sets(st.integers(0, 49), min_size=2, max_size=2))
def test_of_workloads_that_fail_only_beside_each_other_one_is_left_out(pair: set[int]) -> None:
    fatal = frozenset(KEYS[number] for number in pair)
    found = search(Step(fatal), KEYS[:50])
    assert found is not None
    assert found.complete
    assert len(found.found) == 1
    assert set(found.found) < fatal


def test_one_among_a_hundred_thousand_takes_few_tries() -> None:
    step = Step(frozenset({KEYS[54_321]}))
    found = search(step, KEYS)
    assert found is not None
    assert found.found == (KEYS[54_321],)
    assert step.tries <= 20


def test_tries_are_bounded_and_what_was_found_so_far_is_told() -> None:
    step = Step(*(frozenset({key}) for key in KEYS[:1000:7]))
    found = search(step, KEYS[:1000], tries=30)
    assert found is not None
    assert not found.complete
    assert found.found
    assert set(found.found) <= set(KEYS[:1000:7])
    assert step.tries <= 31


def test_a_step_that_fails_without_any_workload_has_no_culprit() -> None:
    assert search(Step(frozenset()), KEYS[:10]) is None
