"""Who leads back to himself is told, by a shortest way."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queues.api.validation.cycles import components, cycles

NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(st.sampled_from("abcdefghx"), max_size=4))


def reached(arcs: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(arcs[start])
    while todo:
        name = todo.pop()
        if name in arcs and name not in found:
            found.add(name)
            todo += arcs[name]
    return found


@given(GRAPHS)
def test_a_part_has_those_who_lead_to_one_another_and_comes_after_those_it_leads_to(
    arcs: dict[str, list[str]],
) -> None:
    parts = components(arcs)
    at = {name: index for index, part in enumerate(parts) for name in part}

    assert sorted(name for part in parts for name in part) == sorted(arcs)
    for one in arcs:
        for other in reached(arcs, one):
            assert at[other] <= at[one]
            assert one == other or (at[other] == at[one]) == (one in reached(arcs, other))


@given(GRAPHS)
def test_there_is_a_way_around_for_each_part_that_has_one(arcs: dict[str, list[str]]) -> None:
    ways = cycles(arcs)

    for way in ways:
        assert way[0] == way[-1] == min(way)
        assert all(target in arcs[name] for name, target in pairwise(way))
    round_about = [part for part in components(arcs) if any(name in reached(arcs, name) for name in part)]
    assert sorted(min(part) for part in round_about) == [way[0] for way in ways]


def test_a_long_way_needs_no_recursion() -> None:
    arcs = {str(n): [str((n + 1) % 5000)] for n in range(5000)}

    (way,) = cycles(arcs)

    assert len(way) == 5001
