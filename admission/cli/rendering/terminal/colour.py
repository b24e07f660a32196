"""Colours of tables on a terminal. A colour says nothing that a word next to it does not say."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

CHOICES: Final = ("auto", "always", "never")

_GREEN, _YELLOW, _RED, _DIM = "32", "33", "31", "2"
_RESET: Final = "\033[0m"
_BOLD: Final = "1"
#: Colours of words, by the column they are in; "": of any other word in it. What is not here has no colour.
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "STATE": {
        "running": _GREEN,
        "succeeded": _GREEN,
        "open": "",
        "Ready,SchedulingDisabled": _YELLOW,
        "Ready": "",
        "waiting": _YELLOW,
        "evicting": _YELLOW,
        "failed": _RED,
        "broken": _RED,
        "NotReady": _RED,
        "Unknown": _RED,
        "deleted": _DIM,
        "ended": _DIM,
        "": _YELLOW,
    },
    "REASON": {"": _YELLOW},
    "NODES(REASON)": {"(": _YELLOW},
    "WHAT": {"admit": _GREEN, "adopt": _GREEN, "evict": _YELLOW, "reject": _YELLOW, "free": _DIM},
    "RECOVERY": {"": _YELLOW},
    "FAULTS": {"": _RED},
    "ILL": {"0": "", "": _RED},
    "OUT": {"0": "", "": _YELLOW},
}
_NAME: Final = re.compile(r"[A-Z][A-Z0-9()%-]*(?:\([a-z0-9]+\))?…?|…")
#: The line of a workload in which ``explain`` shows its state.
_STATED: Final = re.compile(r"(  State +(?:finished: )?)(\w+)(.*\n?)", re.DOTALL)
_BAR: Final = re.compile(r"█+")


#: Columns of numbers: they end with their heading, others begin with it.
_NUMBERS: Final = ("ILL", "OUT")


class _Column(NamedTuple):
    """A column of a table that has colours."""

    name: str
    #: Characters of a line that are its own. None for the end of the line.
    begin: int
    end: int | None


def wants_colour(choice: str, *, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Whether an answer is coloured. ``choice``: one of ``CHOICES``; see https://no-color.org for NO_COLOR."""
    if choice != "auto":
        return choice == "always"
    return is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Tables with their headings, as they are shown, with colours. Lines that belong to no table stay as they are."""
    return "".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    columns: list[_Column] = []
    for line in text.splitlines(keepends=True):
        found = _headings(line)
        if found is not None:
            columns = found
            yield _styled(line.rstrip("\n"), _BOLD) + "\n"
        elif not line.strip():
            columns = []
            yield line
        elif (stated := _STATED.match(line)) is not None:
            colour = _colour("STATE", stated.group(2))
            yield (
                stated.group(1)
                + (_styled(stated.group(2), colour) if colour else stated.group(2))
                + stated.group(3)
            )
        else:
            yield _BAR.sub(lambda bar: _styled(bar.group(), _GREEN), _painted(line, columns))


def _headings(line: str) -> list[_Column] | None:
    """The columns with colours of a line of headings. None if it is another line."""
    names = list(re.finditer(r"\S+", line))
    if len(names) < 2 or not all(_NAME.fullmatch(each.group()) for each in names):
        return None
    ends = [0, *(each.end() for each in names)]
    begins: list[int | None] = [*(each.start() for each in names), None]
    return [
        _Column(each.group(), ends[index], each.end())
        if each.group() in _NUMBERS
        else _Column(each.group(), each.start(), begins[index + 1])
        for index, each in enumerate(names)
        if each.group() in _WORDS
    ]


def _painted(line: str, columns: list[_Column]) -> str:
    for column in reversed(columns):
        cell = re.search(r"\S.*\S|\S", line[column.begin : column.end])
        if cell is None:
            continue
        start, end = column.begin + cell.start(), column.begin + cell.end()
        colour = _colour(column.name, cell.group())
        if colour:
            line = line[:start] + _styled(line[start:end], colour) + line[end:]
    return line


def _colour(column: str, cell: str) -> str:
    if cell == "-":
        return ""
    words = _WORDS[column]
    first = next((word for word in words if word and _begins(cell, word)), "")
    return words.get(first, "")


def _begins(cell: str, word: str) -> bool:
    return cell == word or (cell.startswith(word) and (word == "(" or not cell[len(word)].isalnum()))


def _styled(text: str, style: str) -> str:
    return f"\033[{style}m{text}{_RESET}"
