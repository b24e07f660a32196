"""LEDGER: what happened, one part a month. Written by apply (``queues.sql.ledger``)."""

from typing import Any, Final

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, Index, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from queues.sql.tables.columns import document, many, moment, number, string
from queues.sql.tables.metadata import metadata

#: Tables of which there is one part a month, by the column that decides; each has a DEFAULT part as well.
PARTITIONED: Final = {"postings": "posted_at", "decisions": "decided_at", "ended_workloads": "ended_at"}


def _partitioned(name: str) -> dict[str, Any]:
    return {"postgresql_partition_by": f"RANGE ({PARTITIONED[name]})"}


postings: Final = Table(
    "postings",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("posted_at", primary_key=True),
    number("ledger_seq"),
    number("term"),
    #: admit | adopt | free
    string("kind"),
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
    number("pods"),
    document("asks"),
    # Rows of ``admissions`` and ``outcomes`` as they were, oldest first.
    Column("admissions", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("outcomes", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Index(None, "namespace", "name"),
    **_partitioned("ended_workloads"),
)
