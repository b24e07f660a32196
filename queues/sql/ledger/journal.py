"""Rows that are only appended or replaced: postings, decisions, reasons, states of Volcano Jobs, stages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from sqlalchemy import bindparam, case, delete, func, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Seat, StageTimes
from queues.plan import Reason
from queues.quota.accounts import charges_in_own_flavor
from queues.reason_codes import ReasonCode
from queues.sql.leadership import LedgerTransaction
from queues.sql.statements import (
    KEYS,
    MOMENT,
    NUMBER,
    JsonRows,
    UnnestRows,
    attributes,
    insert_rows,
    key_rows,
    moment,
    same,
    upsert_rows,
)
from queues.sql.tables import STAGE_COLUMNS, admissions, decisions, job_states, postings, reasons
from queues.workload import AdmissionId, QueueName, WorkloadKey

DecisionCode = ReasonCode | Literal["gang", "elastic", "running", "ended", "suspended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One line of the decision log: workload, rule, beneficiary and the numbers it was decided on."""

    #: admit | adopt | evict | free | reject | claim
    kind: str
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    #: Of a reason; else by which rule seats were given, or that they ended.
    code: DecisionCode
    message: str = ""
    admission: AdmissionId | None = None
    beneficiary: WorkloadKey | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


_NOW = bindparam("now", type_=MOMENT)
_STAMP = {"ledger_seq": bindparam("seq", type_=NUMBER), "term": bindparam("term", type_=NUMBER)}


def _stamp(transaction: LedgerTransaction) -> dict[str, datetime | int]:
    return {"now": moment(transaction.now), "seq": transaction.seq, "term": transaction.term.number}


_LINES = JsonRows(
    *postings.c["kind", "admission", "username", "debit", "credit", "flavors", "resources", "amounts"]
)
_POST = insert_rows(postings, _LINES, posted_at=_NOW, **_STAMP)


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
    *decisions.c["kind", "workload_kind", "workload_uid", "namespace", "name", "queue", "code", "message"],
    *decisions.c["admission", "beneficiary_kind", "beneficiary_uid", "numbers"],
)
_RECORD_DECISIONS = insert_rows(decisions, _DECIDED, decided_at=_NOW, **_STAMP)


async def record_decisions(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Decision]
) -> None:
    """Append to the decision log."""
    lines = [
        {
            **attributes(row, "kind", "namespace", "name", "queue", "code", "message", "admission"),
            "workload_kind": row.workload.kind,
            "workload_uid": row.workload.uid,
            "beneficiary_kind": row.beneficiary.kind if row.beneficiary else None,
            "beneficiary_uid": row.beneficiary.uid if row.beneficiary else None,
            "numbers": _jsonable(row.numbers),
        }
        for row in rows
    ]
    if lines:
        await tx.execute(_RECORD_DECISIONS, _DECIDED.rows(lines) | _stamp(transaction))


_FORGET_REASONS = delete(reasons).where(same(reasons, KEYS))

_REASONS = JsonRows(*reasons.c["kind", "uid", "code", "message", "facts"])

_new_reasons = insert_rows(reasons, _REASONS, since=_NOW)
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
    if left := set(gone) - changed.keys():
        await tx.execute(_FORGET_REASONS, KEYS.rows(key_rows(left)))
    if changed:
        rows = [
            {
                **attributes(key, "kind", "uid"),
                **attributes(reason, "code", "message"),
                "facts": _jsonable(reason.facts),
            }
            for key, reason in sorted(changed.items(), key=lambda item: item[0])
        ]
        await tx.execute(_RECORD_REASONS, _REASONS.rows(rows) | {"now": moment(transaction.now)})


_STATES = JsonRows(*job_states.c["kind", "uid", "state"])

_RECORD_STATES = upsert_rows(job_states, _STATES)


async def record_job_states(
    tx: AsyncConnection, transaction: LedgerTransaction, states: Mapping[WorkloadKey, Mapping[str, Any]]
) -> None:
    """Store where Volcano Jobs are, as ``admission.volcano_jobs`` writes it (phase, version, retryCount, …)."""
    rows = [{**attributes(key, "kind", "uid"), "state": _jsonable(states[key])} for key in sorted(states)]
    if rows:
        await tx.execute(_RECORD_STATES, _STATES.rows(rows))


def _jsonable(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in facts.items()}


NO_STAGES: Final[Mapping[AdmissionId, StageTimes]] = MappingProxyType({})
_UNKNOWN: Final = StageTimes()

#: For ``stage_rows``.
STAGES: Final = UnnestRows(id=NUMBER, **dict.fromkeys(STAGE_COLUMNS, MOMENT))
#: Columns that an update of ``admissions`` from these rows sets: the first word stands.
STAGES_TOLD: Final = {name: func.coalesce(admissions.c[name], STAGES.c[name]) for name in STAGE_COLUMNS}
_NOTE: Final = update(admissions).where(admissions.c.id == STAGES.c.id).values(**STAGES_TOLD)


def stage_rows(
    ids: Collection[AdmissionId], stages: Mapping[AdmissionId, StageTimes] = NO_STAGES
) -> dict[str, list[object]]:
    """The parameters of ``STAGES`` for these admissions."""
    times = [(id_, stages.get(id_, _UNKNOWN)) for id_ in sorted(ids)]
    return STAGES.rows(
        [(id_, *map(_moment, (each.released, each.bound, each.running))) for id_, each in times]
    )


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else moment(seconds)


async def note_stages(
    tx: AsyncConnection, transaction: LedgerTransaction, stages: Mapping[AdmissionId, StageTimes]
) -> None:
    """Store the times of admissions that are about to be evicted or freed."""
    if stages:
        await tx.execute(_NOTE, stage_rows(stages, stages))
