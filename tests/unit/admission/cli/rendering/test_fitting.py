"""Tables give way to the terminal: names in the middle, then the columns that are least missed."""

from typing import Any

import pytest

from admission.cli.output import Output
from admission.cli.rendering.terminal import (
    TableColumn,
    filled,
    item_table,
    shortened_name,
    with_texts,
)
from tests.tables import with_rows

COLUMNS: list[TableColumn[list[str | None]]] = [
    TableColumn("NAMESPACE", lambda row: row[0], least=9),
    TableColumn("NAME", lambda row: row[1], least=10),
    TableColumn("KIND", lambda row: row[2], goes=1),
    TableColumn("AGE", lambda row: row[3], goes=2),
    TableColumn("REASON", lambda row: row[4], least_rest=8),
]
ROWS: list[list[str | None]] = [
    ["research-production", "llama-70b-pretraining-restart-3", "vcjob", "3h", "(QueueLimit)"],
    ["lab", "sweep", "podgroup", "4d", None],
]


def fitted(width: int | None, headers: bool = True) -> list[str]:
    return item_table(COLUMNS, ROWS, Output(width=width, headers=headers)).splitlines()


@pytest.mark.parametrize("width", [200, None])
def test_a_table_that_fits_is_left_as_it_is(width: int | None) -> None:
    assert (
        fitted(width)[1]
        == "research-production   llama-70b-pretraining-restart-3   vcjob      3h    (QueueLimit)"
    )


def test_names_are_shortened_in_the_middle_and_get_all_the_room_there_is() -> None:
    head, first, second = fitted(72)
    assert head.split() == [column.name for column in COLUMNS]
    assert (len(first), first.split()[1:]) == (72, ["llama-70b…estart-3", "vcjob", "3h", "(QueueLimit)"])
    assert second.split() == ["lab", "sweep", "podgroup", "4d", "-"]


def test_the_column_that_is_least_missed_goes_before_the_others() -> None:
    assert fitted(49)[0].split() == ["NAMESPACE", "NAME", "AGE", "REASON"]
    assert fitted(38)[0].split() == ["NAMESPACE", "NAME", "REASON"]
    for width in range(33, 90):
        assert max(map(len, fitted(width))) <= width
        assert max(map(len, fitted(width, headers=False))) <= width


def test_at_last_the_end_of_the_last_column_goes() -> None:
    assert fitted(33)[1].split()[-1] == "(QueueL…"
    assert max(map(len, fitted(20))) == 33  # as narrow as it can be


@with_rows("text", "length", "shown")
def test_a_shortened_name_keeps_its_beginning_and_its_end(text: str, length: int, shown: str) -> None:
    assert shortened_name(text, length) == shown


TEXTS = ["no rack has 4 nodes with 8 free gpu; the best one has 3", "-"]


def test_texts_go_on_below_themselves_and_lose_nothing(golden: Any) -> None:
    lines = "AGE   WHAT\n10m   evict\n 8m   admit\n"
    assert with_texts(lines, TEXTS, None, title="WHY").splitlines()[1].endswith(TEXTS[0])
    assert with_texts(lines, TEXTS, 50, title="WHY").splitlines() == golden["first"]
    assert with_texts(lines, TEXTS, 40, title="WHY").splitlines() == golden["second"]
    assert with_texts(lines, TEXTS, 80, is_beside=False).splitlines() == [
        *("AGE   WHAT", "10m   evict", f"    {TEXTS[0]}", " 8m   admit"),
    ]


@with_rows("text", "shown")
def test_sentences_are_broken_between_words(text: str, shown: str) -> None:
    assert filled(text, 20) == shown
    assert filled(text, None) == text
