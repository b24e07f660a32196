"""Queues with an object that was deleted while something of them was held are in the view of queues until that ends.

Replaced rather than dropped: what readers were granted stays.
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

QUEUES = """
CREATE OR REPLACE VIEW muster_queues AS
SELECT q.name AS queue, q.parent, a.flavor, a.resource,
       coalesce(l.keeps, 0) AS guarantee, l.deserved,
       CASE WHEN q.name = 'root' THEN least(l.ceiling, coalesce(c.amount, 0)) ELSE l.ceiling END
           AS capability,
       coalesce(b.used, 0) AS used, coalesce(b.counted, 0) AS counted,
       q.paused, q.closed, q.broken, q.changed_by
FROM queues q
LEFT JOIN (
    SELECT queue, flavor, resource FROM queue_limits
    UNION SELECT queue, flavor, resource FROM queue_balances
    UNION SELECT 'root', flavor, resource FROM capacity
) a ON a.queue = q.name
LEFT JOIN queue_limits l ON (l.queue, l.flavor, l.resource) = (a.queue, a.flavor, a.resource)
LEFT JOIN queue_balances b ON (b.queue, b.flavor, b.resource) = (a.queue, a.flavor, a.resource)
LEFT JOIN capacity c ON a.queue = 'root' AND (c.flavor, c.resource) = (a.flavor, a.resource)
WHERE {shown}
"""
HELD = "q.present OR EXISTS (SELECT FROM queue_balances h WHERE h.queue = q.name AND h.used <> 0)"


def upgrade() -> None:
    op.execute(QUEUES.format(shown=HELD))


def downgrade() -> None:
    op.execute(QUEUES.format(shown="q.present"))
