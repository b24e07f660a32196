"""Values of labels and annotations that cannot be read, to be told where their workload is asked about.

Empty for what an older version has stored. Of rows that are there nothing is rewritten.
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workloads ADD COLUMN ignored_values text DEFAULT '' NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE workloads DROP COLUMN ignored_values")
