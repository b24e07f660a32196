"""HISTORY: what happened, one partition a week, and what is summed up of it.

Rows come from apply (``queues.sql.ledger``) and intake (``queues.sql.observed``). They leave by the partition, in
``queues.sql.history``.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Numeric,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from queues.sql.tables.columns import (
    admission_facts,
    document,
    many,
    metadata,
    moment,
    number,
    string,
)

#: Partitioned tables, by the column that decides; each has a DEFAULT partition as well.
PARTITIONED: Final = {
    "postings": "posted_at",
    "decisions": "decided_at",
    "ended_workloads": "ended_at",
    "closed_admissions": "closed_at",
}


def _partitioned(name: str) -> dict[str, Any]:
    return {"postgresql_partition_by": f"RANGE ({PARTITIONED[name]})"}


postings: Final = Table(
    "postings",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("posted_at", primary_key=True),
    number("ledger_seq"),
    number("term"),
    #: admit | adopt | free | carry (held when the partition before ended, which was dropped)
    string("kind"),
    #: 0: of none (carry).
    number("admission"),
    #: User that the seats are for; "": unknown.
    string("username", server_default=text("''")),
    # Double entry: what the debit account takes, the credit account gives. 'queue/<name>' or 'pool'.
    string("debit"),
    string("credit"),
    # Element i of each list is one amount, in the flavor that the seats really have.
    many("flavors", Text),
    many("resources", Text),
    many("amounts", BigInteger),
    CheckConstraint("debit <> credit", name="two_accounts"),
    CheckConstraint("0 <= ALL (amounts)", name="amounts_not_negative"),
    Index(None, "admission"),
    **_partitioned("postings"),
)

decisions: Final = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("decided_at", primary_key=True),
    number("ledger_seq"),
    number("term"),
    string("kind"),
    string("workload_kind"),
    string("workload_uid"),
    string("namespace"),
    string("name"),
    string("queue"),
    string("code"),
    string("message"),
    Column("admission", BigInteger),
    Column("beneficiary_kind", Text),
    Column("beneficiary_uid", Text),
    document("numbers"),
    Index(None, "workload_kind", "workload_uid"),
    Index(None, "namespace", "name"),
    **_partitioned("decisions"),
)

ended_workloads: Final = Table(
    "ended_workloads",
    metadata,
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    moment("ended_at", primary_key=True),
    string("namespace"),
    string("name"),
    string("queue"),
    number("arrival"),
    number("priority"),
    number("created"),
    number("minimum"),
    number("pods"),
    document("asks"),
    #: Rows of ``outcomes`` as they were, oldest first.
    Column("outcomes", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    # As in ``workloads``.
    string("username"),
    string("image"),
    string("result"),
    number("finished_at"),
    moment("seen_at"),
    Index(None, "namespace", "name"),
    #: As in ``workloads``.
    Index(None, "namespace", "kind"),
    **_partitioned("ended_workloads"),
)

closed_admissions: Final = Table(
    "closed_admissions",
    metadata,
    #: As in ``admissions``; all of its seats are given back.
    number("id", primary_key=True),
    moment("closed_at", primary_key=True),
    *admission_facts(),
    Index(None, "kind", "uid"),
    Index(None, "namespace", "name"),
    **_partitioned("closed_admissions"),
)

history_starts: Final = Table(
    "history_starts",
    metadata,
    #: A partitioned table.
    string("history", primary_key=True),
    #: Older rows were dropped. No row: none was ever dropped.
    moment("begins_at"),
)

past_use_marks: Final = Table(
    "past_use_marks",
    metadata,
    #: Seconds.
    number("half_life", primary_key=True),
    #: Every posting up to this id is in ``past_use_sums``.
    number("posting"),
    #: Of the postings of the kind ``carry`` only those up to this id: the others repeat what is in the sums.
    number("carried"),
)

past_use_sums: Final = Table(
    "past_use_sums",
    metadata,
    number("half_life", primary_key=True),
    string("queue", primary_key=True),
    string("username", primary_key=True),
    string("flavor", primary_key=True),
    string("resource", primary_key=True),
    #: Seconds since the epoch ÷ half-life.
    number("block", primary_key=True),
    #: Σ ± amount × weight (``queues.quota.decayed_usage``), of more digits than 64 bits hold.
    Column("units", Numeric, nullable=False),
)
