"""The same failure again and again: pauses grow, and people are told what was found and what to do."""

import pytest

from admission.containment.repeated_failures import TELL_AFTER, RepeatedFailures
from queues.errors import DatabaseError, DatabaseUnavailable, Fenced
from queues.reason_codes import ReasonCode


def failures(**options: float) -> RepeatedFailures:
    return RepeatedFailures("turns", **{"first": 1.0, "longest": 60.0, **options})


def test_pauses_grow_up_to_a_limit_with_jitter() -> None:
    kept = failures(longest=10.0)
    pauses = [kept.note(DatabaseUnavailable(reason="it is slow")) for _ in range(12)]
    for pause, bound in zip(pauses, [1, 2, 4, 8, *[10] * 8], strict=True):
        assert bound / 2 <= pause <= bound
    assert len(set(pauses[4:])) > 1


def test_pauses_may_begin_to_grow_later() -> None:
    kept = failures(grows_after=4)
    pauses = [kept.note(DatabaseError(reason="no such table")) for _ in range(6)]
    assert pauses[:5] == [1.0] * 5
    assert pauses[5] > 1.0 or pauses[5] == 1.0
    assert max(kept.note(DatabaseError(reason="no such table")) for _ in range(20)) > 30


def test_a_success_and_another_error_begin_anew() -> None:
    kept = failures()
    for _ in range(8):
        kept.note(DatabaseError(reason="no such table"))
    kept.note(DatabaseError(reason="no such column"))
    assert (kept.count, kept.told()) == (1, None)
    for _ in range(8):
        kept.note(DatabaseError(reason="no such table"))
    kept.clear()
    assert (kept.count, kept.told()) == (0, None)


def test_numbers_in_an_error_do_not_make_it_another_one() -> None:
    kept = failures()
    for number in range(TELL_AFTER):
        kept.note(DatabaseError(reason=f"line {number}"))
    assert kept.count == TELL_AFTER
    assert kept.just_reached()


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            DatabaseUnavailable(reason="canceling statement due to statement timeout"),
            "Look at Postgres: load",
        ),
        (DatabaseError(reason="relation does not exist"), "Look at Postgres' own log"),
        (Fenced(term=3, holder="me", reason="its lease ran out unrenewed"), "raise leaseSeconds"),
        (ZeroDivisionError("division by zero"), "This is a defect of Muster"),
    ],
)
def test_people_are_told_from_the_fifth_on_what_was_found_and_what_to_do(
    error: Exception, advice: str
) -> None:
    kept = failures()
    for _ in range(TELL_AFTER - 1):
        kept.note(error)
    assert kept.told() is None
    kept.note(error)
    told = kept.told()
    assert told is not None
    assert told.code is ReasonCode.TURNS_FAIL
    assert "5 turns in a row" in told.message
    assert " ".join(str(error).split()) in told.message
    assert advice in told.message
