"""Tables as wide as the terminal: names are shortened in the middle, and the columns that are least missed go first.

What is left out is in ``-o wide`` and in the answers for programs, which are never shortened.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
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


def with_texts_below(
    lines: str,
    texts: Sequence[str],
    width: int | None,
    *,
    most: int = 2,
    title: str = "",
    is_beside: bool = True,
) -> str:
    """The lines of a table, each with a text at its end, or, where there is no room, below it in at most so many lines.

    ``title``: what the line of titles ends with. ``is_beside``: if not, texts are always below.
    """
    shown = lines.splitlines()
    told: list[str] = []
    for line, text in zip(shown, [title] * (len(shown) - len(texts)) + [*texts], strict=True):
        beside = f"{line}{' ' * _BETWEEN}{text}".rstrip()
        if not text or (is_beside and (width is None or len(beside) <= width)):
            told.append(beside)
            continue
        room = max((width or 0) - len(_INDENT), 20)
        parts = wrap(text, room, max_lines=most, placeholder=f" {_ELLIPSIS}", break_on_hyphens=False)
        told += [line.rstrip(), *(_INDENT + part for part in parts)]
    return "".join(f"{line}\n" for line in told)


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
