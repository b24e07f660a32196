"""Ownership of quota and nodes: one short transaction per plan; only ``admission.apply`` imports this.

``fence`` comes first and gives the ``LedgerTransaction`` that every other function asks for, so that nothing
is written without it. Frees come before increases: a plan may admit into what it frees.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import StageTimes
from queues.quota.posting import Rejection
from queues.sql.leadership import LEASE_IS_VALID, OWN_FENCE, Term, require_valid
from queues.sql.ledger.admissions import admit, adopt, claim, drop_claims, evict, free, note_ready
from queues.sql.ledger.journal import (
    NO_STAGES,
    STAGES,
    STAGES_TOLD,
    note_stages,
    record_decisions,
    record_job_states,
    record_reasons,
    stage_rows,
)
from queues.sql.ledger.types import Decision, DecisionCode, Freed, LedgerOutcome, LedgerTransaction
from queues.sql.tables import admissions, fences
from queues.workload import AdmissionId

__all__ = [
    "Decision",
    "DecisionCode",
    "Freed",
    "LedgerOutcome",
    "LedgerTransaction",
    "Rejection",
    "admit",
    "adopt",
    "claim",
    "drop_claims",
    "evict",
    "fence",
    "free",
    "note_ready",
    "note_stages",
    "record_decisions",
    "record_job_states",
    "record_reasons",
    "start",
]

_FENCE = (
    update(fences)
    .where(OWN_FENCE)
    .values(ledger_seq=fences.c.ledger_seq + 1)
    # Read after the row is locked, so that the wait for the lock counts as well.
    .returning(fences.c.ledger_seq, LEASE_IS_VALID)
)


async def fence(tx: AsyncConnection, term: Term, *, ledger_seq: int, now: int) -> LedgerTransaction:
    """Take the ledger for this transaction alone: as the current leader, knowing its last sequence number.

    Raises Fenced when the term is over, or when the ledger was written since ``ledger_seq``: read the world again.
    """
    row = (await tx.execute(_FENCE, term.parameters())).one_or_none()
    seq, is_valid = row or (0, None)
    require_valid(term, is_valid)
    if seq != ledger_seq + 1:
        raise term.fenced(f"the ledger is at {seq - 1}, this was decided at {ledger_seq}")
    return LedgerTransaction(term=term, seq=seq, now=now)


_START = update(admissions).where(admissions.c.id == STAGES.c.id).values(started=True, **STAGES_TOLD)


async def start(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    ids: Collection[AdmissionId],
    stages: Mapping[AdmissionId, StageTimes] = NO_STAGES,
) -> None:
    """Mark admissions as started: every seat has had a bound pod. ``stages``: when they came so far."""
    if ids:
        await tx.execute(_START, stage_rows(ids, stages))
