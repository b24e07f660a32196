"""Parts of long work hold about the same weight."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queues.parts import parts


@given(st.lists(st.integers(1, 300)), st.integers(1, 100))
def test_a_part_weighs_no_more_than_it_may_unless_it_is_one_heavy_item(weights: list[int], size: int) -> None:
    found = list(parts(weights, size, lambda weight: weight))
    assert [weight for part in found for weight in part] == weights
    assert all(sum(part) <= size or len(part) == 1 for part in found)
    pairs = pairwise(found)
    assert all(sum(part) + following[0] > size for part, following in pairs), (
        "no part is smaller than it needs to be"
    )


def test_without_a_size_all_is_one_part() -> None:
    assert list(parts(range(3), None)) == [[0, 1, 2]]
    assert list(parts([], None)) == []
