"""The lease of the leader, and the fence that every other writer locks first. Written by ``queues.sql.leadership``."""

from typing import Final

from sqlalchemy import Table

from queues.sql.tables.columns import count, moment, number, string
from queues.sql.tables.metadata import metadata

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
