"""Pods without an owner are made again after they were taken back: what is kept of them until then."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE recreations (
            pod_uid TEXT NOT NULL,
            kind TEXT NOT NULL,
            uid TEXT NOT NULL,
            namespace TEXT NOT NULL,
            name TEXT NOT NULL,
            queue TEXT NOT NULL,
            manifest TEXT NOT NULL,
            stored_at TIMESTAMPTZ DEFAULT clock_timestamp() NOT NULL,
            CONSTRAINT pk_recreations PRIMARY KEY (pod_uid)
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE recreations")
