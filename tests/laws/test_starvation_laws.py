"""A gang that fits its quota waits a bounded time, by clearing and by reservation; and planted bugs that starve it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from admission.engine import attempt, reservation
from tests.laws import starvation
from tests.laws.planted import Bug, is_broken
from tests.laws.starvation import CLEARING, PEACE, Crowd, crowds

lives = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@lives
@given(crowds(CLEARING))
def test_starvation_is_bounded_a_place_is_cleared_for_a_gang_that_waited_long(crowd: Crowd) -> None:
    starvation.waits_at_most_until_its_place_is_cleared(crowd)


@lives
@given(crowds(PEACE))
def test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came(crowd: Crowd) -> None:
    starvation.waits_at_most_for_those_who_run_when_it_comes(crowd)


def _nothing(*given: Any) -> None:
    return None


BUGS = (
    Bug("nobody ever starves", attempt, "starved_now", lambda *given: False,
        test_starvation_is_bounded_a_place_is_cleared_for_a_gang_that_waited_long),
    Bug("nothing is reserved", reservation, "_reserve", _nothing,
        test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came),
    Bug("everybody passes", reservation.Reservation, "is_delayed_by", lambda *given: False,
        test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came),
    Bug("a place that is free is not kept", reservation, "_due", _nothing,
        test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came),
    Bug("run times are rounded down", reservation, "run_time_class",
        lambda workload: workload.run_time and workload.run_time // 2,
        test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_starves_a_gang(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    is_broken(bug.law, examples=100)
