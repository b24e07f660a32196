"""What a terminal shows: sentences, tables, trees, ages and amounts, as kubectl prints them and as wide as it is.

Sentences are broken between words at its edge, where the terminal itself would break them in one. In tables names are
shortened in the middle, and the columns that are least missed go first. What is left out is in ``-o wide`` and in the
answers for programs, which are never shortened.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, Generic, TextIO, TypeVar

import click

from queues.text_format import printable, short_duration

if TYPE_CHECKING:
    from datetime import datetime

    from admission.cli.output import Output

# -- sentences -------------------------------------------------------------------------------------------------

#: Columns below which nothing is broken: there is no room for words.
_LEAST: Final = 20


def is_terminal(stream: TextIO) -> bool:
    """Whether people read it as it comes."""
    return stream.isatty()


def columns_of(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream goes to. None if it goes elsewhere, where lines may have any length."""
    if not is_terminal(stream):
        return None
    import shutil

    return shutil.get_terminal_size().columns


def filled(text: str, columns: int | None, *, hanging: str = "") -> str:
    """Lines of at most so many columns (None for any number), broken between words.

    Each keeps its indent, and goes on with ``hanging`` behind it; points of a list go on below their first word. What
    has no space, such as an address, stays whole.
    """
    if columns is None or max(map(len, text.splitlines()), default=0) <= columns:
        return text
    from textwrap import wrap

    lines: list[str] = []
    for line in text.splitlines():
        if len(line) <= columns:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        lines += wrap(
            line,
            max(columns, _LEAST),
            subsequent_indent=indent + ("  " if line.lstrip().startswith("- ") else hanging),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def say(text: str, *, err: bool = False) -> None:
    """Print sentences for people. ``err``: to standard error."""
    click.echo(filled(text, columns_of(sys.stderr if err else sys.stdout)), err=err)


def warn(text: str) -> None:
    """Print sentences for people to standard error."""
    say(text, err=True)


# -- tables of any width, and what their cells show ------------------------------------------------------------

Cell = str | int | None

#: An empty cell, so that columns can be counted.
NONE: Final = "-"


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, headers: bool = True, right: str = ""
) -> str:
    """Aligned columns, three spaces apart. ``right`` names the columns of numbers."""
    lines = [[NONE if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if headers:
        lines.insert(0, list(columns))
    widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]
    rights = {index for index, name in enumerate(columns) if name in right.split()}
    return "".join(_line(line, widths, rights) for line in lines)


def one_line(text: str) -> str:
    """Text that cannot break a table."""
    return " ".join(text.split())


def _line(cells: Sequence[str], widths: Sequence[int], rights: set[int]) -> str:
    padded = (
        cell.rjust(width) if index in rights else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "   ".join(padded).rstrip() + "\n"


def branches(parents: Mapping[str, str | None]) -> dict[str, str]:
    """The lines to draw before each name. Parents come before children; a name without a known parent is a root."""
    last: dict[str | None, str] = {}
    for name, parent in parents.items():
        last[parent if parent in parents else None] = name
    drawn: dict[str, str] = {}
    stems: dict[str, str] = {}
    for name, parent in parents.items():
        if parent is None or parent not in stems:
            drawn[name] = stems[name] = ""
            continue
        ends = last[parent] == name
        drawn[name] = stems[parent] + ("└─ " if ends else "├─ ")
        stems[name] = stems[parent] + ("   " if ends else "│  ")
    return drawn


def moment(text: str) -> "datetime":
    """A time of the read API."""
    from datetime import datetime

    return datetime.fromisoformat(text)


def seconds_between(since: str, until: str) -> int:
    """Whole seconds from one time of the read API to another; 0: it is no later."""
    return max(0, int((moment(until) - moment(since)).total_seconds()))


def age(since: str | None, now: str) -> str:
    """The age, as kubectl shortens it: ``45s``, ``5m30s``, ``3h12m``, ``4d``."""
    if since is None:
        return NONE
    return short_duration(seconds_between(since, now))


_STATED: Final = re.compile(r"([0-9]{1,9})(h|m|s)")
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}
#: A name with a domain: of a resource, a level of topology, a label or an annotation.
_NAME: Final = re.compile(r"(?<![\w./=-])[a-z0-9-]+(?:\.[a-z0-9-]+)+/[\w.-]*\w")
#: What is before a resource or a level in a sentence: an amount, or words. Other names are there to be copied.
_BEFORE_COUNTED: Final = re.compile(
    r"(?:\d(?:m|k|[KMGTPE]i?)? (?:(?:free|more) )?|\[|\b(?:in one|domain of|on) )$"
)
#: Commands and other text to be copied.
_QUOTED: Final = re.compile(r"(`[^`]*`|\bkubectl .*)")


def stated_seconds(text: object) -> int | None:
    """Seconds of a duration in whole hours, minutes and seconds as objects have it (``1h30m``). None for other text."""
    parts = _STATED.findall(text) if isinstance(text, str) else []
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)


