"""The tables, by territory. Amounts are exact integers in units of ``queues.resources``.

One writer per territory: lease and fence by leadership, OBSERVED by intake, LEDGER by apply. HISTORY gets rows from
both, and loses them by age (``queues.sql.history``). Intake locks the fence row shared, apply exclusively, so limits,
tree and balances cannot change while a ledger transaction runs.
"""

from collections.abc import MutableMapping
from typing import Any

from queues.sql.tables.columns import metadata
from queues.sql.tables.history import (
    PARTITIONED,
    closed_admissions,
    decisions,
    ended_workloads,
    history_starts,
    past_use_marks,
    past_use_sums,
    postings,
)
from queues.sql.tables.leadership import fences, heartbeats, leases, ledger_ids
from queues.sql.tables.ledger import (
    admissions,
    backoffs,
    claims,
    job_states,
    node_balances,
    queue_balances,
    reasons,
)
from queues.sql.tables.observed import (
    arrival_numbers,
    capacity,
    node_limits,
    nodes,
    outcomes,
    queue_limits,
    queue_versions,
    queues,
    recreations,
    workloads,
)

__all__ = [
    "PARTITIONED",
    "admissions",
    "arrival_numbers",
    "backoffs",
    "capacity",
    "claims",
    "closed_admissions",
    "decisions",
    "ended_workloads",
    "fences",
    "heartbeats",
    "history_starts",
    "is_ours",
    "job_states",
    "leases",
    "ledger_ids",
    "metadata",
    "node_balances",
    "node_limits",
    "nodes",
    "outcomes",
    "past_use_marks",
    "past_use_sums",
    "postings",
    "queue_balances",
    "queue_limits",
    "queue_versions",
    "queues",
    "reasons",
    "recreations",
    "workloads",
]


def is_ours(name: str | None, kind: str, parents: MutableMapping[Any, Any]) -> bool:
    """False for tables that are not declared here: partitions, and tables of another owner."""
    return kind != "table" or name in metadata.tables
