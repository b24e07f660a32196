"""The first schema: lease, what intake saw, the ledger, its history, and views for people's own tools.

Its statements are in ``0030_pre_first_schema.sql``. What unreleased versions had before, up to revision 0029, leads
nowhere: ``queues.errors.UnreleasedSchema``.
"""

from pathlib import Path

from alembic import op

revision = "0030"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in Path(__file__).with_suffix(".sql").read_text("utf-8").split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    op.execute("DROP VIEW muster_queues, muster_pending, muster_admissions, muster_postings, muster_history")
    op.execute(
        "DROP TABLE leases, fences, ledger_ids, heartbeats, queues, queue_versions, queue_limits, nodes, node_limits, "
        "capacity, workloads, outcomes, recreations, queue_balances, node_balances, admissions, backoffs, claims, "
        "reasons, job_states, postings, decisions, ended_workloads, closed_admissions, history_starts, "
        "past_use_marks, past_use_sums"
    )
    op.execute("DROP SEQUENCE arrival_numbers")
