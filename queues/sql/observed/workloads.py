"""What intake saw and the cluster forgets: arrivals, descriptions, outcomes, queue versions, limits.

Only intake imports this. Every function first checks the term (``FOR SHARE`` on the lease row), so a deposed
leader writes nothing, and nothing that a ledger transaction reads changes under it.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import and_, delete, exists, func, select, text, union_all, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import PodOutcome, Recreation
from queues.sql.leadership import Term, check_term
from queues.sql.observed.nodes import record_node_limits
from queues.sql.observed.queues import record_queues
from queues.sql.observed.rows import Arrival, Description, NodeLimit, QueueVersion, Succession
from queues.sql.statements import FLAG, JSON, NUMBER, PLAIN, TEXT, JsonRows, UnnestRows, bounded, names
from queues.sql.tables import admissions, arrival_numbers, backoffs, outcomes, recreations, workloads
from queues.workload import WorkloadKey, WorkloadKind

__all__ = [
    "Arrival",
    "Description",
    "NodeLimit",
    "QueueVersion",
    "Recreation",
    "Succession",
    "arrive",
    "check_term",
    "depart",
    "describe",
    "record_node_limits",
    "record_outcomes",
    "record_queues",
    "record_recreations",
    "succeed",
]


async def arrive(tx: AsyncConnection, term: Term, rows: Sequence[Arrival]) -> dict[WorkloadKey, int]:
    """Sequence numbers, growing in the order given; a workload that has one keeps it. Raises Fenced."""
    await check_term(tx, term)
    firsts = {row.key: row for row in reversed(rows)}
    ordered = [row for row in rows if firsts[row.key] is row]
    numbers: dict[WorkloadKey, int] = {}
    # A second look is needed only when another transaction stored the same workload at the same moment.
    while missing := [row for row in ordered if row.key not in numbers]:
        numbers |= await _arrive(tx, missing)
    return numbers


_SEEN = UnnestRows(kind=TEXT, uid=TEXT, namespace=TEXT, name=TEXT, queue=TEXT, place=NUMBER)

_same = and_(workloads.c.kind == _SEEN.c.kind, workloads.c.uid == _SEEN.c.uid)

_new = (
    select(_SEEN.c.kind, _SEEN.c.uid, _SEEN.c.namespace, _SEEN.c.name, _SEEN.c.queue)
    .where(~exists().where(_same))
    .order_by(_SEEN.c.place)
    .subquery("new")
)

_arrived = (
    insert(workloads)
    .from_select([*_new.c.keys(), "arrival"], select(*_new.c, arrival_numbers.next_value()))
    .on_conflict_do_nothing()
    .returning(workloads.c.kind, workloads.c.uid, workloads.c.arrival)
    .cte("arrived")
)

_ARRIVE = union_all(
    select(_arrived),
    select(workloads.c.kind, workloads.c.uid, workloads.c.arrival).join(_SEEN.table, _same),
)


async def _arrive(tx: AsyncConnection, rows: Sequence[Arrival]) -> dict[WorkloadKey, int]:
    seen = [
        (row.key.kind, row.key.uid, row.namespace, row.name, row.queue, place)
        for place, row in enumerate(rows)
    ]
    result = await tx.execute(_ARRIVE, _SEEN.rows(seen))
    return {WorkloadKey(WorkloadKind(kind), uid): arrival for kind, uid, arrival in result}


_DESCRIBED = JsonRows(
    kind=TEXT,
    uid=TEXT,
    namespace=TEXT,
    name=TEXT,
    queue=TEXT,
    priority=NUMBER,
    created=NUMBER,
    minimum=NUMBER,
    pods=NUMBER,
    asks=JSON,
    devices=NUMBER,
    run_time=NUMBER,
    finished=FLAG,
)

_DESCRIBE = (
    update(workloads)
    .where(workloads.c.kind == _DESCRIBED.c.kind, workloads.c.uid == _DESCRIBED.c.uid)
    .values({column.key: column for column in _DESCRIBED.c if column.key not in {"kind", "uid"}})
)


async def describe(tx: AsyncConnection, term: Term, rows: Sequence[Description]) -> None:
    """Store what changed about workloads that have arrived; any other workload is passed over. Raises Fenced."""
    await check_term(tx, term)
    descriptions = [
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
            "devices": bounded(row.devices),
            "run_time": None if row.run_time is None else bounded(row.run_time),
            "finished": row.finished,
        }
        for row in rows
    ]
    if descriptions:
        await tx.execute(_DESCRIBE, _DESCRIBED.rows(descriptions))


async def depart(tx: AsyncConnection, term: Term, keys: Collection[WorkloadKey]) -> frozenset[WorkloadKey]:
    """Move workloads into the history after their object is gone, with all that was stored about them.

    A workload that still holds something stays, and is named again later. Returns the workloads that left.
    Raises Fenced.
    """
    await check_term(tx, term)
    if not keys:
        return frozenset()
    named = sorted(keys)
    held = await tx.execute(_HOLDING, _NAMED.rows([(key.kind, key.uid) for key in named]))
    gone = set(named) - {WorkloadKey(WorkloadKind(kind), uid) for kind, uid in held}
    await tx.execute(
        _DEPART, {"kinds": [key.kind for key in sorted(gone)], "uids": [key.uid for key in sorted(gone)]}
    )
    return frozenset(gone)


_NAMED = UnnestRows(kind=TEXT, uid=TEXT)

_HOLDING = select(_NAMED.c.kind, _NAMED.c.uid).where(
    exists().where(
        admissions.c.kind == _NAMED.c.kind,
        admissions.c.uid == _NAMED.c.uid,
        admissions.c.state != "closed",
    )
)

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
    ), claim AS (
        DELETE FROM claims c USING asked WHERE (c.kind, c.uid) = (asked.kind, asked.uid)
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


_OUTCOMES = UnnestRows(
    pod_uid=TEXT,
    kind=TEXT,
    uid=TEXT,
    pod_set=TEXT,
    ordinal=NUMBER,
    phase=TEXT,
    exit_code=PLAIN,
    version=NUMBER,
)

_RECORD_OUTCOMES = (
    insert(outcomes).from_select(_OUTCOMES.c.keys(), select(*_OUTCOMES.c)).on_conflict_do_nothing()
)


async def record_outcomes(tx: AsyncConnection, term: Term, rows: Sequence[PodOutcome]) -> None:
    """Store how pods ended; the first word about a pod uid stands. Raises Fenced."""
    await check_term(tx, term)
    ended = [
        (r.pod_uid, r.workload.kind, r.workload.uid, r.pod_set, r.ordinal, r.phase, r.exit_code, r.version)
        for r in rows
    ]
    if ended:
        await tx.execute(_RECORD_OUTCOMES, _OUTCOMES.rows(ended))


_KEPT = UnnestRows(pod_uid=TEXT, kind=TEXT, uid=TEXT, namespace=TEXT, name=TEXT, queue=TEXT, manifest=TEXT)

_keep = insert(recreations).from_select(_KEPT.c.keys(), select(*_KEPT.c))

_KEEP = _keep.on_conflict_do_update(
    index_elements=[recreations.c.pod_uid], set_={"manifest": _keep.excluded.manifest}
)


async def record_recreations(
    tx: AsyncConnection, term: Term, rows: Sequence[Recreation], gone: Collection[str]
) -> None:
    """Store intents to create pods again, and forget the intents of the pods ``dropped`` (uids). Raises Fenced."""
    await check_term(tx, term)
    if rows:
        kept = [
            (r.pod_uid, r.workload.kind, r.workload.uid, r.namespace, r.name, r.queue, r.manifest)
            for r in rows
        ]
        await tx.execute(_KEEP, _KEPT.rows(kept))
    if gone:
        await tx.execute(delete(recreations).where(recreations.c.pod_uid == func.any(names(gone))))


_HEIRS = UnnestRows(kind=TEXT, uid=TEXT, namespace=TEXT, name=TEXT, queue=TEXT, old_kind=TEXT, old_uid=TEXT)

_SUCCEED = (
    insert(workloads)
    .from_select(
        ["kind", "uid", "namespace", "name", "queue", "arrival"],
        select(
            _HEIRS.c.kind,
            _HEIRS.c.uid,
            _HEIRS.c.namespace,
            _HEIRS.c.name,
            _HEIRS.c.queue,
            workloads.c.arrival,
        ).join(
            workloads,
            and_(workloads.c.kind == _HEIRS.c.old_kind, workloads.c.uid == _HEIRS.c.old_uid),
        ),
    )
    .on_conflict_do_nothing()
)

_WAIT_ON = (
    insert(backoffs)
    .from_select(
        ["kind", "uid", "not_before", "rollbacks", "evictions", "waiting_since"],
        select(
            _HEIRS.c.kind,
            _HEIRS.c.uid,
            backoffs.c.not_before,
            backoffs.c.rollbacks,
            backoffs.c.evictions,
            backoffs.c.waiting_since,
        ).join(backoffs, and_(backoffs.c.kind == _HEIRS.c.old_kind, backoffs.c.uid == _HEIRS.c.old_uid)),
    )
    .on_conflict_do_nothing()
)


async def succeed(tx: AsyncConnection, term: Term, rows: Sequence[Succession]) -> None:
    """Give each successor the number and the setbacks of its predecessor. ``arrive`` comes after. Raises Fenced."""
    await check_term(tx, term)
    if not rows:
        return
    heirs = _HEIRS.rows(
        [
            (a.key.kind, a.key.uid, a.namespace, a.name, a.queue, row.after.kind, row.after.uid)
            for row in rows
            for a in [row.arrival]
        ]
    )
    await tx.execute(_SUCCEED, heirs)
    await tx.execute(_WAIT_ON, heirs)