def hours(number: float) -> str:
    """Hours of use, as all commands show them: ``1502.50``."""
    return f"{number:.2f}"


def short_resource(name: str) -> str:
    """``nvidia.com/gpu`` → ``gpu``. ``-o wide`` shows full names."""
    return name.rpartition("/")[2]


def short_names(text: str) -> str:
    """A message with ``8 gpu`` for ``8 nvidia.com/gpu`` and ``in one rack`` for ``in one topology.muster.dev/rack``.
    Names that would be called the same are left as they are, and so are commands and annotations."""
    alike = alike_in_short(set(_NAME.findall(text)))

    def short(name: re.Match[str]) -> str:
        is_counted = name[0] not in alike and _BEFORE_COUNTED.search(name.string, 0, name.start())
        return short_resource(name[0]) if is_counted else name[0]

    return "".join(
        part if index % 2 else _NAME.sub(short, part) for index, part in enumerate(_QUOTED.split(text))
    )


def alike_in_short(names: Collection[str]) -> set[str]:
    """Those of the names, each once, whose short form another one has too: ``nvidia.com/gpu`` and ``amd.com/gpu``."""
    short = [short_resource(name) for name in names]
    return {name for name in names if short.count(short_resource(name)) > 1}


def amounts(
    asked: Mapping[str, str], *, all_of_them: bool = False, alike: Collection[str] | None = None
) -> str:
    """``32 gpu``: devices if any are asked, else CPU and memory; or everything, with full names. ``alike``: names that
    are not shortened, None for those of ``asked`` that would be called the same."""
    named = {name: text for name, text in asked.items() if name != "pods"}
    if all_of_them:
        ordered = sorted(named.items(), key=lambda item: ("/" not in item[0], item[0]))
        return ", ".join(f"{text} {name}" for name, text in ordered) or NONE
    devices = {name: text for name, text in named.items() if "/" in name}
    whole = alike_in_short(named) if alike is None else alike
    parts = sorted((devices or named).items())
    return (
        ", ".join(f"{text} {name if name in whole else short_resource(name)}" for name, text in parts) or NONE
    )


