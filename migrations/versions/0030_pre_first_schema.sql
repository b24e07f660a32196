-- The first schema (revision 0030). Never changed: what comes later is a migration of its own, and the tables as they
-- are now are in queues/sql/tables.

-- Leadership: the lease, its heartbeat, the fence that every other writer locks first, and the ledger's id.

CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    term BIGINT NOT NULL,
    expires TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (name)
);

CREATE TABLE fences (
    name TEXT NOT NULL,
    term BIGINT NOT NULL,
    ledger_seq BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_fences PRIMARY KEY (name)
);

CREATE TABLE ledger_ids (
    single BOOLEAN DEFAULT true NOT NULL,
    id TEXT NOT NULL,
    nonce TEXT DEFAULT gen_random_uuid()::text NOT NULL,
    next_nonce TEXT DEFAULT gen_random_uuid()::text NOT NULL,
    CONSTRAINT pk_ledger_ids PRIMARY KEY (single),
    CONSTRAINT ck_ledger_ids_single_row CHECK (single)
);
INSERT INTO ledger_ids (id) VALUES (gen_random_uuid()::text);

CREATE TABLE heartbeats (
    lease TEXT NOT NULL,
    holder TEXT NOT NULL,
    term BIGINT NOT NULL,
    current_at TIMESTAMPTZ NOT NULL,
    behind TEXT DEFAULT '' NOT NULL,
    address TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_heartbeats PRIMARY KEY (lease)
);

-- Observed: what the cluster would forget. Written by intake.

CREATE SEQUENCE arrival_numbers;

CREATE TABLE queues (
    name TEXT NOT NULL,
    uid TEXT DEFAULT '' NOT NULL,
    generation BIGINT DEFAULT 0 NOT NULL,
    parent TEXT,
    counts_in TEXT,
    problem TEXT,
    broken BOOLEAN DEFAULT false NOT NULL,
    present BOOLEAN DEFAULT true NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    closed BOOLEAN DEFAULT false NOT NULL,
    document JSONB DEFAULT '{}'::jsonb NOT NULL,
    served JSONB DEFAULT '{}'::jsonb NOT NULL,
    changed_by TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_queues PRIMARY KEY (name)
);
INSERT INTO queues (name) VALUES ('root');

CREATE TABLE queue_versions (
    version BIGINT GENERATED ALWAYS AS IDENTITY,
    recorded_at TIMESTAMPTZ DEFAULT clock_timestamp() NOT NULL,
    queue TEXT NOT NULL,
    uid TEXT NOT NULL,
    generation BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    document JSONB DEFAULT '{}'::jsonb NOT NULL,
    removed BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_queue_versions PRIMARY KEY (version)
);
CREATE INDEX ix_queue_versions_queue_version ON queue_versions (queue, version);

CREATE TABLE queue_limits (
    queue TEXT NOT NULL,
    flavor TEXT NOT NULL,
    resource TEXT NOT NULL,
    guarantee BIGINT,
    deserved BIGINT,
    capability BIGINT,
    keeps BIGINT DEFAULT 0 NOT NULL,
    ceiling BIGINT,
    CONSTRAINT pk_queue_limits PRIMARY KEY (queue, flavor, resource),
    CONSTRAINT ck_queue_limits_keeps_not_negative CHECK (keeps >= 0)
);

CREATE TABLE nodes (
    name TEXT NOT NULL,
    flavor TEXT DEFAULT '' NOT NULL,
    usable BOOLEAN DEFAULT true NOT NULL,
    closed TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_nodes PRIMARY KEY (name)
);
CREATE INDEX ix_nodes_unusable ON nodes (name) WHERE NOT usable;

CREATE TABLE node_limits (
    node TEXT NOT NULL,
    resource TEXT NOT NULL,
    amount BIGINT NOT NULL,
    CONSTRAINT pk_node_limits PRIMARY KEY (node, resource)
);

CREATE TABLE capacity (
    flavor TEXT NOT NULL,
    resource TEXT NOT NULL,
    amount BIGINT NOT NULL,
    CONSTRAINT pk_capacity PRIMARY KEY (flavor, resource)
);

