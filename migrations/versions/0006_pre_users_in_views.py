"""The user of admissions and postings in the views: use is shown by user as well.

At the end of each view, and replaced rather than dropped: what readers were granted stays.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ADMISSIONS = """
{create} VIEW muster_admissions AS
SELECT id, namespace, name, kind, uid, queue, priority, state, started, opened_at, closed_at,
       cardinality(nodes) AS seats, cardinality(nodes) - cardinality(ended) AS seats_held,
       ARRAY(SELECT DISTINCT node FROM unnest(nodes) AS node ORDER BY node) AS nodes,
       cardinality(adopted_pods) > 0 AS adopted,
       evicted_at, cause_code, cause_message, beneficiary_kind, beneficiary_uid{username}
FROM admissions
"""
POSTINGS = """
{create} VIEW muster_postings AS
SELECT p.id, p.posted_at, p.ledger_seq, p.term, p.kind, p.admission, p.debit, p.credit,
       line.flavor, line.resource, line.amount{username}
FROM postings p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount)
"""
ADMISSIONS_ARE = """
COMMENT ON VIEW muster_admissions IS
'What workloads hold (open, evicting) or held (closed). Once their object is gone: see ended_workloads.{username}'
"""
POSTINGS_ARE = """
COMMENT ON VIEW muster_postings IS
'Double entry: each amount moves from the credit account to the debit account; "pool" is what nobody holds.{username}'
"""
UNKNOWN = " username is who asked, empty where nobody knows."


def upgrade() -> None:
    op.execute(ADMISSIONS.format(create="CREATE OR REPLACE", username=", username"))
    op.execute(POSTINGS.format(create="CREATE OR REPLACE", username=", p.username"))
    op.execute(ADMISSIONS_ARE.format(username=UNKNOWN))
    op.execute(POSTINGS_ARE.format(username=UNKNOWN))


def downgrade() -> None:
    op.execute("DROP VIEW muster_admissions, muster_postings")
    op.execute(ADMISSIONS.format(create="CREATE", username=""))
    op.execute(POSTINGS.format(create="CREATE", username=""))
    op.execute(ADMISSIONS_ARE.format(username=""))
    op.execute(POSTINGS_ARE.format(username=""))
