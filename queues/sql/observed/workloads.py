"""What intake saw and the cluster forgets: arrivals, descriptions, outcomes, queue versions, limits.

Only intake imports this. Every function first checks the term (``FOR SHARE`` on the fence row), so a deposed
leader writes nothing, and nothing that a ledger transaction reads changes under it. Each is one statement or two, whose
cost grows with the rows given: intake bounds their number.
"""

from collections.abc import Collection, Mapping, Sequence
from sys import intern
from typing import Any

from sqlalchemy import (
    BigInteger,
    Table,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    select,
    text,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import PodOutcome, Recreation
from queues.kind_names import KindName
from queues.sql.leadership import Term, check_term
from queues.sql.observed.rows import Description, Succession
from queues.sql.statements import (
    FLAG,
    KEYS,
    MOMENT,
    PLAIN,
    TEXT,
    JsonRows,
    UnnestRows,
    attributes,
    bounded,
    insert_rows,
    key_rows,
    moment,
    names,
    same,
    upsert_rows,
)
from queues.sql.tables import admissions, arrival_numbers, backoffs, outcomes, recreations, workloads
from queues.workload import Result, WorkloadKey


async def arrive(tx: AsyncConnection, term: Term, rows: Sequence[Description]) -> dict[WorkloadKey, int]:
    """Sequence numbers, growing in the order given. A workload that has one keeps it, and its description with it.

    Raises Fenced.
    """
    await check_term(tx, term)
    firsts = {row.key: row for row in reversed(rows)}
    ordered = [row for row in rows if firsts[row.key] is row]
    numbers: dict[WorkloadKey, int] = {}
    # A second look is needed only when another transaction stored the same workload at the same moment.
    while missing := [row for row in ordered if row.key not in numbers]:
        numbers |= await _arrive(tx, missing)
    return numbers


_NAMED = workloads.c["kind", "uid", "namespace", "name", "queue"]

_DESCRIBED = (
    *_NAMED,
    *workloads.c[
        "priority", "created", "minimum", "pods", "asks", "devices", "run_time", "finished", "owner"
    ],
    *workloads.c["username", "image", "result", "ignored_values", "notes"],
)

_SEEN = JsonRows(*_DESCRIBED, place=PLAIN)

_NUMBERS = workloads.c["kind", "uid", "arrival"]

_new = (
    select(*_SEEN.c[tuple(column.key for column in _DESCRIBED)])
    .where(~exists().where(same(workloads, _SEEN)))
    .order_by(_SEEN.c.place)
    .subquery("new")
)
_arrived = (
    insert(workloads)
    .from_select([*_new.c.keys(), "arrival"], select(*_new.c, arrival_numbers.next_value()))
    .on_conflict_do_nothing()
    .returning(*_NUMBERS)
    .cte("arrived")
)
_ARRIVE = union_all(
    select(_arrived),
    select(*_NUMBERS).join(_SEEN.table, same(workloads, _SEEN)),
)


async def _arrive(tx: AsyncConnection, rows: Sequence[Description]) -> dict[WorkloadKey, int]:
    seen = [{**_columns(row), "place": place} for place, row in enumerate(rows)]
    result = await tx.execute(_ARRIVE, _SEEN.rows(seen))
    return {WorkloadKey(KindName(intern(kind)), uid): arrival for kind, uid, arrival in result}


def _columns(row: Description) -> dict[str, Any]:
    return {
        **attributes(row.key, "kind", "uid"),
        **attributes(row, "namespace", "name", "queue", "priority", "created", "minimum", "pods", "finished"),
        **attributes(row, "owner", "image", "result", "ignored_values", "notes"),
        "username": row.user,
        "asks": dict(row.asks),
        "devices": bounded(row.devices),
        "run_time": None if row.run_time is None else bounded(row.run_time),
    }


_DESCRIPTIONS = JsonRows(*_DESCRIBED, gone=FLAG)

_TOLD = [column.key for column in _DESCRIBED if column.key not in {"kind", "uid"}]
#: The remains of an object that is gone know nothing else of it.
_ENDS = ("finished", "result")
_NEXT = {
    name: _DESCRIPTIONS.c[name]
    if name in _ENDS
    else case((_DESCRIPTIONS.c.gone, workloads.c[name]), else_=_DESCRIPTIONS.c[name])
    for name in _TOLD
}
#: An object that goes after it was seen to end has ended as it was seen to.
_HAD_ENDED = and_(
    _DESCRIPTIONS.c.gone,
    workloads.c.finished,
    workloads.c.result.in_((Result.SUCCEEDED, Result.FAILED)),
)
_NEXT["result"] = case((_HAD_ENDED, workloads.c.result), else_=_DESCRIPTIONS.c.result)

#: By the database's clock. What has ended stays as it was seen to end first.
_FINISHED_AT = case(
    (~_DESCRIPTIONS.c.finished, 0),
    (workloads.c.finished, workloads.c.finished_at),
    else_=cast(func.extract("epoch", func.clock_timestamp()), BigInteger),
)

_DESCRIBE = (
    update(workloads)
    .where(
        same(workloads, _DESCRIPTIONS),
        # What a new leader finds as it is costs no write.
        tuple_(*(workloads.c[name] for name in _TOLD)).is_distinct_from(tuple_(*_NEXT.values())),
    )
    .values({**_NEXT, "finished_at": _FINISHED_AT})
)


async def describe(tx: AsyncConnection, term: Term, rows: Sequence[Description]) -> None:
    """Store what changed about workloads that have arrived; any other workload is passed over. Raises Fenced."""
    await check_term(tx, term)
    if rows:
        await tx.execute(_DESCRIBE, _DESCRIPTIONS.rows([{**_columns(row), "gone": row.gone} for row in rows]))


async def depart(
    tx: AsyncConnection, term: Term, ends: Mapping[WorkloadKey, Result], now: int
) -> frozenset[WorkloadKey]:
    """Move workloads into the history after their object is gone, with all that was stored about them.

    ``ends``: how each was seen to end by itself; UNKNOWN: it was not seen to. Then what is stored about that counts,
    and what is not stored as ended was deleted before it ended. ``now``: seconds since the epoch. A workload that still
    holds something stays, and is named again later. Returns the workloads that left. Raises Fenced.
    """
    await check_term(tx, term)
    if not ends:
        return frozenset()
    held = await tx.execute(_HOLDING, KEYS.rows(key_rows(ends)))
    gone = ends.keys() - {WorkloadKey(KindName(intern(kind)), uid) for kind, uid in held}
    kinds, uids = zip(*key_rows(gone), strict=True) if gone else ((), ())
    results = [ends[key] for key in sorted(gone)]
    await tx.execute(_DEPART, {"kinds": kinds, "uids": uids, "results": results, "now": moment(now)})
    return frozenset(gone)


_HOLDING = select(*KEYS.c).where(exists().where(same(admissions, KEYS)))
# Without MATERIALIZED a plan made for any number of rows aggregates everything again for each workload.
_DEPART = text(
    f"""
    WITH asked AS (
        SELECT * FROM unnest(CAST(:kinds AS text[]), CAST(:uids AS text[]), CAST(:results AS text[]))
            AS asked(kind, uid, seen_end)
    ), gone AS (
        DELETE FROM workloads w USING asked WHERE (w.kind, w.uid) = (asked.kind, asked.uid)
        RETURNING w.*, asked.seen_end
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
    ), outcome_of AS MATERIALIZED (
        SELECT kind, uid, jsonb_agg(to_jsonb(outcome) ORDER BY recorded_at, pod_uid) AS rows
        FROM outcome GROUP BY kind, uid
    )
    INSERT INTO ended_workloads (kind, uid, ended_at, namespace, name, queue, arrival, priority, created,
                                 pods, asks, outcomes, username, image, result, finished_at, minimum,
                                 seen_at)
    SELECT w.kind, w.uid, :now, w.namespace, w.name, w.queue, w.arrival, w.priority, w.created,
           w.pods, w.asks, coalesce(outcome_of.rows, '[]'), w.username, w.image,
           CASE WHEN w.seen_end <> '' THEN w.seen_end
                WHEN w.finished THEN w.result ELSE '{Result.DELETED}' END,
           w.finished_at, w.minimum, w.seen_at
    FROM gone w
    LEFT JOIN outcome_of ON (outcome_of.kind, outcome_of.uid) = (w.kind, w.uid)
    -- A pod that comes back, since its group is gone, may leave again in the same second.
    ON CONFLICT (kind, uid, ended_at) DO UPDATE SET
        (namespace, name, queue, arrival, priority, created, pods, asks, outcomes, username, image, result,
         finished_at, minimum, seen_at)
        = (excluded.namespace, excluded.name, excluded.queue, excluded.arrival, excluded.priority, excluded.created,
           excluded.pods, excluded.asks, ended_workloads.outcomes || excluded.outcomes, excluded.username,
           excluded.image, excluded.result, excluded.finished_at, excluded.minimum, excluded.seen_at)
    """
).bindparams(bindparam("now", type_=MOMENT))


_OUTCOMES = UnnestRows(
    *outcomes.c["pod_uid", "kind", "uid", "pod_set", "ordinal", "phase", "exit_code", "version"]
)
_RECORD_OUTCOMES = insert_rows(outcomes, _OUTCOMES).on_conflict_do_nothing()


async def record_outcomes(tx: AsyncConnection, term: Term, rows: Sequence[PodOutcome]) -> None:
    """Store how pods ended; the first word about a pod uid stands. Raises Fenced."""
    await check_term(tx, term)
    ended = [
        (r.pod_uid, r.workload.kind, r.workload.uid, r.pod_set, r.ordinal, r.phase, r.exit_code, r.version)
        for r in rows
    ]
    if ended:
        await tx.execute(_RECORD_OUTCOMES, _OUTCOMES.rows(ended))


_KEPT = UnnestRows(*recreations.c["pod_uid", "kind", "uid", "namespace", "name", "queue", "manifest"])

_KEEP = upsert_rows(recreations, _KEPT, ["manifest"])


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


_HEIRS = UnnestRows(*_NAMED, old_kind=TEXT, old_uid=TEXT)


def _inherit(table: Table, own: Sequence[str], inherited: Sequence[str]) -> Insert:
    """Rows of the heirs: some columns of their own, the others from the row of the predecessor."""
    before = and_(table.c.kind == _HEIRS.c.old_kind, table.c.uid == _HEIRS.c.old_uid)
    rows = select(*_HEIRS.c[tuple(own)], *table.c[tuple(inherited)]).join(table, before)
    return insert(table).from_select([*own, *inherited], rows).on_conflict_do_nothing()


_SUCCEED = _inherit(workloads, _NAMED.keys(), ["arrival"])
_WAIT_ON = _inherit(
    backoffs,
    ["kind", "uid"],
    [column.key for column in backoffs.c if column.key not in ("kind", "uid")],
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
            for a in [row.heir]
        ]
    )
    await tx.execute(_SUCCEED, heirs)
    await tx.execute(_WAIT_ON, heirs)