CREATE TABLE workloads (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    arrival BIGINT NOT NULL,
    priority BIGINT DEFAULT 0 NOT NULL,
    created BIGINT DEFAULT 0 NOT NULL,
    minimum BIGINT DEFAULT 1 NOT NULL,
    pods BIGINT DEFAULT 1 NOT NULL,
    asks JSONB DEFAULT '{}'::jsonb NOT NULL,
    devices BIGINT DEFAULT 0 NOT NULL,
    run_time BIGINT,
    owner TEXT DEFAULT '' NOT NULL,
    finished BOOLEAN DEFAULT false NOT NULL,
    username TEXT DEFAULT '' NOT NULL,
    image TEXT DEFAULT '' NOT NULL,
    ignored_values TEXT DEFAULT '' NOT NULL,
    result TEXT DEFAULT '' NOT NULL,
    finished_at BIGINT DEFAULT 0 NOT NULL,
    seen_at TIMESTAMPTZ DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_workloads PRIMARY KEY (kind, uid)
);
CREATE INDEX ix_workloads_namespace_name ON workloads (namespace, name);
CREATE INDEX ix_workloads_namespace_kind ON workloads (namespace, kind);
CREATE INDEX ix_workloads_queue_arrival ON workloads (queue, arrival);

CREATE TABLE outcomes (
    pod_uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    pod_set TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    phase TEXT NOT NULL,
    exit_code INTEGER,
    version BIGINT DEFAULT 0 NOT NULL,
    recorded_at TIMESTAMPTZ DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_outcomes PRIMARY KEY (pod_uid),
    CONSTRAINT ck_outcomes_phase_is_terminal CHECK (phase IN ('Succeeded', 'Failed'))
);
CREATE INDEX ix_outcomes_kind_uid ON outcomes (kind, uid);

CREATE TABLE recreations (
    pod_uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    manifest TEXT NOT NULL,
    CONSTRAINT pk_recreations PRIMARY KEY (pod_uid)
);

-- The ledger: who owns what. Written by apply.

CREATE TABLE queue_balances (
    queue TEXT NOT NULL,
    flavor TEXT NOT NULL,
    resource TEXT NOT NULL,
    own BIGINT DEFAULT 0 NOT NULL,
    used BIGINT DEFAULT 0 NOT NULL,
    counted BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_queue_balances PRIMARY KEY (queue, flavor, resource),
    CONSTRAINT ck_queue_balances_own_not_negative CHECK (own >= 0),
    CONSTRAINT ck_queue_balances_used_holds_own CHECK (used >= own),
    CONSTRAINT ck_queue_balances_counted_holds_used CHECK (counted >= used)
);

CREATE TABLE node_balances (
    node TEXT NOT NULL,
    resource TEXT NOT NULL,
    used BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_node_balances PRIMARY KEY (node, resource),
    CONSTRAINT ck_node_balances_used_not_negative CHECK (used >= 0)
);

CREATE TABLE admissions (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
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
    held_since TIMESTAMPTZ NOT NULL,
    admitted_at TIMESTAMPTZ NOT NULL,
    released_at TIMESTAMPTZ,
    bound_at TIMESTAMPTZ,
    running_at TIMESTAMPTZ,
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
    state TEXT DEFAULT 'open' NOT NULL,
    minimum BIGINT DEFAULT 0 NOT NULL,
    ended INTEGER[] DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_admissions PRIMARY KEY (id),
    CONSTRAINT ck_admissions_state_is_known CHECK (state IN ('open', 'evicting')),
    CONSTRAINT ck_admissions_lists_are_about_the_same_seats CHECK (
        cardinality(pod_sets) = cardinality(ordinals) AND cardinality(pod_sets) = cardinality(nodes)
        AND cardinality(pod_sets) = cardinality(flavors) AND cardinality(pod_sets) = cardinality(shape_of)
        AND cardinality(ended) <= cardinality(pod_sets)
    )
);
CREATE INDEX ix_admissions_kind_uid ON admissions (kind, uid);

CREATE TABLE backoffs (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    not_before BIGINT DEFAULT 0 NOT NULL,
    rollbacks BIGINT DEFAULT 0 NOT NULL,
    evictions BIGINT DEFAULT 0 NOT NULL,
    waiting_since BIGINT DEFAULT 0 NOT NULL,
    unready BIGINT DEFAULT 0 NOT NULL,
    unready_revision TEXT DEFAULT '' NOT NULL,
    unready_message TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_backoffs PRIMARY KEY (kind, uid)
);

