"""The id of the ledger, which the cluster records: another database is refused there."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE ledger_ids (
            single BOOLEAN DEFAULT true NOT NULL,
            id TEXT NOT NULL,
            CONSTRAINT ck_ledger_ids_single_row CHECK (single),
            CONSTRAINT pk_ledger_ids PRIMARY KEY (single)
        )
        """
    )
    op.execute("INSERT INTO ledger_ids (id) VALUES (gen_random_uuid()::text)")


def downgrade() -> None:
    op.execute("DROP TABLE ledger_ids")
