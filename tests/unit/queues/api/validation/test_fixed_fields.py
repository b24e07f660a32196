"""What an update of a Volcano Job may not change is compared by what it means."""

import pytest

from queues.api.validation.fixed_fields import job_change
from tests.builders.same_meaning import PAIRS, Pair


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_change_is_named_and_other_words_for_the_same_are_none(pair: Pair) -> None:
    before, now = pair.specs()
    change = job_change(before, now)
    assert (change.path if change else "") == pair.path


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_comparison_has_no_direction(pair: Pair) -> None:
    before, now = pair.specs()
    assert (job_change(now, before) is None) == (pair.path == "")
