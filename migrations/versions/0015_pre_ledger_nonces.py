"""Nonces of the ledger, by which the cluster tells it from a copy."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE ledger_ids
            ADD COLUMN nonce TEXT DEFAULT gen_random_uuid()::text NOT NULL,
            ADD COLUMN next_nonce TEXT DEFAULT gen_random_uuid()::text NOT NULL
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE ledger_ids DROP COLUMN nonce, DROP COLUMN next_nonce")
