"""Patterns of HyperNodes are read as Go reads them, and nobody waits for a hostile one."""

import json
from pathlib import Path

import pytest

from queues.api.reading import name_patterns
from queues.api.reading.name_patterns import LARGEST, InvalidPattern, Patterns, check_pattern

GO = json.loads((Path(__file__).parent / "go_patterns.json").read_text())
#: Names on which each of the hostile ones has to try everything, were it tried step by step.
NAMES = [f"{'a' * 60}-{number}" for number in range(100)]
HOSTILE = [
    "(a+)+$",
    "(a|a)*x",
    "(a|b)*a(a|b){1000}x",
    "(((a?b?c?d?n?o?e?){30}){30}){1}x",
    "(?:a?){1000}" * 20 + "x",
    "(.?){1000}" * 4 + "x",
]


def test_what_go_finds_is_found_and_what_it_refuses_is_refused() -> None:
    assert len(GO["found"]) > 300
    # Together, as HyperNodes are, and each alone: in both ways the same.
    together = Patterns(GO["found"]).found_in(GO["names"])
    for text, answer in GO["found"].items():
        expected = {name for name, found in zip(GO["names"], answer or "", strict=False) if found == "1"}
        assert set(together.get(text, ())) == expected, text
        assert set(Patterns([text]).found_in(GO["names"]).get(text, ())) == expected, text


@pytest.mark.parametrize("text", [text for text, answer in GO["found"].items() if answer is None])
def test_a_pattern_that_go_refuses_says_why(text: str) -> None:
    with pytest.raises(InvalidPattern) as told:
        check_pattern(text)
    assert str(told.value).startswith("A pattern cannot be used: ")
    assert told.value.facts["reason"].isprintable()


@pytest.mark.parametrize("text", ["", "\ud800", r"\pL{1000}", "|".join(f"{n * n:x}" for n in range(60_000))])
def test_a_pattern_that_is_empty_no_text_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(InvalidPattern):
        check_pattern(text)


def test_what_is_told_of_a_long_pattern_is_short() -> None:
    with pytest.raises(InvalidPattern) as told:
        check_pattern("(" + "a" * 100_000)
    assert len(str(told.value)) < 200


def test_a_list_of_a_thousand_names_is_not_too_large() -> None:
    names = [f"ip-10-{n // 250}-{n % 250}-7.internal" for n in range(1000)]
    text = f"^({'|'.join(names)})$"

    assert Patterns([text]).found_in([*names, "ip-10-9-9-7.internal"]) == {text: names}


def test_hostile_patterns_cost_no_more_than_others_and_hide_none() -> None:
    found = Patterns([*HOSTILE, "-7$", "("]).found_in(NAMES)  # would not end, if tried step by step

    assert found["-7$"] == [NAMES[7]]
    assert "(" not in found
    assert not any(found[text] for text in HOSTILE)


def test_where_memory_does_not_hold_all_automata_the_answers_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = Patterns(GO["found"]).found_in(GO["names"])
    for memory in (LARGEST // 16, 1):
        monkeypatch.setattr(name_patterns, "LARGEST_SET", memory)
        fewer = Patterns(GO["found"])
        assert len(fewer._sets) > 1
        assert fewer.found_in(GO["names"]) == expected


def test_no_patterns_are_found_nowhere() -> None:
    assert Patterns([]).found_in(["a"]) == {}
    assert Patterns(["(", r"\C"]).found_in(["a"]) == {}
