"""A backup of the ledger and its history: one file, as of one moment, for any Postgres that this version knows."""
