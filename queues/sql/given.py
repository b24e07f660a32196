"""Rows handed to a statement: one array per column, so that one statement serves any number of rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, BindParameter, Boolean, Text, bindparam, column, func, literal
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.expression import TableValuedAlias
from sqlalchemy.types import TypeEngine

TEXT = Text()
NUMBER = BigInteger()
FLAG = Boolean()


def given(rows: Sequence[Sequence[Any]], **types: TypeEngine[Any]) -> TableValuedAlias:
    """Few narrow columns: ``FROM unnest($1, $2, …) AS given(a, b, …)``."""
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [[] for _ in types]
    arrays = [
        bindparam(None, list(values), type_=ARRAY(kind))
        for values, kind in zip(columns, types.values(), strict=True)
    ]
    names = [column(name, kind) for name, kind in types.items()]
    return func.unnest(*arrays).table_valued(*names).render_derived(name="given")


def given_wide(rows: Sequence[Mapping[str, Any]], **types: TypeEngine[Any]) -> TableValuedAlias:
    """Many columns, or lists in them: ``FROM jsonb_to_recordset($1) AS given(a type, b type[], …)``."""
    names = [column(name, kind) for name, kind in types.items()]
    records = func.jsonb_to_recordset(literal(list(rows), JSONB()))
    return records.table_valued(*names).render_derived(name="given", with_types=True)


def names(of: Iterable[str]) -> BindParameter[Any]:
    """A list of names as one array, for ``= any(…)``."""
    return bindparam(None, list(of), type_=ARRAY(TEXT))


#: A limit beyond this is as good as none; it keeps sums inside a bigint.
LARGEST = 2**62


def bounded(units: int) -> int:
    """An amount that a bigint holds, sums included."""
    return max(-LARGEST, min(units, LARGEST))
