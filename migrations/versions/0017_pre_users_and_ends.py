"""Who made each workload, how it ended and when: for lists of workloads and of users, also after the object is gone.

Empty for what an older version has described: the next description fills it in; of what has ended by then it stays
unknown.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ADDED = {"username": "text NOT NULL DEFAULT ''", "result": "text NOT NULL DEFAULT ''"}
TIME = {"finished_at": "bigint NOT NULL DEFAULT 0"}
COLUMNS = {
    "workloads": ADDED | TIME,
    "ended_workloads": ADDED | TIME | {"minimum": "bigint NOT NULL DEFAULT 0"},
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            op.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def downgrade() -> None:
    for table, columns in COLUMNS.items():
        for name in columns:
            op.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
