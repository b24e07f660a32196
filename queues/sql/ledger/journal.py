"""Rows that are only appended or replaced: postings, decisions, reasons, states of Volcano Jobs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, case, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Seat
from queues.plan import Reason
from queues.quota.accounts import charges_in_own_flavor
from queues.sql.ledger.types import Decision, JobRow, LedgerTransaction
from queues.sql.statements import JSON, MOMENT, NUMBER, NUMBERS, TEXT, TEXTS, JsonRows, UnnestRows, moment
from queues.sql.tables import decisions, job_states, postings, reasons
from queues.workload import AdmissionId, QueueName, WorkloadKey

_NOW = bindparam("now", type_=MOMENT)

_STAMP = (_NOW, bindparam("seq", type_=NUMBER), bindparam("term", type_=NUMBER))


def _stamp(transaction: LedgerTransaction) -> dict[str, Any]:
    return {"now": moment(transaction.now), "seq": transaction.seq, "term": transaction.term.number}


_LINES = JsonRows(
    kind=TEXT,
    admission=NUMBER,
    username=TEXT,
    debit=TEXT,
    credit=TEXT,
    flavors=TEXTS,
    resources=TEXTS,
    amounts=NUMBERS,
)

_POST = insert(postings).from_select(
    [*_LINES.c.keys(), "posted_at", "ledger_seq", "term"], select(*_LINES.c, *_STAMP)
)


async def post(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    kind: str,
    moves: Sequence[tuple[AdmissionId, QueueName, str, Sequence[Seat]]],
) -> None:
    """Double transaction: amounts move from the pool to the queue, or (``free``) back. A move names its user."""
    lines = []
    for id_, queue, user, seats in moves:
        amounts = charges_in_own_flavor(seats)
        account = f"queue/{queue}"
        debit, credit = ("pool", account) if kind == "free" else (account, "pool")
        lines.append(
            {
                "kind": kind,
                "admission": id_,
                "username": user,
                "debit": debit,
                "credit": credit,
                "flavors": [flavor for flavor, _ in amounts],
                "resources": [resource for _, resource in amounts],
                "amounts": list(amounts.values()),
            }
        )
    if lines:
        await tx.execute(_POST, _LINES.rows(lines) | _stamp(transaction))


_DECIDED = JsonRows(
    kind=TEXT,
    workload_kind=TEXT,
    workload_uid=TEXT,
    namespace=TEXT,
    name=TEXT,
    queue=TEXT,
    code=TEXT,
    message=TEXT,
    admission=NUMBER,
    beneficiary_kind=TEXT,
    beneficiary_uid=TEXT,
    numbers=JSON,
)

_RECORD_DECISIONS = insert(decisions).from_select(
    [*_DECIDED.c.keys(), "decided_at", "ledger_seq", "term"], select(*_DECIDED.c, *_STAMP)
)


async def record_decisions(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Decision]
) -> None:
    """Append to the decision log."""
    lines = [
        {
            "kind": row.kind,
            "workload_kind": row.workload.kind,
            "workload_uid": row.workload.uid,
            "namespace": row.namespace,
            "name": row.name,
            "queue": row.queue,
            "code": row.code,
            "message": row.message,
            "admission": row.admission,
            "beneficiary_kind": row.beneficiary.kind if row.beneficiary else None,
            "beneficiary_uid": row.beneficiary.uid if row.beneficiary else None,
            "numbers": _jsonable(row.numbers),
        }
        for row in rows
    ]
    if lines:
        await tx.execute(_RECORD_DECISIONS, _DECIDED.rows(lines) | _stamp(transaction))


_GONE = UnnestRows(kind=TEXT, uid=TEXT)

_FORGET_REASONS = delete(reasons).where(reasons.c.kind == _GONE.c.kind, reasons.c.uid == _GONE.c.uid)

_REASONS = JsonRows(kind=TEXT, uid=TEXT, code=TEXT, message=TEXT, facts=JSON)

_new_reasons = insert(reasons).from_select([*_REASONS.c.keys(), "since"], select(*_REASONS.c, _NOW))

_RECORD_REASONS = _new_reasons.on_conflict_do_update(
    index_elements=list(reasons.primary_key),
    set_={
        "code": _new_reasons.excluded.code,
        "message": _new_reasons.excluded.message,
        "facts": _new_reasons.excluded.facts,
        "since": case(
            (reasons.c.code == _new_reasons.excluded.code, reasons.c.since),
            else_=_new_reasons.excluded.since,
        ),
    },
)


async def record_reasons(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    changed: Mapping[WorkloadKey, Reason],
    gone: Collection[WorkloadKey] = (),
) -> None:
    """Store changed reasons, and delete the reasons of workloads that wait no more."""
    if left := sorted(set(gone) - changed.keys()):
        await tx.execute(_FORGET_REASONS, _GONE.rows([(key.kind, key.uid) for key in left]))
    if changed:
        rows = [
            {
                "kind": key.kind,
                "uid": key.uid,
                "code": reason.code,
                "message": reason.message,
                "facts": _jsonable(reason.facts),
            }
            for key, reason in sorted(changed.items(), key=lambda item: item[0])
        ]
        await tx.execute(_RECORD_REASONS, _REASONS.rows(rows) | {"now": moment(transaction.now)})


_STATES = JsonRows(kind=TEXT, uid=TEXT, state=JSON)

_new_states = insert(job_states).from_select([*_STATES.c.keys(), "changed_at"], select(*_STATES.c, _NOW))

_RECORD_STATES = _new_states.on_conflict_do_update(
    index_elements=list(job_states.primary_key),
    set_={"state": _new_states.excluded.state, "changed_at": _new_states.excluded.changed_at},
)


async def record_job_states(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[JobRow]
) -> None:
    """Store transitions of Volcano Jobs; the last row about a Job counts."""
    latest = {row.key: row.state for row in rows}
    states = [{"kind": key.kind, "uid": key.uid, "state": _jsonable(latest[key])} for key in sorted(latest)]
    if states:
        await tx.execute(_RECORD_STATES, _STATES.rows(states) | {"now": moment(transaction.now)})


def _jsonable(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in facts.items()}
