"""All checks of a chaos run. Each is a function with a name that says what must hold; it returns what breaks that."""

from typing import Final

from tests.chaos.checker.books import (
    admissions_only_go_forward,
    balances_are_what_admissions_hold,
    limits_hold_at_every_moment,
    no_seat_is_held_twice,
    postings_are_what_admissions_gain_and_lose,
)
from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ending import (
    every_gang_that_fits_is_admitted,
    no_defect_is_logged,
    no_end_is_told_early,
    no_workload_is_lost,
    seats_and_pods_match_at_the_end,
    statuses_are_true_at_the_end,
    the_run_comes_to_rest,
    what_is_stored_is_true_at_the_end,
)
from tests.chaos.checker.gangs import (
    gangs_are_admitted_whole,
    gangs_are_evicted_whole,
    no_gang_is_split_at_the_end,
)
from tests.chaos.checker.leaders import each_term_has_one_leader, only_the_leader_writes
from tests.chaos.checker.pods import (
    no_job_has_more_pods_than_seats,
    no_pod_is_made_again_twice,
    no_seat_has_two_live_pods,
    no_seat_is_given_back_under_a_pod,
    nodes_are_never_too_small_for_their_pods,
    pods_run_only_as_admitted,
    pods_without_owner_come_back,
    what_succeeded_never_runs_again,
    what_users_write_stays,
)
from tests.chaos.checker.reasons import stored_reasons_are_true_at_the_end
from tests.chaos.checker.recording import Recording
from tests.chaos.history import History

CHECKS: Final = (
    # The ledger, at every moment.
    balances_are_what_admissions_hold,
    postings_are_what_admissions_gain_and_lose,
    limits_hold_at_every_moment,
    no_seat_is_held_twice,
    admissions_only_go_forward,
    each_term_has_one_leader,
    only_the_leader_writes,
    # Gangs and pods, at every moment.
    gangs_are_admitted_whole,
    gangs_are_evicted_whole,
    pods_run_only_as_admitted,
    no_seat_has_two_live_pods,
    no_seat_is_given_back_under_a_pod,
    nodes_are_never_too_small_for_their_pods,
    no_job_has_more_pods_than_seats,
    what_succeeded_never_runs_again,
    no_pod_is_made_again_twice,
    what_users_write_stays,
    no_end_is_told_early,
    no_defect_is_logged,
    # At rest.
    the_run_comes_to_rest,
    no_gang_is_split_at_the_end,
    no_workload_is_lost,
    seats_and_pods_match_at_the_end,
    pods_without_owner_come_back,
    every_gang_that_fits_is_admitted,
    what_is_stored_is_true_at_the_end,
    statuses_are_true_at_the_end,
    stored_reasons_are_true_at_the_end,
)


def breaches(history: History) -> list[Breach]:
    """Everything that broke in a run, check by check; []: nothing did."""
    recording = Recording(history)
    return [
        Breach(what=each.what, change=each.change, row=each.row, law=check.__name__.replace("_", " "))
        for check in CHECKS
        for each in check(recording)
    ]
