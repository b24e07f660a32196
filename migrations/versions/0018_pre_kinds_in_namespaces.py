"""Indexes that give the kinds of workloads in a namespace without reading all: rights are checked for these."""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TABLES = ("workloads", "ended_workloads")


def upgrade() -> None:
    for table in TABLES:
        op.create_index(f"ix_{table}_namespace_kind", table, ["namespace", "kind"])


def downgrade() -> None:
    for table in TABLES:
        op.drop_index(f"ix_{table}_namespace_kind", table)
