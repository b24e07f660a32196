"""Plug-ins that are set aside, with the queue that names them."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE queues ADD COLUMN plugins_set_aside JSONB DEFAULT '[]'::jsonb NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE queues DROP COLUMN plugins_set_aside")
