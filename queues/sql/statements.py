"""Rows handed to a statement: one array per column, so that one statement serves any number of rows.

Statements are built once, at import, and executed with ``UnnestRows.rows``: building them costs more than running them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    DateTime,
    Integer,
    SmallInteger,
    Text,
    bindparam,
    column,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.expression import TableValuedAlias
from sqlalchemy.types import TypeEngine

TEXT: Final = Text()

NUMBER: Final = BigInteger()

FLAG: Final = Boolean()

SMALL: Final = SmallInteger()

PLAIN: Final = Integer()

JSON: Final = JSONB()

TEXTS: Final = ARRAY(Text)

NUMBERS: Final = ARRAY(BigInteger)

INTEGERS: Final = ARRAY(Integer)

SMALLS: Final = ARRAY(SmallInteger)

_prefixes = count()


class UnnestRows:
    """Few narrow columns: ``FROM unnest($1, $2, …) AS given(a, b, …)``."""

    def __init__(self, **types: TypeEngine[Any]) -> None:
        prefix = f"given{next(_prefixes)}"
        self._kinds = tuple(types.values())
        self._parameters = [f"{prefix}_{name}" for name in types]
        arrays = [
            bindparam(parameter, type_=ARRAY(kind))
            for parameter, kind in zip(self._parameters, types.values(), strict=True)
        ]
        columns = [column(name, kind) for name, kind in types.items()]
        self.table: TableValuedAlias = func.unnest(*arrays).table_valued(*columns).render_derived(name=prefix)
        self.c = self.table.c

    def rows(self, rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
        """The parameters that stand for these rows."""
        if not rows:
            return {parameter: [] for parameter in self._parameters}
        columns = zip(self._parameters, self._kinds, zip(*rows, strict=True), strict=True)
        return {
            parameter: [storable(value) for value in values] if kind is TEXT else list(values)
            for parameter, kind, values in columns
        }


class JsonRows:
    """Many columns, or lists in them: ``FROM jsonb_to_recordset($1) AS given(a type, b type[], …)``."""

    def __init__(self, **types: TypeEngine[Any]) -> None:
        self._parameter = f"given{next(_prefixes)}"
        columns = [column(name, kind) for name, kind in types.items()]
        records = func.jsonb_to_recordset(bindparam(self._parameter, type_=JSON))
        self.table: TableValuedAlias = records.table_valued(*columns).render_derived(
            name=self._parameter, with_types=True
        )
        self.c = self.table.c

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
        """The parameter that stands for these rows."""
        return {self._parameter: list(rows)}


def storable(text: str | None) -> str | None:
    """The text without what Postgres has no place for: users may write the character NUL."""
    return text.replace("\0", "\ufffd") if text and "\0" in text else text


def names(of: Iterable[str]) -> BindParameter[Any]:
    """A list of names as one array, for ``= any(…)``."""
    return bindparam(None, list(of), type_=TEXTS)


def moment(seconds: int) -> datetime:
    """Seconds since the epoch as Postgres takes them."""
    return datetime.fromtimestamp(seconds, UTC)


MOMENT: Final = DateTime(timezone=True)

#: A limit beyond this is as good as none; it keeps sums inside a bigint.
LARGEST: Final = 2**62


def bounded(units: int) -> int:
    """An amount that a bigint holds, sums included."""
    return max(-LARGEST, min(units, LARGEST))
