"""Past use summed up by block of a half-life, so that a new leader need not read months of postings.

Empty at first: the leader sums up, in small steps, beside its turns.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE past_use_marks (
            half_life BIGINT NOT NULL,
            posting BIGINT NOT NULL,
            carried BIGINT NOT NULL,
            CONSTRAINT pk_past_use_marks PRIMARY KEY (half_life)
        )
        """
    )
    op.execute(
        """
        CREATE TABLE past_use_sums (
            half_life BIGINT NOT NULL,
            queue TEXT NOT NULL,
            username TEXT NOT NULL,
            flavor TEXT NOT NULL,
            resource TEXT NOT NULL,
            block BIGINT NOT NULL,
            units NUMERIC NOT NULL,
            CONSTRAINT pk_past_use_sums PRIMARY KEY (half_life, queue, username, flavor, resource, block)
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE past_use_marks, past_use_sums")
