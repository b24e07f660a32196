"""A gang that fits its quota waits a bounded time, by clearing and by reservation; and planted bugs that starve it."""

from dataclasses import replace
from typing import Any

from hypothesis import given

from admission.engine.backfill import coming_room, departures, reservation, reserved_space
from admission.engine.pending.empty_cluster import EmptyCluster
from admission.engine.preemption import rules, running, search
from tests.laws.laws import starvation
from tests.laws.laws.starvation import CLEARING, DUE, PEACE, VAIN, Removal, crowds, removals
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds, law_test

lives = in_worlds(20)


test_starvation_is_bounded_a_place_is_cleared_for_a_gang_that_waited_long = law_test(
    starvation.waits_at_most_until_its_place_is_cleared, crowds(CLEARING), lives
)
test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came = law_test(
    starvation.waits_at_most_for_those_who_run_when_it_comes, crowds(PEACE), lives
)
test_starvation_is_bounded_so_it_does_where_places_are_cleared_soon_of_what_is_not_protected = law_test(
    starvation.waits_at_most_for_those_who_run_when_it_comes,
    crowds(DUE).map(lambda crowd: replace(crowd, protected=True)),
    lives,
)
test_starvation_is_bounded_a_gang_keeps_the_place_of_those_who_passed_it = law_test(
    starvation.waits_at_most_for_those_who_run_after_two_weeks, crowds(VAIN), lives
)


@in_worlds(100)
@given(removals())
def test_starvation_is_bounded_room_in_pieces_is_for_the_first_in_line(removal: Removal) -> None:
    starvation.gets_the_room_that_comes_back_in_pieces(removal)


def _nothing(*given: Any, **how: Any) -> None:
    return None


def _without_quota(*given: Any) -> Any:
    return ()


def _without_overtakers(*given: Any, overtakers: bool, **how: Any) -> Any:
    return _departures(*given, overtakers=False, **how)


def _only_lent(self: Any, candidate: Any) -> bool:
    pair = self.pair(candidate.queue) if candidate.queue != self.workload.queue else None
    return bool(_may_clear(self, candidate) and (pair is None or self._is_lent(pair, candidate)))


_departures = departures.expected_departures
_leaving = coming_room._leaving
_may_clear = rules.PreemptionRights._may_clear

BY_CLEARING = test_starvation_is_bounded_a_place_is_cleared_for_a_gang_that_waited_long
BY_RUN_TIMES = test_starvation_is_bounded_a_gang_waits_only_for_those_who_ran_when_it_came
BY_DUE = test_starvation_is_bounded_so_it_does_where_places_are_cleared_soon_of_what_is_not_protected
BY_WEEKS = test_starvation_is_bounded_a_gang_keeps_the_place_of_those_who_passed_it


BY_PIECES = test_starvation_is_bounded_room_in_pieces_is_for_the_first_in_line


BUGS = (
    Bug("pieces are given away", coming_room.ComingRoom, "of", _nothing, BY_PIECES),
    Bug("everybody passes who waits for pieces", reserved_space.ReservedSpace, "is_delayed_by",
        lambda *given: False, BY_PIECES),
    Bug("only who is evicted leaves pieces", coming_room, "_leaving",
        lambda snapshot, evicting: _leaving(replace(snapshot, leaving={}), evicting), BY_PIECES),
    Bug("only who is over leaves pieces", coming_room, "_leaving",
        lambda snapshot, evicting: _leaving(snapshot, ()), BY_PIECES),
    Bug("pieces leave no quota", coming_room, "charges", lambda seats: {}, BY_PIECES),
    Bug("nobody ever starves", search, "starves_now", lambda *given: False, BY_CLEARING),
    Bug("only what is lent is cleared", rules.PreemptionRights, "_may_clear", _only_lent, BY_CLEARING),
    Bug("a gang keeps nothing that it waited for", running, "reclaimable_from",
        lambda workload, first_opened, policy: first_opened, BY_CLEARING),
    Bug("nothing is reserved", departures.Departures, "soonest_place", _nothing, BY_RUN_TIMES),
    Bug("everybody passes", reserved_space.ReservedSpace, "is_delayed_by", lambda *given: False, BY_RUN_TIMES),
    Bug("a place that is free is not kept", reservation._ReservationSearch, "_reserve_fitting", _nothing, BY_RUN_TIMES),
    Bug("run times are rounded down", reserved_space, "run_time_class",
        lambda workload: workload.run_time and workload.run_time // 2, BY_RUN_TIMES),
    Bug("places are kept without quota", reserved_space, "_quota", _without_quota, BY_RUN_TIMES),
    Bug("those that never fit are all who are asked", EmptyCluster, "refusal", lambda *given, **more: None, BY_DUE),
    Bug("nothing is kept of those who passed", reservation, "expected_departures", _without_overtakers, BY_WEEKS),
    Bug("who comes later counts for ever", departures, "counting_period",
        lambda since, now: departures.CountingPeriod(None, now + 3600), BY_WEEKS, first=5),
    Bug("who passed leaves no quota", reserved_space, "_quota", _without_quota, BY_WEEKS),
)  # fmt: skip

test_a_planted_bug_starves_a_gang = each_breaks_its_law(BUGS, examples=100)
