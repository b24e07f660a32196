"""Turns of the last day, kept to be decided again.

Their content is compressed already: Postgres stores it as it is.
"""

from alembic import op

revision = "0024"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE kept_turns (
            id BIGINT GENERATED ALWAYS AS IDENTITY,
            decided_at TIMESTAMPTZ NOT NULL,
            ledger_seq BIGINT NOT NULL,
            term BIGINT NOT NULL,
            configuration TEXT NOT NULL,
            changed BOOLEAN DEFAULT false NOT NULL,
            size BIGINT NOT NULL,
            content BYTEA NOT NULL,
            CONSTRAINT pk_kept_turns PRIMARY KEY (id)
        )
        """
    )
    op.execute("CREATE INDEX ix_kept_turns_decided_at ON kept_turns (decided_at)")
    op.execute("ALTER TABLE kept_turns ALTER COLUMN content SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute("DROP TABLE kept_turns")
