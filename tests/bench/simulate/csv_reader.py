"""Tables of traces; errors in them have their place."""

import csv
import json
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from queues.errors import InvalidDocument
from queues.workload import EVERYWHERE, NodeFilter, Requirement

#: The largest number in a table: larger amounts or times do not fit int64 in our units.
LARGEST: Final = 10**9

#: Label of a node with the model of its GPUs.
MODEL: Final = "nvidia.com/gpu.product"


class TableRow(dict[str, str]):
    """One line of a table, with its place in the file."""

    where: str

    def __missing__(self, column: str) -> str:
        raise InvalidDocument(where=self.where, found=f"no column {column}", expected="one")

    def name(self, column: str) -> str:
        """A name; it must not be empty. Raises InvalidDocument."""
        text = self[column]
        if not text:
            raise self._wrong(column, "a name")
        return text

    def number(self, column: str, most: int = LARGEST) -> Decimal:
        """A number from 0 to ``most``. Raises InvalidDocument."""
        try:
            number = Decimal(self[column])
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or not 0 <= number <= most:
            raise self._wrong(column, f"a number from 0 to {most}")
        return number

    def whole(self, column: str, most: int = LARGEST) -> int:
        """A request or a duration, rounded up to a whole number. Raises InvalidDocument."""
        return int(self.number(column, most).to_integral_value(ROUND_CEILING))

    def offered(self, column: str, most: int = LARGEST) -> int:
        """An offered amount, rounded down to a whole number. Raises InvalidDocument."""
        return int(self.number(column, most))

    def signed(self, column: str) -> int:
        """A whole number; 0 if the cell is empty. Raises InvalidDocument."""
        text = self.get(column, "") or "0"
        digits = text.removeprefix("-")
        if not (digits.isdecimal() and len(digits) <= len(str(LARGEST)) and abs(int(text)) <= LARGEST):
            raise self._wrong(column, f"a whole number from -{LARGEST} to {LARGEST}")
        return int(text)

    def _wrong(self, column: str, expected: str) -> InvalidDocument:
        return InvalidDocument(
            where=f"{self.where}, column {column}", found=repr(self[column])[:80], expected=expected
        )


def rows(path: Path) -> Iterator[TableRow]:
    """The lines of a CSV file with a head. Raises InvalidDocument."""
    reader = csv.reader(_text(path).splitlines())
    try:
        head = [name.strip() for name in next(reader, [])]
        if not any(head) or len(set(head)) < len(head):
            found = f"the columns {', '.join(head)}" if any(head) else "nothing"
            raise InvalidDocument(
                where=f"{path}, line 1", found=found, expected="the names of the columns, each once"
            )
        for fields in reader:
            if fields:
                yield _row(f"{path}, line {reader.line_num}", head, fields)
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        raise InvalidDocument(where=where, found=str(error), expected="a line of CSV") from error


def _row(where: str, head: list[str], fields: list[str]) -> TableRow:
    if len(fields) > len(head):
        raise InvalidDocument(where=where, found=f"{len(fields)} values", expected=f"{len(head)}")
    row = TableRow(zip(head, (*fields, *[""] * (len(head) - len(fields))), strict=True))
    row.where = where
    return row


def named(path: Path, column: str) -> list[TableRow]:
    """The lines of a CSV file; each has another name in ``column``. Raises InvalidDocument."""
    found: dict[str, TableRow] = {}
    for row in rows(path):
        name = row.name(column)
        if name in found:
            first = found[name].where.removeprefix(f"{path}, ")
            raise InvalidDocument(
                where=f"{row.where}, column {column}", found=f"{name!r}, as in {first}", expected="each once"
            )
        found[name] = row
    return list(found.values())


def nodes_with(models: str) -> NodeFilter:
    """The nodes with one of these models, as in ``T4|V100``; "": all nodes."""
    wanted = tuple(sorted(set(filter(None, models.split("|")))))
    return NodeFilter(affinity=((Requirement(MODEL, "In", wanted),),)) if wanted else EVERYWHERE


def document(path: Path) -> dict[str, Any]:
    """A JSON object. Raises InvalidDocument."""
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(where=str(path), found=str(error), expected="JSON") from error
    if not isinstance(found, dict):
        raise InvalidDocument(where=str(path), found=type(found).__name__, expected="a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidDocument(
            where=str(path), found=str(error.strerror), expected="a file that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidDocument(where=str(path), found=str(error), expected="UTF-8 text") from error
