"""Every committed change of a row of Muster's tables, as triggers record it.

``install`` before a run, ``read`` after it. What a replica wrote that died in the middle of a transaction is not there,
and what was committed without the replica's ever knowing is: that is what the history is for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from queues.sql import tables
from queues.sql.database import raw_connection
from tests.chaos.history import RowChange

#: Those that the checks read.
TABLES: Final = (
    tables.leases,
    tables.fences,
    tables.admissions,
    tables.closed_admissions,
    tables.queue_balances,
    tables.node_balances,
    tables.backoffs,
    tables.claims,
    tables.reasons,
    tables.job_states,
    tables.postings,
    tables.decisions,
    tables.ended_workloads,
    tables.queues,
    tables.queue_limits,
    tables.nodes,
    tables.node_limits,
    tables.capacity,
    tables.workloads,
    tables.outcomes,
    tables.recreations,
)

# The name of the table is an argument of the trigger: of a partition, TG_TABLE_NAME would be the partition's.
_INSTALL: Final = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.row_changes (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    ahead DOUBLE PRECISION NOT NULL,
    writer TEXT NOT NULL,
    table_name TEXT NOT NULL,
    before JSONB,
    after JSONB
);
CREATE FUNCTION chaos.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO chaos.row_changes (transaction, at, ahead, writer, table_name, before, after) VALUES (
        pg_current_xact_id()::text::bigint,
        extract(epoch FROM pg_catalog.clock_timestamp()),
        (SELECT ahead FROM settable_clock.clock),
        session_user,
        TG_ARGV[0],
        CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END
    );
    RETURN NULL;
END
$$;
"""


async def install(dsn: str) -> None:
    """Record from now on what changes in this database, which has Muster's tables."""
    connection = await raw_connection(dsn)
    try:
        await connection.execute(_INSTALL)
        for table in TABLES:
            await connection.execute(
                f"CREATE TRIGGER recorded AFTER INSERT OR UPDATE OR DELETE ON {table.name}"
                f" FOR EACH ROW EXECUTE FUNCTION chaos.record('{table.name}')"
            )
    finally:
        await connection.close()


async def read(dsn: str) -> tuple[RowChange, ...]:
    """All changes, oldest first. That an admission closes is told as a change of its row, though it moves then."""
    connection = await raw_connection(dsn)
    try:
        rows = await connection.fetch("SELECT * FROM chaos.row_changes ORDER BY number")
    finally:
        await connection.close()
    changes = [
        RowChange(
            number=row["number"],
            transaction=row["transaction"],
            at=row["at"],
            ahead=row["ahead"],
            writer=row["writer"],
            table=row["table_name"],
            before=_document(row["before"]),
            after=_document(row["after"]),
        )
        for row in rows
    ]
    return tuple(_with_closings(changes))


def _with_closings(changes: Sequence[RowChange]) -> Iterator[RowChange]:
    """Moves from ``admissions`` to ``closed_admissions`` as changes in place: state, and seats given back."""
    closed = {
        (change.transaction, change.after["id"]): change.after
        for change in changes
        if change.table == "closed_admissions" and change.after is not None
    }
    for change in changes:
        moved = None
        if change.table == "admissions" and change.before is not None and change.after is None:
            moved = closed.get((change.transaction, change.before["id"]))
        if moved is not None:
            every = list(range(len(moved["pod_sets"])))
            yield replace(change, after={**moved, "state": "closed", "ended": every})
        elif change.table != "closed_admissions":
            yield change


def _document(text: str | None) -> dict[str, Any] | None:
    return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
