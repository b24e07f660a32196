"""The same failure again and again: pauses grow, and people are told what was found and what to do."""

from collections.abc import Callable
from typing import Any

import pytest

from admission.containment.repeated_failures import TELL_AFTER, RepeatedFailures
from queues.errors import DatabaseError, DatabaseUnavailable, Fenced
from queues.reason_codes import ReasonCode
from queues.text_format import listed


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
    "texts",
    [
        [f"duplicate key '{name}'" for name in ("train", "serve", "it isn't")],
        [f'invalid input for "{name}": too long' for name in ("train", "serve and more")],
        [f"Key (uid)=({uid}) exists" for uid in ("0b1c-d2e3-aaaa", "ffff-0aeb-b1c2")],
        [f"no answer about {name} in time" for name in ("team-a/train", "team-b/serve")],
    ],
)
def test_names_in_an_error_with_a_meaning_do_not_make_it_another_one(texts: list[str]) -> None:
    kept = failures()
    for text in texts:
        kept.note(DatabaseError(reason=text))
    assert kept.count == len(texts)


def raised(function: Callable[[Any], str], name: str) -> BaseException:
    """The error of a function that cannot handle what it is given."""
    with pytest.raises(ValueError, match=name) as found:
        function(Odd(name))
    return found.value


class Odd:
    """Has neither a length nor an order."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        raise ValueError(f"{self.name} is odd")

    def __lt__(self, other: object) -> bool:
        raise ValueError(f"{self.name} is odd")


def test_a_defect_is_the_same_if_it_comes_from_the_same_place_whatever_it_says() -> None:
    kept = failures()
    for name in ("train", "serve", "eval"):
        kept.note(raised(listed, name))
    assert kept.count == 3


def test_a_defect_in_another_place_is_another_one() -> None:
    kept = failures()
    kept.note(raised(listed, "train"))
    kept.note(raised(len, "train"))
    assert kept.count == 1


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
