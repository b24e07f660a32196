"""Images that workloads run: their run times are learned by them.

Empty for what an older version has stored. Of rows that are there nothing is rewritten.
"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

TABLES = ("workloads", "ended_workloads")


def upgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ADD COLUMN image text DEFAULT '' NOT NULL")


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} DROP COLUMN image")
