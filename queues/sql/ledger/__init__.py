"""Ownership of quota and nodes: one short transaction per plan; only ``admission.apply`` imports this.

``fence`` comes first and gives the ``LedgerTransaction`` that every other function asks for, so that nothing
is written without it. Frees come before increases: a plan may admit into what it frees.
"""

from queues.quota.posting import Rejection
from queues.sql.leadership import LedgerTransaction, fence
from queues.sql.ledger.admissions import (
    Freed,
    LedgerOutcome,
    admit,
    adopt,
    claim,
    drop_claims,
    evict,
    free,
    note_ready,
    start,
)
from queues.sql.ledger.journal import (
    Decision,
    DecisionCode,
    note_stages,
    record_decisions,
    record_job_states,
    record_reasons,
)

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
