"""Turns are kept in Postgres no more: the tables go when no replica is left that writes into them."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TABLE kept_turns")
    op.execute("DROP TABLE failed_turns")


def downgrade() -> None:
    op.execute(
        """
        CREATE TABLE kept_turns (
            id bigint GENERATED ALWAYS AS IDENTITY,
            decided_at timestamp with time zone NOT NULL,
            ledger_seq bigint NOT NULL,
            term bigint NOT NULL,
            configuration text NOT NULL,
            changed boolean DEFAULT false NOT NULL,
            size bigint NOT NULL,
            content bytea NOT NULL,
            CONSTRAINT pk_kept_turns PRIMARY KEY (id)
        )
        """
    )
    op.execute("CREATE INDEX ix_kept_turns_decided_at ON kept_turns (decided_at)")
    op.execute(
        """
        CREATE TABLE failed_turns (
            name text NOT NULL,
            kept_at timestamp with time zone NOT NULL,
            replica text NOT NULL,
            size bigint NOT NULL,
            content bytea NOT NULL,
            CONSTRAINT pk_failed_turns PRIMARY KEY (name)
        )
        """
    )