CREATE TABLE claims (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    queue TEXT NOT NULL,
    generation TEXT NOT NULL,
    until BIGINT NOT NULL,
    victims BIGINT[] DEFAULT '{}' NOT NULL,
    pod_sets TEXT[] DEFAULT '{}' NOT NULL,
    ordinals INTEGER[] DEFAULT '{}' NOT NULL,
    nodes TEXT[] DEFAULT '{}' NOT NULL,
    flavors TEXT[] DEFAULT '{}' NOT NULL,
    shape_of INTEGER[] DEFAULT '{}' NOT NULL,
    shapes JSONB DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT pk_claims PRIMARY KEY (kind, uid)
);

CREATE TABLE reasons (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    facts JSONB DEFAULT '{}'::jsonb NOT NULL,
    since TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_reasons PRIMARY KEY (kind, uid)
);

CREATE TABLE job_states (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    state JSONB DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT pk_job_states PRIMARY KEY (kind, uid)
);

-- History: what happened, by partition, and what is summed up of it.

CREATE TABLE postings (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    posted_at TIMESTAMPTZ NOT NULL,
    ledger_seq BIGINT NOT NULL,
    term BIGINT NOT NULL,
    kind TEXT NOT NULL,
    admission BIGINT NOT NULL,
    username TEXT DEFAULT '' NOT NULL,
    debit TEXT NOT NULL,
    credit TEXT NOT NULL,
    flavors TEXT[] DEFAULT '{}' NOT NULL,
    resources TEXT[] DEFAULT '{}' NOT NULL,
    amounts BIGINT[] DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_postings PRIMARY KEY (id, posted_at),
    CONSTRAINT ck_postings_two_accounts CHECK (debit <> credit),
    CONSTRAINT ck_postings_amounts_not_negative CHECK (0 <= ALL (amounts))
) PARTITION BY RANGE (posted_at);
CREATE INDEX ix_postings_admission ON postings (admission);

CREATE TABLE decisions (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    decided_at TIMESTAMPTZ NOT NULL,
    ledger_seq BIGINT NOT NULL,
    term BIGINT NOT NULL,
    kind TEXT NOT NULL,
    workload_kind TEXT NOT NULL,
    workload_uid TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    admission BIGINT,
    beneficiary_kind TEXT,
    beneficiary_uid TEXT,
    numbers JSONB DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT pk_decisions PRIMARY KEY (id, decided_at)
) PARTITION BY RANGE (decided_at);
CREATE INDEX ix_decisions_namespace_name ON decisions (namespace, name);
CREATE INDEX ix_decisions_workload_kind_workload_uid ON decisions (workload_kind, workload_uid);

CREATE TABLE ended_workloads (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    ended_at TIMESTAMPTZ NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    arrival BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    created BIGINT NOT NULL,
    minimum BIGINT NOT NULL,
    pods BIGINT NOT NULL,
    asks JSONB DEFAULT '{}'::jsonb NOT NULL,
    outcomes JSONB DEFAULT '[]'::jsonb NOT NULL,
    username TEXT NOT NULL,
    image TEXT NOT NULL,
    result TEXT NOT NULL,
    finished_at BIGINT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_ended_workloads PRIMARY KEY (kind, uid, ended_at)
) PARTITION BY RANGE (ended_at);
CREATE INDEX ix_ended_workloads_namespace_name ON ended_workloads (namespace, name);
CREATE INDEX ix_ended_workloads_namespace_kind ON ended_workloads (namespace, kind);

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
    held_since TIMESTAMPTZ NOT NULL,
    admitted_at TIMESTAMPTZ NOT NULL,
    released_at TIMESTAMPTZ,
    bound_at TIMESTAMPTZ,
    running_at TIMESTAMPTZ,
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

CREATE TABLE history_starts (
    history TEXT NOT NULL,
    begins_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_history_starts PRIMARY KEY (history)
);

CREATE TABLE past_use_marks (
    half_life BIGINT NOT NULL,
    posting BIGINT NOT NULL,
    carried BIGINT NOT NULL,
    CONSTRAINT pk_past_use_marks PRIMARY KEY (half_life)
);

