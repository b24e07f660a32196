"""The lease of the leader. Written by ``queues.sql.leadership``; every other writer locks this row first."""

from typing import Final

from sqlalchemy import Table

from queues.sql.tables.columns import count, moment, number, string
from queues.sql.tables.metadata import metadata

leases: Final = Table(
    "leases",
    metadata,
    string("name", primary_key=True),
    string("holder"),
    #: Grows with every election.
    number("term"),
    moment("expires"),
    #: Of the last ledger transaction. Goes on over terms.
    count("ledger_seq"),
)
