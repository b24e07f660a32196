"""Values of labels and annotations that cannot be read, to be shown where their workload is asked about; and the size
of a gang when it was admitted, so that its elastic parts stay parts when its owner asks for more.

Empty and 0 for what an older version has stored. Of rows that are there nothing is rewritten.
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workloads ADD COLUMN ignored_values text DEFAULT '' NOT NULL")
    op.execute("ALTER TABLE admissions ADD COLUMN minimum bigint DEFAULT 0 NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE admissions DROP COLUMN minimum")
    op.execute("ALTER TABLE workloads DROP COLUMN ignored_values")
