"""Tables of traces, read with the place of whatever is wrong in them."""

import csv
import json
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from queues.errors import InvalidDocument


class Row(dict[str, str]):
    """One line of a table, that knows where it is from."""

    where: str

    def __missing__(self, column: str) -> str:
        raise InvalidDocument(where=self.where, found=f"no column {column}", expected="one")

    def number(self, column: str) -> Decimal:
        """A number of at least 0. Raises InvalidDocument."""
        text = self[column]
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or number < 0:
            raise InvalidDocument(
                where=f"{self.where}, column {column}", found=repr(text), expected="a number of at least 0"
            )
        return number

    def whole(self, column: str) -> int:
        """A whole number: what is asked, or how long it takes, rounded up. Raises InvalidDocument."""
        return int(self.number(column).to_integral_value(ROUND_CEILING))

    def offered(self, column: str) -> int:
        """A whole number: what there is, rounded down. Raises InvalidDocument."""
        return int(self.number(column))


def rows(path: Path) -> Iterator[Row]:
    """The lines of a CSV file with a head. Raises InvalidDocument."""
    for line, fields in enumerate(csv.DictReader(_text(path).splitlines()), start=2):
        row = Row({name: value or "" for name, value in fields.items() if name})
        row.where = f"{path}, line {line}"
        yield row


def document(path: Path) -> dict[str, Any]:
    """A JSON object. Raises InvalidDocument."""
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise InvalidDocument(where=str(path), found=str(error), expected="JSON") from error
    if not isinstance(found, dict):
        raise InvalidDocument(where=str(path), found=type(found).__name__, expected="a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidDocument(
            where=str(path), found=str(error.strerror), expected="a file that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidDocument(where=str(path), found=str(error), expected="UTF-8 text") from error
