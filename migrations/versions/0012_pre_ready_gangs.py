"""Which gangs have been ready, and how often the pods of a workload were not in time.

A gang that runs when this is installed counts as one that has been ready.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE admissions ADD COLUMN ready boolean NOT NULL DEFAULT false")
    op.execute("UPDATE admissions SET ready = true WHERE started AND state <> 'closed'")
    op.execute(
        """
        ALTER TABLE backoffs
            ADD COLUMN unready bigint NOT NULL DEFAULT 0,
            ADD COLUMN unready_revision text NOT NULL DEFAULT '',
            ADD COLUMN unready_message text NOT NULL DEFAULT ''
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE admissions DROP COLUMN ready")
    op.execute(
        """
        ALTER TABLE backoffs
            DROP COLUMN unready,
            DROP COLUMN unready_revision,
            DROP COLUMN unready_message
        """
    )
