"""What intake saw and the cluster forgets: arrivals, descriptions, outcomes, queue versions, limits.

Only intake imports this. Every function first checks the term (``FOR SHARE`` on the lease row), so a deposed
leader writes nothing, and nothing that a ledger transaction reads changes under it.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Integer, and_, exists, select, text, union_all, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.given import FLAG, NUMBER, TEXT, given, given_wide
from queues.sql.leadership import Term, check_term
from queues.sql.limits import record_node_limits, record_queues
from queues.sql.records import Arrival, Description, NodeLimit, Outcome, QueueVersion
from queues.sql.tables import admissions, arrival_numbers, outcomes, workloads
from queues.workload import WorkloadKey, WorkloadKind

__all__ = [
    "Arrival",
    "Description",
    "NodeLimit",
    "Outcome",
    "QueueVersion",
    "arrive",
    "check_term",
    "depart",
    "describe",
    "record_node_limits",
    "record_outcomes",
    "record_queues",
]


async def arrive(tx: AsyncConnection, term: Term, rows: Sequence[Arrival]) -> dict[WorkloadKey, int]:
    """Sequence numbers, growing in the order given; whoever has one keeps it. Raises Fenced."""
    await check_term(tx, term)
    firsts = {row.key: row for row in reversed(rows)}
    ordered = [row for row in rows if firsts[row.key] is row]
    numbers: dict[WorkloadKey, int] = {}
    # A second look is needed only when somebody else stored the same workload at the same moment.
    while missing := [row for row in ordered if row.key not in numbers]:
        numbers |= await _arrive(tx, missing)
    return numbers


async def _arrive(tx: AsyncConnection, rows: Sequence[Arrival]) -> dict[WorkloadKey, int]:
    seen = given(
        [(r.key.kind, r.key.uid, r.namespace, r.name, r.queue, place) for place, r in enumerate(rows)],
        kind=TEXT,
        uid=TEXT,
        namespace=TEXT,
        name=TEXT,
        queue=TEXT,
        place=NUMBER,
    )
    same = and_(workloads.c.kind == seen.c.kind, workloads.c.uid == seen.c.uid)
    new = (
        select(seen.c.kind, seen.c.uid, seen.c.namespace, seen.c.name, seen.c.queue)
        .where(~exists().where(same))
        .order_by(seen.c.place)
        .subquery("new")
    )
    arrived = (
        insert(workloads)
        .from_select([*new.c.keys(), "arrival"], select(*new.c, arrival_numbers.next_value()))
        .on_conflict_do_nothing()
        .returning(workloads.c.kind, workloads.c.uid, workloads.c.arrival)
        .cte("arrived")
    )
    known = select(workloads.c.kind, workloads.c.uid, workloads.c.arrival).join(seen, same)
    result = await tx.execute(union_all(select(arrived), known))
    return {WorkloadKey(WorkloadKind(kind), uid): arrival for kind, uid, arrival in result}


async def describe(tx: AsyncConnection, term: Term, rows: Sequence[Description]) -> None:
    """Store what changed about workloads that have arrived; others are passed over. Raises Fenced."""
    await check_term(tx, term)
    if not rows:
        return
    told = given_wide(
        [
            {
                "kind": row.key.kind,
                "uid": row.key.uid,
                "namespace": row.namespace,
                "name": row.name,
                "queue": row.queue,
                "priority": row.priority,
                "created": row.created,
                "minimum": row.minimum,
                "pods": row.pods,
                "asks": dict(row.asks),
                "finished": row.finished,
            }
            for row in rows
        ],
        kind=TEXT,
        uid=TEXT,
        namespace=TEXT,
        name=TEXT,
        queue=TEXT,
        priority=NUMBER,
        created=NUMBER,
        minimum=NUMBER,
        pods=NUMBER,
        asks=JSONB(),
        finished=FLAG,
    )
    changed = [column for column in told.c if column.key not in {"kind", "uid"}]
    await tx.execute(
        update(workloads)
        .where(workloads.c.kind == told.c.kind, workloads.c.uid == told.c.uid)
        .values({column.key: column for column in changed})
    )


async def depart(tx: AsyncConnection, term: Term, keys: Collection[WorkloadKey]) -> frozenset[WorkloadKey]:
    """Move workloads whose object is gone into the history, with all that was stored about them.

    Those that still hold something stay, to be named again later. Returns those that are gone. Raises Fenced.
    """
    await check_term(tx, term)
    if not keys:
        return frozenset()
    named = sorted(keys)
    asked = given([(key.kind, key.uid) for key in named], kind=TEXT, uid=TEXT)
    held = await tx.execute(
        select(asked.c.kind, asked.c.uid).where(
            exists().where(
                admissions.c.kind == asked.c.kind,
                admissions.c.uid == asked.c.uid,
                admissions.c.state != "closed",
            )
        )
    )
    gone = set(named) - {WorkloadKey(WorkloadKind(kind), uid) for kind, uid in held}
    await tx.execute(
        _DEPART, {"kinds": [key.kind for key in sorted(gone)], "uids": [key.uid for key in sorted(gone)]}
    )
    return frozenset(gone)


_DEPART = text(
    """
    WITH asked AS (
        SELECT * FROM unnest(CAST(:kinds AS text[]), CAST(:uids AS text[])) AS asked(kind, uid)
    ), gone AS (
        DELETE FROM workloads w USING asked WHERE (w.kind, w.uid) = (asked.kind, asked.uid) RETURNING w.*
    ), held AS (
        DELETE FROM admissions a USING asked WHERE (a.kind, a.uid) = (asked.kind, asked.uid) RETURNING a.*
    ), outcome AS (
        DELETE FROM outcomes o USING asked WHERE (o.kind, o.uid) = (asked.kind, asked.uid) RETURNING o.*
    ), reason AS (
        DELETE FROM reasons r USING asked WHERE (r.kind, r.uid) = (asked.kind, asked.uid)
    ), backoff AS (
        DELETE FROM backoffs b USING asked WHERE (b.kind, b.uid) = (asked.kind, asked.uid)
    ), job AS (
        DELETE FROM job_states j USING asked WHERE (j.kind, j.uid) = (asked.kind, asked.uid)
    )
    INSERT INTO ended_workloads (kind, uid, ended_at, namespace, name, queue, arrival, priority, created,
                                 pods, asks, admissions, outcomes)
    SELECT w.kind, w.uid, now(), w.namespace, w.name, w.queue, w.arrival, w.priority, w.created,
           w.pods, w.asks,
           coalesce((SELECT jsonb_agg(to_jsonb(a) ORDER BY a.id) FROM held a
                     WHERE (a.kind, a.uid) = (w.kind, w.uid)), '[]'),
           coalesce((SELECT jsonb_agg(to_jsonb(o) ORDER BY o.recorded_at, o.pod_uid) FROM outcome o
                     WHERE (o.kind, o.uid) = (w.kind, w.uid)), '[]')
    FROM gone w
    """
)


async def record_outcomes(tx: AsyncConnection, term: Term, rows: Sequence[Outcome]) -> None:
    """Store how pods ended; the first word about a pod uid stands. Raises Fenced."""
    await check_term(tx, term)
    if not rows:
        return
    ended = given(
        [
            (
                r.pod_uid,
                r.workload.kind,
                r.workload.uid,
                r.pod_set,
                r.ordinal,
                r.phase,
                r.exit_code,
                r.version,
            )
            for r in rows
        ],
        pod_uid=TEXT,
        kind=TEXT,
        uid=TEXT,
        pod_set=TEXT,
        ordinal=NUMBER,
        phase=TEXT,
        exit_code=Integer(),
        version=NUMBER,
    )
    await tx.execute(insert(outcomes).from_select(ended.c.keys(), select(*ended.c)).on_conflict_do_nothing())
