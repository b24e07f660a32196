"""Admissions move to a partitioned history when they close, and each history says where it begins.

Rows that were closed before stay where they are; the leader moves them in small steps (``queues.sql.history.closing``),
so this takes no longer for a large database. A version from before goes on closing rows in place, which are moved too.
The view of admissions is replaced rather than dropped: what readers were granted stays.
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

KEPT = """
    id, kind, uid, namespace, name, queue, priority, generation, username, started, ready, opened_at, term,
    pod_sets, ordinals,
    nodes, flavors, shape_of, shapes, adopted_pods, adopted_seats, evicted_at, cause_code, cause_message,
    beneficiary_kind, beneficiary_uid, closed_at
"""

TABLES = """
CREATE TABLE closed_admissions (
    id BIGINT NOT NULL,
    closed_at TIMESTAMPTZ NOT NULL,
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority BIGINT NOT NULL,
    generation TEXT NOT NULL,
    username TEXT DEFAULT '' NOT NULL,
    started BOOLEAN DEFAULT false NOT NULL,
    ready BOOLEAN DEFAULT false NOT NULL,
    opened_at TIMESTAMPTZ NOT NULL,
    term BIGINT NOT NULL,
    pod_sets TEXT[] DEFAULT '{}' NOT NULL,
    ordinals INTEGER[] DEFAULT '{}' NOT NULL,
    nodes TEXT[] DEFAULT '{}' NOT NULL,
    flavors TEXT[] DEFAULT '{}' NOT NULL,
    shape_of INTEGER[] DEFAULT '{}' NOT NULL,
    shapes JSONB DEFAULT '[]'::jsonb NOT NULL,
    adopted_pods TEXT[] DEFAULT '{}' NOT NULL,
    adopted_seats INTEGER[] DEFAULT '{}' NOT NULL,
    evicted_at TIMESTAMPTZ,
    cause_code TEXT,
    cause_message TEXT,
    beneficiary_kind TEXT,
    beneficiary_uid TEXT,
    CONSTRAINT pk_closed_admissions PRIMARY KEY (id, closed_at)
) PARTITION BY RANGE (closed_at);
CREATE INDEX ix_closed_admissions_kind_uid ON closed_admissions (kind, uid);
CREATE INDEX ix_closed_admissions_namespace_name ON closed_admissions (namespace, name);
CREATE TABLE closed_admissions_default PARTITION OF closed_admissions DEFAULT;

CREATE TABLE history_starts (
    history TEXT NOT NULL,
    begins_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_history_starts PRIMARY KEY (history)
);
"""

HELD = """
SELECT id, namespace, name, kind, uid, queue, priority, state, started, opened_at, closed_at,
       cardinality(nodes) AS seats, cardinality(nodes) - cardinality(ended) AS seats_held,
       ARRAY(SELECT DISTINCT node FROM unnest(nodes) AS node ORDER BY node) AS nodes,
       cardinality(adopted_pods) > 0 AS adopted,
       evicted_at, cause_code, cause_message, beneficiary_kind, beneficiary_uid, username
FROM admissions
"""
CLOSED = """
SELECT id, namespace, name, kind, uid, queue, priority, 'closed', started, opened_at, closed_at,
       cardinality(nodes), 0,
       ARRAY(SELECT DISTINCT node FROM unnest(nodes) AS node ORDER BY node),
       cardinality(adopted_pods) > 0,
       evicted_at, cause_code, cause_message, beneficiary_kind, beneficiary_uid, username
FROM closed_admissions
"""
STARTS = """
CREATE VIEW muster_history AS
SELECT h.history, s.begins_at
FROM (VALUES ('postings'), ('decisions'), ('ended_workloads'), ('closed_admissions')) AS h(history)
LEFT JOIN history_starts s ON s.history = h.history
"""
COMMENTS = """
COMMENT ON VIEW muster_admissions IS
'What workloads hold (open, evicting) or held (closed), as far back as muster_history says of closed_admissions.
username is who asked, empty where nobody knows.';
COMMENT ON VIEW muster_postings IS
'Double entry: each amount moves from the credit account to the debit account; "pool" is what nobody holds. carry is
what was held when the history begins. username is who asked, empty where nobody knows.';
COMMENT ON VIEW muster_history IS
'Where each history begins: older rows were dropped. Null: none was ever dropped.';
"""
ADMISSIONS_WERE = """
COMMENT ON VIEW muster_admissions IS
'What workloads hold (open, evicting) or held (closed). Once their object is gone: see ended_workloads. username is who
asked, empty where nobody knows.'
"""
POSTINGS_WERE = """
COMMENT ON VIEW muster_postings IS
'Double entry: each amount moves from the credit account to the debit account; "pool" is what nobody holds. username is
who asked, empty where nobody knows.'
"""


def upgrade() -> None:
    for statement in (
        *TABLES.split(";\n"),
        f"CREATE OR REPLACE VIEW muster_admissions AS {HELD} UNION ALL {CLOSED}",
    ):
        if statement.strip():
            op.execute(statement)
    op.execute(STARTS)
    for statement in COMMENTS.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    op.execute("DROP VIEW muster_history")
    op.execute(f"CREATE OR REPLACE VIEW muster_admissions AS {HELD}")
    op.execute(ADMISSIONS_WERE)
    op.execute(POSTINGS_WERE)
    op.execute(
        f"INSERT INTO admissions ({KEPT}, state, ended) OVERRIDING SYSTEM VALUE"
        f" SELECT {KEPT}, 'closed', ARRAY(SELECT generate_series(0, cardinality(nodes) - 1)) FROM closed_admissions"
    )
    op.execute("DROP TABLE closed_admissions, history_starts")
