"""When workloads were seen, and admissions were committed, released, bound and running: the stages of an explanation.

Null for what an older version has stored, and for what Muster has not seen.
"""

from alembic import op

revision = "0022"
down_revision = "0018"
branch_labels = None
depends_on = None

SEEN = ("workloads", "ended_workloads")
ADMISSIONS = ("admissions", "closed_admissions")
TIMES = ("admitted_at", "released_at", "bound_at", "running_at")


def upgrade() -> None:
    for table in SEEN:
        op.execute(f"ALTER TABLE {table} ADD COLUMN seen_at timestamptz")
    # Not with the column: rows that are there were seen at a time that is not known.
    op.execute("ALTER TABLE workloads ALTER COLUMN seen_at SET DEFAULT clock_timestamp()")
    for table in ADMISSIONS:
        added = ", ".join(f"ADD COLUMN {name} timestamptz" for name in TIMES)
        op.execute(f"ALTER TABLE {table} {added}")


def downgrade() -> None:
    for table in ADMISSIONS:
        dropped = ", ".join(f"DROP COLUMN {name}" for name in TIMES)
        op.execute(f"ALTER TABLE {table} {dropped}")
    for table in SEEN:
        op.execute(f"ALTER TABLE {table} DROP COLUMN seen_at")
