"""What controls a pod that waits alone, so that the pods of one Deployment can be shown together.

Empty for what has no owner, and for what a version from before has described: the next description fills it in.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workloads ADD COLUMN owner text NOT NULL DEFAULT ''")


def downgrade() -> None:
    op.execute("ALTER TABLE workloads DROP COLUMN owner")
