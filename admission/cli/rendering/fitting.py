"""Tables as wide as the terminal: names are shortened in the middle, and the columns that are least missed go first.

What is left out is in ``-o wide`` and in the answers for programs, which are never shortened.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from textwrap import wrap
from typing import Final, Generic, TypeVar

from admission.cli.output import Output
from admission.cli.rendering.table import NONE, Cell, printable, table

T = TypeVar("T")
#: Characters between two columns.
_BETWEEN: Final = 3
_INDENT: Final = "    "
_ELLIPSIS: Final = "…"
#: Characters of a column of texts: with fewer, texts are below.
LEAST_BESIDE: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """How a table gives way where a terminal has no room for it."""

    #: Columns of names, each with the characters that are left of it at least.
    names: Mapping[str, int] = field(default_factory=dict)
    #: Columns that go, the least missed one first.
    left_out: Sequence[str] = ()
    #: The last column, if its end may be cut, and the characters that are left of it at least.
    rest: str = ""
    least_rest: int = 16


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


def item_table(columns: Iterable[TableColumn[T]], items: Iterable[T], output: Output) -> str:
    """One line for each item, as wide as the user's terminal."""
    shown = [column for column in columns if column.wide in (None, output.is_wide)]
    rest = next((column for column in shown if column.least_rest), None)
    narrowing = Narrowing(
        names={column.name: column.least for column in shown if column.least},
        left_out=[column.name for column in sorted(shown, key=lambda each: each.goes) if column.goes],
        rest="" if rest is None else rest.name,
        least_rest=16 if rest is None else rest.least_rest,
    )
    return fitted_table(
        [column.name for column in shown],
        [[column.cell(item) for column in shown] for item in items],
        narrowing,
        width=output.room,
        headers=output.headers,
        right=" ".join(column.name for column in shown if column.right),
    )


def fits(text: str, width: int | None) -> bool:
    """Whether all lines have at most so many characters. ``width``: None for any number."""
    return width is None or max(map(len, text.splitlines()), default=0) <= width


def fitted_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    narrowing: Narrowing,
    *,
    width: int | None,
    headers: bool = True,
    right: str = "",
) -> str:
    """As ``table``, in lines of at most ``width`` characters (None for no bound) as far as its columns can give way."""
    cells = [[NONE if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if width is None:
        return table(columns, cells, headers=headers, right=right)
    gone: list[str] = []
    for name in (None, *narrowing.left_out):
        if name is not None:
            gone.append(name)
        kept = [index for index, column in enumerate(columns) if column not in gone]
        names = [columns[index] for index in kept]
        left = [[row[index] for index in kept] for row in cells]
        widths = _widths(names, left, headers)
        least = [min(natural, _least(name, narrowing)) for name, natural in zip(names, widths, strict=True)]
        if _length(least) <= width:
            break
    given = _grown(least, widths, width, narrowing, names)
    shown = [[_shortened(*each, narrowing) for each in zip(names, row, given, strict=True)] for row in left]
    return table(names, shown, headers=headers, right=right)


def with_text_below(line: str, text: str, width: int | None, *, most: int = 2) -> str:
    """A line with a text at its end, or, where there is no room, below it in at most so many lines. With newlines."""
    beside = f"{line}{' ' * _BETWEEN}{text}".rstrip()
    if width is None or len(beside) <= width:
        return f"{beside}\n"
    told = wrap(
        text,
        max(width - len(_INDENT), 20),
        max_lines=most,
        placeholder=f" {_ELLIPSIS}",
        break_on_hyphens=False,
    )
    return "".join(f"{each}\n" for each in (line.rstrip(), *(_INDENT + part for part in told)))


def with_texts_below(lines: str, texts: Sequence[str], width: int | None, *, most: int = 2) -> str:
    """As ``with_text_below``, for the last lines of a table: those before them, its titles, stay."""
    shown = lines.splitlines()
    head = shown[: len(shown) - len(texts)]
    below = (
        with_text_below(line, text, width, most=most)
        for line, text in zip(shown[len(head) :], texts, strict=True)
    )
    return "".join((*(f"{line}\n" for line in head), *below))


def with_texts(lines: str, texts: Sequence[str], width: int | None, *, title: str) -> str:
    """The lines of a table, each with a text in a last column, which goes on below itself: nothing of it is cut.

    Where less than ``LEAST_BESIDE`` characters of ``width`` are left for the column, texts are below the lines.
    ``title``: of the column; "": the table has no line of titles.
    """
    begins = max(map(len, lines.splitlines()), default=0) + _BETWEEN
    beside = width is None or width - begins >= LEAST_BESIDE
    indent = " " * begins if beside else _INDENT
    told: list[str] = []
    for line, text in zip(lines.splitlines(), [*([title] if title else []), *texts], strict=True):
        parts = [text] if width is None else wrap(text, width - len(indent), break_on_hyphens=False)
        if beside:
            told.append(f"{line.ljust(begins)}{parts.pop(0) if parts else ''}".rstrip())
        else:
            told.append(line)
            parts = [] if (title and len(told) == 1) or text == NONE else parts
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


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], headers: bool) -> list[int]:
    lines = [columns, *rows] if headers else rows
    return [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _least(column: str, narrowing: Narrowing) -> int:
    """The characters that a column has at least; what does not give way has all of its own."""
    if column in narrowing.names:
        return max(narrowing.names[column], len(column))
    return max(narrowing.least_rest, len(column)) if column == narrowing.rest else 10**9


def _grown(
    least: Sequence[int], natural: Sequence[int], width: int, narrowing: Narrowing, columns: Sequence[str]
) -> list[int]:
    """The widths with the room that is left: the last column gets a third of the line, then names get theirs, the
    shortest one before the others, and the last column the rest."""
    given, spare = list(least), width - _length(least)
    rest = (narrowing.rest,)
    for wanted, most in ((rest, width // 3), (narrowing.names, width), (rest, width)):
        while spare > 0:
            growing = [
                index
                for index, name in enumerate(columns)
                if name in wanted and given[index] < min(natural[index], most)
            ]
            if not growing:
                break
            given[min(growing, key=given.__getitem__)] += 1
            spare -= 1
    return given


def _shortened(column: str, cell: str, width: int, narrowing: Narrowing) -> str:
    if column in narrowing.names:
        return shortened_name(cell, width)
    if column == narrowing.rest and len(cell) > width:
        return f"{cell[: width - 1]}{_ELLIPSIS}"
    return cell
