"""Turns that could not be decided: the disk of a pod, where they are too, goes with the pod.

Their content is compressed already: Postgres stores it as it is.
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE failed_turns (
            name TEXT NOT NULL,
            kept_at TIMESTAMPTZ NOT NULL,
            replica TEXT NOT NULL,
            size BIGINT NOT NULL,
            content BYTEA NOT NULL,
            CONSTRAINT pk_failed_turns PRIMARY KEY (name)
        )
        """
    )
    op.execute("ALTER TABLE failed_turns ALTER COLUMN content SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute("DROP TABLE failed_turns")