def amounts_together(each: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The sums of amounts, by resource."""
    from queues.resources import amount, show

    units: dict[str, int] = {}
    for taken in each:
        for resource, text in taken.items():
            units[resource] = units.get(resource, 0) + amount(resource, text)
    return {resource: show(resource, total) for resource, total in units.items()}


def devices(taken: Mapping[str, str]) -> str | None:
    """The number of GPUs; with resources of several kinds, or only other devices, each with its name. None for none."""
    named = {name: text for name, text in taken.items() if "/" in name}
    gpus = {name: text for name, text in named.items() if "gpu" in short_resource(name)}
    if len(gpus) == 1:
        return next(iter(gpus.values()))
    return amounts(gpus or named) if named else None


def rounded(resource: str, text: str | None) -> str | None:
    """An average with three digits: ``3219m`` GPUs → ``3.22``, 12345678901 bytes → ``11.5Gi``."""
    from queues.resources import amount, in_bytes, scale

    if text is None:
        return None
    units = amount(resource, text)
    if not in_bytes(resource):
        return _three_digits(units / scale(resource))
    size, suffix = next(((2**power, suffix) for power, suffix in _BINARY if abs(units) >= 2**power), (1, ""))
    return f"{_three_digits(units / size)}{suffix}"


_BINARY: Final = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def _three_digits(number: float) -> str:
    decimals = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


# -- tables as wide as the terminal ----------------------------------------------------------------------------

T = TypeVar("T")
#: Characters between two columns.
_BETWEEN: Final = 3
_INDENT: Final = "    "
_ELLIPSIS: Final = "…"
#: Characters of a column of texts: with fewer, texts are below.
LEAST_BESIDE: Final = 30


@dataclass(frozen=True)
class TableColumn(Generic[T]):
    """A column of a table, and what it shows of an item."""

    name: str
    cell: Callable[[T], Cell]
    _: KW_ONLY
    #: A number: its cells end at the same place.
    right: bool = False
    #: Of a name: the characters that are left of it at least where a line has no room. 0: it does not give way.
    least: int = 0
    #: Of the last column, if its end may be cut: the characters that are left of it at least.
    least_rest: int = 0
    #: The place among the columns that go where that is not enough, 1 for the least missed one. 0: it stays.
    goes: int = 0
    #: Shown with ``-o wide`` only, or without it only. None for always.
    wide: bool | None = None


def item_table(columns: Iterable[TableColumn[T]], items: Iterable[T], output: "Output") -> str:
    """One line for each item, of at most the characters of the user's terminal as far as columns can give way."""
    shown = [column for column in columns if column.wide in (None, output.is_wide)]
    rows = [[_text(column.cell(item)) for column in shown] for item in items]
    width = output.room
    if width is not None:
        shown, rows = _left(shown, rows, width, output.headers)
        given = _grown(shown, _widths(shown, rows, output.headers), width)
        rows = [[_shortened(*each) for each in zip(shown, row, given, strict=True)] for row in rows]
    right = " ".join(column.name for column in shown if column.right)
    return table([column.name for column in shown], rows, headers=output.headers, right=right)


def fits(text: str, width: int | None) -> bool:
    """Whether all lines have at most so many characters. ``width``: None for any number."""
    return width is None or max(map(len, text.splitlines()), default=0) <= width


def with_texts(
    lines: str, texts: Sequence[str], width: int | None, *, title: str = "", is_beside: bool = True
) -> str:
    """The lines of a table, each with a text in a last column, which goes on below itself: nothing of it is cut.

    Where less than ``LEAST_BESIDE`` characters of ``width`` are left for the column, or where it is not wanted
    (``is_beside``), texts are below the lines. ``title``: of the column, for the line of titles if there is one.
    """
    from textwrap import wrap

    shown = lines.splitlines()
    titles = [title] * (len(shown) - len(texts))
    begins = max(map(len, shown), default=0) + _BETWEEN
    is_beside = is_beside and (width is None or width - begins >= LEAST_BESIDE)
    indent = " " * begins if is_beside else _INDENT
    told: list[str] = []
    for number, (line, text) in enumerate(zip(shown, [*titles, *texts], strict=True)):
        parts = [text] if width is None else wrap(text, max(width - len(indent), 20), break_on_hyphens=False)
        if is_beside:
            told.append(f"{line.ljust(begins)}{parts.pop(0) if parts else ''}".rstrip())
        else:
            told.append(line)
            parts = [] if number < len(titles) or text == NONE else parts
        told += [indent + part for part in parts]
    return "".join(f"{line}\n" for line in told)


def shortened_name(text: str, length: int) -> str:
    """``team-visi…in-large``: the beginning and the end distinguish most names."""
    if len(text) <= length:
        return text
    if length < 2:
        return text[:length]
    end = (length - 1) // 2
    return f"{text[: length - 1 - end]}{_ELLIPSIS}{text[len(text) - end :]}"


def _text(cell: Cell) -> str:
    return NONE if cell is None else printable(str(cell))


def _widths(columns: Sequence[TableColumn[T]], rows: Sequence[Sequence[str]], headers: bool) -> list[int]:
    lines = [[column.name for column in columns], *rows] if headers else rows
    return [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _least(column: TableColumn[T], natural: int) -> int:
    """The characters that a column has at least; what does not give way has all of its own."""
    least = column.least or column.least_rest
    return min(natural, max(least, len(column.name)) if least else natural)


def _left(
    columns: list[TableColumn[T]], rows: list[list[str]], width: int, headers: bool
) -> tuple[list[TableColumn[T]], list[list[str]]]:
    """The columns for which a line has room, and their cells: the least missed ones have gone."""
    going = sorted((column for column in columns if column.goes), key=lambda column: -column.goes)
    while _length(list(map(_least, columns, _widths(columns, rows, headers)))) > width and going:
        index = columns.index(going.pop())
        columns = columns[:index] + columns[index + 1 :]
        rows = [row[:index] + row[index + 1 :] for row in rows]
    return columns, rows


def _grown(columns: Sequence[TableColumn[T]], natural: Sequence[int], width: int) -> list[int]:
    """The widths with the room that is left: the last column gets a third of the line, then names get theirs, the
    shortest one before the others, and the last column the rest."""
    given = list(map(_least, columns, natural))
    spare = width - _length(given)
    names = [index for index, column in enumerate(columns) if column.least]
    rest = [index for index, column in enumerate(columns) if column.least_rest]
    for wanted, most in ((rest, width // 3), (names, width), (rest, width)):
        while spare > 0 and (
            growing := [index for index in wanted if given[index] < min(natural[index], most)]
        ):
            given[min(growing, key=given.__getitem__)] += 1
            spare -= 1
    return given


def _shortened(column: TableColumn[T], cell: str, width: int) -> str:
    if column.least:
        return shortened_name(cell, width)
    if column.least_rest and len(cell) > width:
        return f"{cell[: width - 1]}{_ELLIPSIS}"
    return cell
