"""The tables, by territory. Amounts are exact integers in units of ``queues.resources``.

One writer per territory: the lease row by leadership, OBSERVED by intake, LEDGER by apply (what it says now, and
``history``). Whoever writes holds the lease row, intake shared and apply alone, so a ledger transaction sees
limits, tree and balances that nobody else changes until it commits.
"""

from collections.abc import MutableMapping
from typing import Any

from queues.sql.tables.history import PARTITIONED, decisions, ended_workloads, postings
from queues.sql.tables.leadership import leases
from queues.sql.tables.ledger import (
    admissions,
    backoffs,
    claims,
    job_states,
    node_balances,
    queue_balances,
    reasons,
)
from queues.sql.tables.metadata import metadata
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
    "decisions",
    "ended_workloads",
    "is_ours",
    "job_states",
    "leases",
    "metadata",
    "node_balances",
    "node_limits",
    "nodes",
    "outcomes",
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
    """For comparisons with a database: not the monthly parts, nor what others keep there."""
    return kind != "table" or name in metadata.tables
