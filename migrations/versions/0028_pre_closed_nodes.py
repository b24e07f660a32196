"""Why a node takes no gangs although it is ready, to be shown with the node.

Empty for what an older version has stored.
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN closed text DEFAULT '' NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN closed")
