"""Writes a backup, while Muster runs: one transaction that sees one moment, and locks nobody out."""

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.backup.archive import (
    FORMAT,
    Manifest,
    TableContent,
    TablePartition,
    digest_of,
    write,
    write_to,
)
from queues.sql.database import Database, check_schema, schema_version
from queues.sql.ledger_identity import read_identity

#: Alembic's own: what is restored is brought to the schema of the manifest before.
NOT_OURS: Final = "alembic_version"

#: Name and columns of each table, partitioned ones as one.
TABLES: Final = text(
    "SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns"
    " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
    " AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND c.relname <> :not_ours"
    " GROUP BY c.relname ORDER BY c.relname"
)
_PARTITIONS: Final = text(
    "SELECT parent.relname AS table, part.relname AS name, pg_get_expr(part.relpartbound, part.oid) AS bound"
    " FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid JOIN pg_class parent ON parent.oid = inhparent"
    " WHERE part.relispartition AND part.relkind = 'r' AND part.relnamespace = current_schema()::regnamespace"
    " AND pg_get_expr(part.relpartbound, part.oid) <> 'DEFAULT' ORDER BY 1, 2"
)
_SEQUENCES: Final = text(
    "SELECT sequencename AS name, coalesce(last_value, start_value - 1) + 1 AS next"
    " FROM pg_sequences WHERE schemaname = current_schema() ORDER BY 1"
)


async def backup(database: Database, path: Path) -> Manifest:
    """Write the whole database as of now into ``path``; what it is of.

    Raises SchemaTooOld, SchemaTooNew, DatabaseError; OSError if the file cannot be written, and then it is as before.
    """
    with tempfile.TemporaryDirectory(prefix=".muster-backup-", dir=path.parent) as folder:
        manifest = await dump_tables(database, Path(folder))
        write(path, manifest, Path(folder))
    return manifest


async def backup_to(database: Database, output: IO[bytes]) -> Manifest:
    """Write the whole database as of now into a stream; what it is of. It is in the folder for temporary files before.

    Raises as ``backup``; of a stream that cannot be written to the end, what was written is no backup.
    """
    with tempfile.TemporaryDirectory(prefix="muster-backup-") as folder:
        manifest = await dump_tables(database, Path(folder))
        write_to(output, manifest, Path(folder))
        output.flush()
    return manifest


async def dump_tables(database: Database, folder: Path) -> Manifest:
    """Write each table, as of one moment, into a file below ``folder``. Raises as ``backup``."""
    async with database.snapshot() as tx:
        await check_schema(tx)
        return await _dump(tx, folder)


async def _dump(tx: AsyncConnection, folder: Path) -> Manifest:
    identity = await read_identity(tx)
    schema = await schema_version(tx)
    # As text, with all digits and in UTC: any other Postgres reads the same from it.
    await tx.execute(text("SET LOCAL extra_float_digits = 3"))
    await tx.execute(text("SET LOCAL datestyle = 'ISO'"))
    tables = {
        row.name: await _copy(tx, row.name, tuple(row.columns), folder / row.name)
        for row in await tx.execute(TABLES, {"not_ours": NOT_OURS})
    }
    return Manifest(
        format=FORMAT,
        version=version("muster"),
        schema=schema or "",
        taken_at=(await tx.execute(text("SELECT now()"))).scalar_one(),
        ledger=identity.ledger,
        term=identity.term,
        tables=tables,
        partitions=tuple(
            TablePartition(table=row.table, name=row.name, bound=row.bound)
            for row in await tx.execute(_PARTITIONS)
        ),
        sequences={row.name: row.next for row in await tx.execute(_SEQUENCES)},
    )


async def _copy(tx: AsyncConnection, name: str, columns: tuple[str, ...], file: Path) -> TableContent:
    # COPY is not part of SQLAlchemy: the connection below it is in the same transaction.
    connection: Any = (await tx.get_raw_connection()).driver_connection
    listed = ", ".join(f'"{column}"' for column in columns)
    with file.open("wb") as output:
        said = await connection.copy_from_query(f'SELECT {listed} FROM "{name}"', output=output)
    with file.open("rb") as content:
        return TableContent(columns=columns, rows=int(said.rpartition(" ")[2]), sha256=digest_of(content))