CREATE TABLE past_use_sums (
    half_life BIGINT NOT NULL,
    queue TEXT NOT NULL,
    username TEXT NOT NULL,
    flavor TEXT NOT NULL,
    resource TEXT NOT NULL,
    block BIGINT NOT NULL,
    units NUMERIC NOT NULL,
    CONSTRAINT pk_past_use_sums PRIMARY KEY (half_life, queue, username, flavor, resource, block)
);

-- Rows that are updated in place again and again: room for the next version on the same page. And nothing that is
-- posted may fail for want of a partition; the weekly ones are made ahead of time.

ALTER TABLE leases SET (fillfactor = 50);
ALTER TABLE fences SET (fillfactor = 50);
ALTER TABLE queue_balances SET (fillfactor = 50);
ALTER TABLE node_balances SET (fillfactor = 50);
CREATE TABLE postings_default PARTITION OF postings DEFAULT;
CREATE TABLE decisions_default PARTITION OF decisions DEFAULT;
CREATE TABLE ended_workloads_default PARTITION OF ended_workloads DEFAULT;
CREATE TABLE closed_admissions_default PARTITION OF closed_admissions DEFAULT;

-- Views for people's own tools.

CREATE VIEW muster_queues AS
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
WHERE q.present OR EXISTS (SELECT FROM queue_balances h WHERE h.queue = q.name AND h.used <> 0);

CREATE VIEW muster_pending AS
SELECT w.namespace, w.name, w.kind, w.uid, w.queue, w.priority, w.arrival,
       to_timestamp(w.created) AS created_at, w.minimum, w.pods, w.asks,
       r.code AS reason, r.message, r.facts, r.since
FROM workloads w
LEFT JOIN reasons r ON (r.kind, r.uid) = (w.kind, w.uid)
WHERE NOT w.finished AND (r.code IS NOT NULL OR NOT EXISTS (
    SELECT FROM admissions a WHERE (a.kind, a.uid) = (w.kind, w.uid)
));

CREATE VIEW muster_admissions AS
SELECT id, namespace, name, kind, uid, queue, priority, state, started, opened_at, NULL::timestamptz AS closed_at,
       cardinality(nodes) AS seats, cardinality(nodes) - cardinality(ended) AS seats_held,
       ARRAY(SELECT DISTINCT node FROM unnest(nodes) AS node ORDER BY node) AS nodes,
       cardinality(adopted_pods) > 0 AS adopted,
       evicted_at, cause_code, cause_message, beneficiary_kind, beneficiary_uid, username
FROM admissions
UNION ALL
SELECT id, namespace, name, kind, uid, queue, priority, 'closed', started, opened_at, closed_at,
       cardinality(nodes), 0,
       ARRAY(SELECT DISTINCT node FROM unnest(nodes) AS node ORDER BY node),
       cardinality(adopted_pods) > 0,
       evicted_at, cause_code, cause_message, beneficiary_kind, beneficiary_uid, username
FROM closed_admissions;

CREATE VIEW muster_postings AS
SELECT p.id, p.posted_at, p.ledger_seq, p.term, p.kind, p.admission, p.debit, p.credit,
       line.flavor, line.resource, line.amount, p.username
FROM postings p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount);

CREATE VIEW muster_history AS
SELECT h.history, s.begins_at
FROM (VALUES ('postings'), ('decisions'), ('ended_workloads'), ('closed_admissions')) AS h(history)
LEFT JOIN history_starts s ON s.history = h.history;

COMMENT ON VIEW muster_queues IS
'One row per queue, flavor and resource; flavor is empty where amounts are summed over all flavors. cpu in
milli-CPU, memory in bytes, pods in pods, everything else in thousandths. used is with everything below,
counted is what the capability is held against (an idle guarantee below counts as taken).';
COMMENT ON VIEW muster_pending IS
'Workloads that wait for seats, wholly or in part, with the reason in the words of kubectl muster explain.';
COMMENT ON VIEW muster_admissions IS
'What workloads hold (open, evicting) or held (closed), as far back as muster_history says of closed_admissions.
username is who asked, empty where nobody knows.';
COMMENT ON VIEW muster_postings IS
'Double entry: each amount moves from the credit account to the debit account; "pool" is what nobody holds. carry is
what was held when the history begins. username is who asked, empty where nobody knows.';
COMMENT ON VIEW muster_history IS
'Where each history begins: older rows were dropped. Null: none was ever dropped.';
