"""A gang may have more different requests than a small integer counts."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("admissions", "claims"):
        op.execute(f"ALTER TABLE {table} ALTER COLUMN shape_of TYPE integer[]")


def downgrade() -> None:
    for table in ("admissions", "claims"):
        op.execute(f"ALTER TABLE {table} ALTER COLUMN shape_of TYPE smallint[]")
