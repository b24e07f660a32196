"""The heartbeat of the leader: when what it has stored was current, and where its read API is."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE heartbeats (
            lease TEXT NOT NULL,
            holder TEXT NOT NULL,
            term BIGINT NOT NULL,
            current_at TIMESTAMPTZ NOT NULL,
            behind TEXT DEFAULT '' NOT NULL,
            address TEXT DEFAULT '' NOT NULL,
            CONSTRAINT pk_heartbeats PRIMARY KEY (lease)
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE heartbeats")
