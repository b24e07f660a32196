"""Colours: where they are used, and that a table without them says the same."""

import re
from pathlib import Path

import pytest

from admission.cli.rendering.terminal.colour import coloured, wants_colour
from tests.fakes.plugin import Asking

GOLDEN = Path(__file__).parents[1] / "golden"
SEQUENCE = re.compile(r"\033\[[0-9;]*m")


@pytest.fixture(autouse=True)
def _short_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "24")


@pytest.mark.parametrize(
    "words",
    ["jobs -A --since 9d", "pending -n ml", "queues", "who", "events -A", "explain bert -n ml", "top --once"],
)
async def test_a_coloured_answer_is_the_plain_one_with_colours(ask: Asking, words: str) -> None:
    _, plain, _ = await ask(words)
    code, text, err = await ask(f"{words} --color=always")
    assert (code, err) == (0, "")
    assert SEQUENCE.sub("", text) == plain
    assert "\033[" not in plain
    assert "\033[1m" in text, "headings are bold"

    expected = (GOLDEN / f"coloured-{words.partition(' ')[0]}.txt").read_text(encoding="utf-8")
    assert expected == text.replace("\033", "^")


async def test_answers_for_programs_never_have_colours(ask: Asking) -> None:
    for form in ("json", "yaml", "name"):
        _, out, _ = await ask(f"jobs -A --color=always -o {form}")
        assert "\033" not in out


@pytest.mark.parametrize(
    ("choice", "is_terminal", "environment", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colours_are_for_terminals_unless_somebody_says_otherwise(
    choice: str, is_terminal: bool, environment: dict[str, str], wanted: bool
) -> None:
    assert wants_colour(choice, is_terminal=is_terminal, environment=environment) is wanted


def test_a_name_that_is_a_word_of_another_column_has_no_colour() -> None:
    text = (
        "NAME      KIND   STATE     NODES(REASON)\n"
        "failed    job    running   node-1\n"
        "x         job    waiting   (NoFit)\n"
    )
    assert coloured(text).splitlines()[1:] == [
        "failed    job    \033[32mrunning\033[0m   node-1",
        "x         job    \033[33mwaiting\033[0m   \033[33m(NoFit)\033[0m",
    ]
    numbers = "NODE   ILL   OUT\na        0     3\nb       12     0\n"
    assert coloured(numbers).splitlines()[1:] == [
        "a        0     \033[33m3\033[0m",
        "b       \033[31m12\033[0m     0",
    ]


def test_what_is_no_table_has_no_colours() -> None:
    assert coloured("3 waiting that you may see\n") == "3 waiting that you may see\n"
    assert coloured("NAME   STATE\na      failed\n\nfailed   failed\n").endswith("\n\nfailed   failed\n")
