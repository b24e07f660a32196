"""Who holds the devices of a rack is told by a letter of its own, and by a colour that no neighbour has."""

from itertools import pairwise

from admission.cli.page.charts.owners import COLOURS, marks_of, owners_of
from admission.read_api.bodies import SeatedBody

Holder = tuple[SeatedBody, int]


def holder(name: str, count: int = 1) -> Holder:
    seated = SeatedBody(
        kind="job",
        namespace="ml",
        name=name,
        uid=f"{name}-uid",
        queue="team",
        evicting=False,
        seats=1,
        held={},
    )
    return seated, count


def test_each_workload_of_a_rack_has_a_letter_of_its_own() -> None:
    marks = marks_of([[holder(f"job-{number}")] for number in range(60)])
    letters = [each.letter for each in marks.values()]
    assert letters[:3] == ["A", "B", "C"]
    assert letters[23:26] == ["Z", "AA", "AB"]
    assert not {"I", "O"} & set("".join(letters))
    assert len(set(letters)) == 60


def test_no_colour_is_that_of_a_neighbour_on_the_node_or_above() -> None:
    rack = [[holder(f"job-{node}-{place}") for place in range(COLOURS // 2)] for node in range(20)]
    marks = marks_of(rack)
    colours = [{marks[one.uid].colour for one, _ in node} for node in rack]
    assert all(len(here) == COLOURS // 2 for here in colours)
    assert not any(here & above for above, here in pairwise(colours))


def test_with_more_workloads_than_colours_each_has_one_all_the_same() -> None:
    marks = marks_of([[holder(f"job-{number}") for number in range(COLOURS + 2)]])
    assert {each.colour for each in marks.values()} == set(range(COLOURS))


def test_a_workload_has_one_mark_on_all_its_nodes() -> None:
    marks = marks_of([[holder("train", 8)], [holder("other", 2), holder("train", 6)]])
    assert [each.letter for each in marks.values()] == ["A", "B"]


def test_the_workloads_of_a_rack_are_named_with_their_numbers_and_not_without_end() -> None:
    rack = [[holder("train", 3)], *([holder(f"job-{number}")] for number in range(10)), [holder("train", 2)]]
    owners, more = owners_of(rack, marks_of(rack))
    assert (owners[0].mark.letter, owners[0].name, owners[0].gpus) == ("A", "ml/train", 5)
    assert (len(owners), more) == (8, 3)
    assert owners_of([()], {}) == ([], 0)
