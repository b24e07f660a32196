"""The lease of the leader, its heartbeat, the fence that every other writer locks first, and the ledger's id.

Written by ``queues.sql.leadership``, ``queues.sql.leadership`` and ``queues.sql.ledger_identity``.
"""

from typing import Final

from sqlalchemy import CheckConstraint, PrimaryKeyConstraint, Table, text

from queues.sql.tables.columns import count, flag, metadata, moment, number, string

#: Only elections and renewals lock a row of it.
leases: Final = Table(
    "leases",
    metadata,
    string("name", primary_key=True),
    string("holder"),
    #: Grows with every election.
    number("term"),
    moment("expires"),
)

fences: Final = Table(
    "fences",
    metadata,
    #: Of the lease.
    string("name", primary_key=True),
    #: The term that may write.
    number("term"),
    #: Of the last ledger transaction. Goes on over terms.
    count("ledger_seq"),
)

ledger_ids: Final = Table(
    "ledger_ids",
    metadata,
    #: One row only: always true.
    flag("single", True),
    string("id"),
    #: What the cluster has recorded, and what it gets next (``queues.ledger_record``).
    *(string(name, server_default=text("(gen_random_uuid())::text")) for name in ("nonce", "next_nonce")),
    CheckConstraint("single", name="single_row"),
    PrimaryKeyConstraint("single"),
)

heartbeats: Final = Table(
    "heartbeats",
    metadata,
    #: Name of the lease.
    string("lease", primary_key=True),
    string("holder"),
    number("term"),
    #: When the cluster was as the tables say, by the database's clock.
    moment("current_at"),
    #: Why that is some time ago, as a sentence; "": nothing is behind.
    string("behind", server_default=text("''")),
    #: Where other replicas reach the leader's read API: https://host:port; "": they do not.
    string("address", server_default=text("''")),
)
