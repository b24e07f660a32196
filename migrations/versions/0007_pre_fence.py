"""The fence of the ledger apart from the lease: renewals wait for no writer.

A version from before reads ``leases.ledger_seq`` at the start of a term and in each ledger transaction, so it can write
nothing any more.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE fences (
            name TEXT NOT NULL,
            term BIGINT NOT NULL,
            ledger_seq BIGINT DEFAULT 0 NOT NULL,
            CONSTRAINT pk_fences PRIMARY KEY (name)
        )
        """
    )
    op.execute("ALTER TABLE fences SET (fillfactor = 50)")
    # Waits for the transactions that have locked the lease row, so the number is the last one.
    op.execute("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE")
    op.execute("INSERT INTO fences (name, term, ledger_seq) SELECT name, term, ledger_seq FROM leases")
    op.execute("ALTER TABLE leases DROP COLUMN ledger_seq")


def downgrade() -> None:
    op.execute("ALTER TABLE leases ADD COLUMN ledger_seq BIGINT DEFAULT 0 NOT NULL")
    op.execute("UPDATE leases SET ledger_seq = fences.ledger_seq FROM fences WHERE fences.name = leases.name")
    op.execute("DROP TABLE fences")
