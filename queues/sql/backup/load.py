"""Restores a backup into a database in which nothing is."""

from collections.abc import Iterator
from contextlib import suppress
from graphlib import TopologicalSorter
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import MusterError
from queues.sql.backup.archive import Archive, Manifest
from queues.sql.backup.dump import NOT_OURS, TABLES
from queues.sql.database import Database, migrate, schema_version
from queues.sql.dsn import Dsn

_FOREIGN_KEYS: Final = text(
    "SELECT DISTINCT child.relname AS child, parent.relname AS parent FROM pg_constraint k"
    " JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid"
    " WHERE k.contype = 'f' AND k.conrelid <> k.confrelid"
)
#: Sequences, with the columns that they number.
_NUMBERED: Final = text(
    "SELECT s.relname AS name, t.relname AS table, a.attname AS column FROM pg_depend d"
    " JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' AND d.classid = 'pg_class'::regclass"
    " JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass"
    " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid"
    " WHERE d.deptype IN ('a', 'i') AND s.relnamespace = current_schema()::regnamespace"
)
_RELATIONS: Final = text(
    "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relkind IN ('r', 'p', 'v') AND relname <> 'alembic_version'"
)


class DatabaseNotEmpty(MusterError):
    """The database has {found} tables and views. Expected an empty one: CREATE DATABASE, and name the new one."""


class UnknownTable(MusterError):
    """The backup has {what}, which schema {schema} has not: another program wrote it, or it was changed."""


class MissingTable(MusterError):
    """The backup lacks table {table}, which schema {schema} has: it is not whole, or it was changed."""


async def restore(dsn: Dsn, archive: Archive) -> None:
    """Bring an empty database to the backup's schema, fill it, and bring it to the schema of this version.

    Raises DatabaseNotEmpty, UnknownTable, UnknownRevision (the backup is of a newer version), DatabaseError; then the
    database is empty again.
    """
    manifest = archive.manifest
    database = await Database.connect(dsn, statement_timeout=0, idle_timeout=0, pool_size=1)
    try:
        async with database.snapshot() as tx:
            await _require_empty(tx)
        try:
            await migrate(dsn, manifest.schema)
            async with database.transaction() as tx:
                await _fill(tx, archive)
            await migrate(dsn)
        except BaseException:
            # Best effort: the first error is what counts.
            with suppress(MusterError):
                await migrate(dsn, "base")
            raise
    finally:
        await database.close()


async def _require_empty(tx: AsyncConnection) -> None:
    found = (await tx.execute(_RELATIONS)).scalar_one()
    if found or await schema_version(tx) is not None:
        raise DatabaseNotEmpty(found=found)


async def _fill(tx: AsyncConnection, archive: Archive) -> None:
    manifest = archive.manifest
    await _require_known(tx, manifest)
    for partition in manifest.partitions:
        of_it = f'PARTITION OF "{partition.table}" {partition.bound}'
        await tx.execute(text(f'CREATE TABLE IF NOT EXISTS "{partition.name}" {of_it}'))
    # COPY is not part of SQLAlchemy: the connection below it is in the same transaction.
    connection: Any = (await tx.get_raw_connection()).driver_connection
    ordered = await _parents_first(tx, manifest)
    # What migrations have put in is in the backup as well, as it has become.
    for name in reversed(ordered):
        await tx.execute(text(f'DELETE FROM "{name}"'))
    for name in ordered:
        with archive.table(name) as rows:
            await connection.copy_to_table(name, source=rows, columns=manifest.tables[name].columns)
    await _number_on(tx, manifest)


async def _number_on(tx: AsyncConnection, manifest: Manifest) -> None:
    """No id is given twice, whatever the manifest says: a file may have been changed."""
    last = {name: following - 1 for name, following in manifest.sequences.items()}
    for row in (await tx.execute(_NUMBERED)).all():
        largest = (await tx.execute(text(f'SELECT max("{row.column}") FROM "{row.table}"'))).scalar_one()
        last[row.name] = max(last.get(row.name, 0), largest or 0)
    for name, given in last.items():
        # As given already: Postgres tells of a sequence that has given nothing only where it begins.
        await tx.execute(
            text("SELECT setval(CAST(:name AS regclass), greatest(:last, 1), :last > 0)"),
            {"name": name, "last": given},
        )


async def _require_known(tx: AsyncConnection, manifest: Manifest) -> None:
    """Each name is looked up before it becomes part of a statement: a file could have anything."""
    rows = await tx.execute(
        text(
            "SELECT c.relname AS name, c.relkind::text AS kind, array_agg(a.attname::text) AS columns FROM pg_class c"
            " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
            " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S') GROUP BY 1, 2"
        )
    )
    known = {row.name: (row.kind, set(row.columns)) for row in rows}
    for what in _unknown(manifest, known):
        raise UnknownTable(what=what, schema=manifest.schema)
    for row in await tx.execute(TABLES, {"not_ours": NOT_OURS}):
        if row.name not in manifest.tables:
            raise MissingTable(table=row.name, schema=manifest.schema)


def _unknown(manifest: Manifest, known: dict[str, tuple[str, set[str]]]) -> Iterator[str]:
    for name, table in manifest.tables.items():
        kind, columns = known.get(name, ("", set()))
        if kind not in ("r", "p"):
            yield f"table {name!r}"
        for column in set(table.columns) - columns:
            yield f"column {column!r} of table {name}"
    for name in manifest.sequences:
        if known.get(name, ("",))[0] != "S":
            yield f"sequence {name!r}"
    for partition in manifest.partitions:
        if known.get(partition.table, ("",))[0] != "p":
            yield f"a partition of {partition.table!r}"
        if (
            not partition.name.startswith(f"{partition.table}_")
            or not partition.name.replace("_", "").isalnum()
        ):
            yield f"partition {partition.name!r}"
        if not _is_bound(partition.bound):
            yield f"partition {partition.name} with bounds {partition.bound!r}"


def _is_bound(bound: str) -> bool:
    """``FOR VALUES FROM ('…') TO ('…')`` with nothing in it that could end the literal."""
    parts = bound.split("'")
    return (
        len(parts) == 5
        and (parts[0], parts[2], parts[4]) == ("FOR VALUES FROM (", ") TO (", ")")
        and all(set(part) <= set("0123456789-:+. TZ") for part in (parts[1], parts[3]))
    )


async def _parents_first(tx: AsyncConnection, manifest: Manifest) -> list[str]:
    order = TopologicalSorter[str](dict.fromkeys(manifest.tables, ()))
    for row in await tx.execute(_FOREIGN_KEYS):
        if row.child in manifest.tables and row.parent in manifest.tables:
            order.add(row.child, row.parent)
    return list(order.static_order())
