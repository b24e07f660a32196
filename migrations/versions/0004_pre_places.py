"""What the place in a queue depends on besides priority and arrival."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE workloads
            ADD COLUMN devices BIGINT DEFAULT 0 NOT NULL,
            ADD COLUMN run_time BIGINT
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE workloads DROP COLUMN devices, DROP COLUMN run_time")
