"""Rows handed to a statement: one array per column, so that one statement serves any number of rows.

Statements are built once, at import, and executed with ``UnnestRows.rows``: building them costs more than running them.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any, Final

from msgspec import Meta
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    FromClause,
    Integer,
    Row,
    Select,
    Table,
    Text,
    and_,
    any_,
    bindparam,
    column,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import TableValuedAlias
from sqlalchemy.types import TypeEngine

from queues.workload import WorkloadKey

TEXT: Final = Text()
NUMBER: Final = BigInteger()
FLAG: Final = Boolean()

PLAIN: Final = Integer()
JSON: Final = JSONB()
TEXTS: Final = ARRAY(Text)

_prefixes = count()


def one_of(column: ColumnElement[str], texts: Iterable[str]) -> ColumnElement[bool]:
    """Whether a column has one of these values. There may be any number of them: they are one parameter."""
    return column == any_(literal(sorted(texts), TEXTS))


class UnnestRows:
    """Few narrow columns: ``FROM unnest($1, $2, …) AS given(a, b, …)``."""

    def __init__(self, *like: Column[Any], **types: TypeEngine[Any]) -> None:
        """Columns named and typed like columns of a table, and further ones."""
        prefix = f"given{next(_prefixes)}"
        columns = _columns(like, types)
        self._kinds = [each.type for each in columns]
        self._parameters = [f"{prefix}_{each.name}" for each in columns]
        arrays = [
            bindparam(parameter, type_=ARRAY(kind))
            for parameter, kind in zip(self._parameters, self._kinds, strict=True)
        ]
        self.table: TableValuedAlias = func.unnest(*arrays).table_valued(*columns).render_derived(name=prefix)
        self.c = self.table.c

    def rows(self, rows: Sequence[Sequence[object]]) -> dict[str, list[object]]:
        """The parameters that stand for these rows."""
        if not rows:
            return {parameter: [] for parameter in self._parameters}
        columns = zip(self._parameters, self._kinds, zip(*rows, strict=True), strict=True)
        return {
            parameter: [storable(value) if isinstance(value, str) else value for value in values]
            if isinstance(kind, Text)
            else list(values)
            for parameter, kind, values in columns
        }


class JsonRows:
    """Many columns, or lists in them: ``FROM jsonb_to_recordset($1) AS given(a type, b type[], …)``."""

    def __init__(self, *like: Column[Any], **types: TypeEngine[Any]) -> None:
        """Columns named and typed like columns of a table, and further ones."""
        self._parameter = f"given{next(_prefixes)}"
        records = func.jsonb_to_recordset(bindparam(self._parameter, type_=JSON))
        self.table: TableValuedAlias = records.table_valued(*_columns(like, types)).render_derived(
            name=self._parameter, with_types=True
        )
        self.c = self.table.c

    def rows(self, rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
        """The parameter that stands for these rows."""
        return {self._parameter: list(rows)}


def _columns(like: Sequence[Column[Any]], types: Mapping[str, TypeEngine[Any]]) -> list[Any]:
    return [column(name, kind) for name, kind in {**{each.name: each.type for each in like}, **types}.items()]


def insert_rows(table: Table, rows: UnnestRows | JsonRows, **more: ColumnElement[Any]) -> Insert:
    """INSERT of all columns of the rows, with ``more`` columns that are alike in all of them."""
    return insert(table).from_select([*rows.c.keys(), *more], select(*rows.c, *more.values()))


def upsert_rows(
    table: Table, rows: UnnestRows | JsonRows, replaced: Sequence[str] = (), **more: ColumnElement[Any]
) -> Insert:
    """The same; of a row that is there already the ``replaced`` columns change (empty: all but its key).

    Rows that would not change are not written.
    """
    new = insert_rows(table, rows, **more)
    key = table.primary_key.columns
    names = replaced or [name for name in (*rows.c.keys(), *more) if name not in key]
    changed = tuple_(*(table.c[name] for name in names)).is_distinct_from(
        tuple_(*(new.excluded[name] for name in names))
    )
    return new.on_conflict_do_update(
        index_elements=list(key), set_={name: new.excluded[name] for name in names}, where=changed
    )


def same(
    left: FromClause | UnnestRows | JsonRows, right: FromClause | UnnestRows | JsonRows, *names: str
) -> ColumnElement[bool]:
    """Condition: these columns are equal in both; none named: kind and uid of the workload are."""
    return and_(*(left.c[name] == right.c[name] for name in names or ("kind", "uid")))


async def parts(
    tx: AsyncConnection, question: Select[Any], size: int = 200
) -> AsyncIterator[Sequence[Row[*tuple[Any, ...]]]]:
    """Rows of a question with a large answer: other tasks get their turn between two parts of it."""
    async with tx.stream(question, execution_options={"yield_per": size}) as result:
        async for part in result.partitions():
            yield part


def newest_first(number: ColumnElement[int]) -> ColumnElement[int]:
    """The order of a few of the rows of one subject, by the numbers of all rows of a history.

    No index has this order: with the index of the numbers Postgres would read the whole history backwards until it has
    come to so many rows of the subject, and it expects them early where many rows are about subjects of the same name.
    """
    return (number + 0).desc()


#: Workloads by key, for ``KEYS.rows(key_rows(…))``.
KEYS: Final = UnnestRows(kind=TEXT, uid=TEXT)


def key_rows(keys: Iterable[WorkloadKey]) -> list[tuple[str, str]]:
    """Kind and uid of workloads, in their order."""
    return [(key.kind, key.uid) for key in sorted(keys)]


def attributes(value: object, *names: str) -> dict[str, Any]:
    """These attributes of a value, as columns of the same names."""
    return {name: getattr(value, name) for name in names}


#: Text of users without the character NUL.
StorableText = Annotated[str, Meta(pattern=r"^[^\x00]*$")]


def storable(text: str) -> str:
    """The text without what Postgres has no place for: users may write the character NUL."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def names(of: Iterable[str]) -> BindParameter[Any]:
    """A list of names as one array, for ``= any(…)``."""
    return bindparam(None, list(of), type_=TEXTS)


def moment(seconds: float) -> datetime:
    """Seconds since the epoch as Postgres takes them."""
    return datetime.fromtimestamp(seconds, UTC)


MOMENT: Final = DateTime(timezone=True)

#: A limit beyond this is as good as none; it keeps sums inside a bigint.
LARGEST: Final = 2**62


def bounded(units: int) -> int:
    """An amount that a bigint holds, sums included."""
    return max(-LARGEST, min(units, LARGEST))
