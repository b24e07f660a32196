"""The user of each posting: past use fades for each user of a queue.

Rows from before have no name; they count for their queue.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE admissions ADD COLUMN username TEXT DEFAULT '' NOT NULL")
    op.execute("ALTER TABLE postings ADD COLUMN username TEXT DEFAULT '' NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE admissions DROP COLUMN username")
    op.execute("ALTER TABLE postings DROP COLUMN username")
