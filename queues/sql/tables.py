"""The tables, by territory. Amounts are exact integers in units of ``queues.resources``.

One writer per territory: lease and fence by leadership, OBSERVED by intake, LEDGER by apply. HISTORY gets rows from
both, and loses them by age (``queues.sql.history``). Intake locks the fence row shared, apply exclusively, so limits,
tree and balances cannot change while a ledger transaction runs.
"""

from collections.abc import MutableMapping
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

#: Every table is in it.
metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Columns with the times of an admission's stages after it was admitted, in their order.
STAGE_COLUMNS: Final = ("released_at", "bound_at", "running_at")


def string(name: str, **options: Any) -> Column[str]:
    """Words."""
    return Column(name, Text, nullable=False, **options)


def strings(*names: str) -> list[Column[str]]:
    """Words, by their columns."""
    return [string(name) for name in names]


def keys(*names: str) -> list[Column[str]]:
    """Words that are the primary key, or a part of it."""
    return [string(name, primary_key=True) for name in names]


def blank(name: str) -> Column[str]:
    """Words; "" where none are given."""
    return string(name, server_default=text("''"))


def number(name: str, **options: Any) -> Column[int]:
    """An amount, in units of ``queues.resources``, or another integer of 64 bits."""
    return Column(name, BigInteger, nullable=False, **options)


def numbers(*names: str) -> list[Column[int]]:
    """Numbers, by their columns."""
    return [number(name) for name in names]


def counts(*names: str) -> list[Column[int]]:
    """Numbers that begin at 0."""
    return [number(name, server_default=text("0")) for name in names]


def flag(name: str, default: bool) -> Column[bool]:
    """True or false."""
    return Column(name, Boolean, nullable=False, server_default=text("true" if default else "false"))


def moment(name: str, **options: Any) -> Column[Any]:
    """A point in time."""
    return Column(name, DateTime(timezone=True), nullable=False, **options)


def sometime(name: str, **options: Any) -> Column[Any]:
    """A point in time; null if it has not come, or is not known."""
    return Column(name, DateTime(timezone=True), **options)


def recorded(name: str) -> Column[Any]:
    """When the row was written, by the database's clock."""
    return moment(name, server_default=func.clock_timestamp())


def document(name: str) -> Column[Any]:
    """JSON, {} by default."""
    return Column(name, JSONB, nullable=False, server_default=text("'{}'::jsonb"))


def listing(name: str) -> Column[Any]:
    """A list as JSON, empty by default."""
    return Column(name, JSONB, nullable=False, server_default=text("'[]'::jsonb"))


def many(name: str, of: Any) -> Column[Any]:
    """A list, empty by default."""
    return Column(name, ARRAY(of), nullable=False, server_default=text("'{}'"))


def seats() -> list[Column[Any]]:
    """Element i of each list is about seat i."""
    return [
        many("pod_sets", Text),
        many("ordinals", Integer),
        many("nodes", Text),
        many("flavors", Text),
        #: Index into ``shapes``.
        many("shape_of", Integer),
        #: What a seat of each shape takes: [{resource: amount}].
        listing("shapes"),
    ]


def admission_facts() -> list[Column[Any]]:
    """What is known of an admission, whether it is closed or not, besides its id."""
    return [
        *strings("kind", "uid", "namespace", "name", "queue"),
        number("priority"),
        #: Of the workload as it was admitted.
        string("generation"),
        #: User that the seats are for; "": unknown.
        blank("username"),
        #: Every seat has had a bound pod.
        flag("started", default=False),
        #: Its pods have been ready together for a while.
        flag("ready", default=False),
        moment("opened_at"),
        #: Since when the workload holds seats without a break: the earliest opening of the admissions that it held when
        #: this one was opened.
        moment("held_since"),
        #: When it was committed, by the database's clock, to the millisecond.
        moment("admitted_at"),
        # By the leader's clock, to the millisecond: when its pods were handed to the scheduler, when every seat had a
        # bound pod, and when all these pods were ready. Null: not yet, or nothing saw it.
        *(sometime(name) for name in STAGE_COLUMNS),
        #: Of leadership.
        number("term"),
        *seats(),
        # Pods that ran before they were in the books: pod i has seat i of ``adopted_seats``.
        many("adopted_pods", Text),
        many("adopted_seats", Integer),
        # Why it is being taken back, or was.
        sometime("evicted_at"),
        *(
            Column(name, Text)
            for name in ("cause_code", "cause_message", "beneficiary_kind", "beneficiary_uid")
        ),
    ]


def table(name: str, *parts: Any, **options: Any) -> Table:
    """A table of these columns, with these constraints and indexes."""
    return Table(name, metadata, *parts, **options)


def is_ours(name: str | None, kind: str, parents: MutableMapping[Any, Any]) -> bool:
    """False for tables that are not declared here: partitions, and tables of another owner."""
    return kind != "table" or name in metadata.tables


# ── leadership: the lease of the leader, its heartbeat, the fence that every other writer locks first ────────────────

#: Only elections and renewals lock a row of it.
leases: Final = table(
    "leases",
    *keys("name"),
    string("holder"),
    #: Grows with every election.
    number("term"),
    moment("expires"),
)

fences: Final = table(
    "fences",
    #: Of the lease.
    *keys("name"),
    #: The term that may write.
    number("term"),
    #: Of the last ledger transaction. Goes on over terms.
    *counts("ledger_seq"),
)

ledger_ids: Final = table(
    "ledger_ids",
    #: One row only: always true.
    flag("single", True),
    string("id"),
    #: What the cluster has recorded, and what it gets next (``queues.ledger_record``).
    *(string(name, server_default=text("(gen_random_uuid())::text")) for name in ("nonce", "next_nonce")),
    CheckConstraint("single", name="single_row"),
    PrimaryKeyConstraint("single"),
)

heartbeats: Final = table(
    "heartbeats",
    #: Name of the lease.
    *keys("lease"),
    string("holder"),
    number("term"),
    #: When the cluster was as the tables say, by the database's clock.
    moment("current_at"),
    #: Why that is some time ago, as a sentence; "": nothing is behind.
    blank("behind"),
    #: Where other replicas reach the leader's read API: https://host:port; "": they do not.
    blank("address"),
)


# ── OBSERVED: what the cluster would forget, written by intake (``queues.sql.observed``) ─────────────────────────────

queues: Final = table(
    "queues",
    *keys("name"),
    blank("uid"),
    *counts("generation"),
    #: As its object says.
    Column("parent", Text),
    #: The queue that its use counts in: the parent, or root where the tree is broken; null: root itself.
    Column("counts_in", Text),
    #: What is wrong with its own document; null: nothing.
    Column("problem", Text),
    #: It, or the way up to root, cannot be used: it takes nothing new.
    flag("broken", default=False),
    #: False: its object is gone; the row stays while something is held.
    flag("present", default=True),
    flag("paused", default=False),
    flag("closed", default=False),
    document("document"),
    #: What its document says of how its workloads are served: order, ageing, policy, the longest run time.
    document("served"),
    blank("changed_by"),
    #: Plug-ins that it names and that are set aside, as ``PluginSetAside``.
    listing("plugins_set_aside"),
)

queue_versions: Final = table(
    "queue_versions",
    Column("version", BigInteger, Identity(always=True), primary_key=True),
    recorded("recorded_at"),
    *strings("queue", "uid"),
    number("generation"),
    string("changed_by"),
    document("document"),
    flag("removed", default=False),
    Index(None, "queue", "version"),
)

queue_limits: Final = table(
    "queue_limits",
    *keys("queue"),
    #: '' sums over all flavors.
    *keys("flavor", "resource"),
    # As written.
    Column("guarantee", BigInteger),
    Column("deserved", BigInteger),
    Column("capability", BigInteger),
    # What follows from them and the rest of the tree (queues.quota.tree), and is what counts: kept free for the
    # queue even while idle, and never exceeded (null: as much as the ancestors allow).
    *counts("keeps"),
    Column("ceiling", BigInteger),
    CheckConstraint("keeps >= 0", name="keeps_not_negative"),
)

nodes: Final = table(
    "nodes",
    *keys("name"),
    blank("flavor"),
    #: Ready, not cordoned, present: takes new seats.
    flag("usable", default=True),
    #: Why it takes no gangs all the same, in words: ''.
    blank("closed"),
    Index("ix_nodes_unusable", "name", postgresql_where=text("NOT usable")),
)

node_limits: Final = table(
    "node_limits",
    *keys("node", "resource"),
    #: Allocatable minus other people's pods.
    number("amount"),
)

capacity: Final = table(
    "capacity",
    #: '' sums over all nodes.
    *keys("flavor", "resource"),
    #: Sum over the limits of usable nodes: what bounds root.
    number("amount"),
)

arrival_numbers: Final = Sequence("arrival_numbers", metadata=metadata)

workloads: Final = table(
    "workloads",
    *keys("kind", "uid"),
    *strings("namespace", "name", "queue"),
    #: Order of arrival.
    number("arrival"),
    *counts("priority"),
    #: Seconds since the epoch, from the object.
    *counts("created"),
    number("minimum", server_default=text("1")),
    number("pods", server_default=text("1")),
    document("asks"),
    #: Whole devices that the gang needs to start (``queues.order.policies``).
    *counts("devices"),
    #: Declared, in seconds; null: none is.
    Column("run_time", BigInteger),
    #: Of a pod that waits alone: kind and name of what controls it, such as deployment/web; "": nothing does.
    blank("owner"),
    #: Ended, or a group that waits for nothing until there are further pods, though its object is still there.
    flag("finished", default=False),
    #: The user that created it; "": unknown.
    blank("username"),
    #: Image of its pods' first container, at most 200 characters; "": unknown.
    blank("image"),
    #: Values that it states and that cannot be read, a sentence a line; "": none.
    blank("ignored_values"),
    #: What is to be known of it while it runs, a sentence a line; "": nothing.
    blank("notes"),
    #: How it ended (``queues.workload.Result``); "" if it has not, or if that is not known.
    blank("result"),
    #: Seconds since the epoch: when it was seen to have ended; 0 if it has not, or if that is not known.
    *counts("finished_at"),
    #: When Muster first stored it.
    recorded("seen_at"),
    Index(None, "namespace", "name"),
    #: What there is in which namespace, without reading all.
    Index(None, "namespace", "kind"),
    Index(None, "queue", "arrival"),
)

outcomes: Final = table(
    "outcomes",
    *keys("pod_uid"),
    *strings("kind", "uid", "pod_set"),
    number("ordinal"),
    string("phase"),
    Column("exit_code", Integer),
    *counts("version"),
    recorded("recorded_at"),
    Index(None, "kind", "uid"),
    CheckConstraint("phase IN ('Succeeded', 'Failed')", name="phase_is_terminal"),
)

recreations: Final = table(
    "recreations",
    *keys("pod_uid"),
    *strings("kind", "uid", "namespace", "name", "queue"),
    #: JSON as text: it may hold the character NUL, escaped.
    string("manifest"),
)


# ── LEDGER: admissions that hold something, balances and claims, and why workloads wait ──────────────────────────────

queue_balances: Final = table(
    "queue_balances",
    *keys("queue", "flavor", "resource"),
    #: By admissions of the queue itself.
    *counts("own"),
    #: With everything below.
    *counts("used"),
    #: own + Σ over children of max(counted, guarantee): what limits are held against.
    *counts("counted"),
    CheckConstraint("own >= 0", name="own_not_negative"),
    CheckConstraint("used >= own", name="used_holds_own"),
    CheckConstraint("counted >= used", name="counted_holds_used"),
)

node_balances: Final = table(
    "node_balances",
    *keys("node", "resource"),
    *counts("used"),
    CheckConstraint("used >= 0", name="used_not_negative"),
)

admissions: Final = table(
    "admissions",
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    *admission_facts(),
    #: open | evicting. One that closes moves to ``closed_admissions``.
    string("state", server_default=text("'open'")),
    #: Pods that had to start together when the workload was admitted.
    *counts("minimum"),
    #: Indices of seats that are given back.
    many("ended", Integer),
    CheckConstraint("state IN ('open', 'evicting')", name="state_is_known"),
    CheckConstraint(
        "cardinality(pod_sets) = cardinality(ordinals) AND cardinality(pod_sets) = cardinality(nodes)"
        " AND cardinality(pod_sets) = cardinality(flavors) AND cardinality(pod_sets) = cardinality(shape_of)"
        " AND cardinality(ended) <= cardinality(pod_sets)",
        name="lists_are_about_the_same_seats",
    ),
    Index(None, "kind", "uid"),
)

backoffs: Final = table(
    "backoffs",
    *keys("kind", "uid"),
    #: Seconds since the epoch.
    *counts("not_before", "rollbacks"),
    #: Evictions for other workloads.
    *counts("evictions"),
    #: Seconds since the epoch: of the last of these; 0: there was none.
    *counts("waiting_since"),
    #: Times that its pods were not ready in time, of what revision of its object; and which pods the last time.
    *counts("unready"),
    blank("unready_revision"),
    blank("unready_message"),
)

claims: Final = table(
    "claims",
    # The beneficiary.
    *keys("kind", "uid"),
    *strings("queue", "generation"),
    #: Seconds since the epoch.
    number("until"),
    #: Ids of admissions.
    many("victims", BigInteger),
    *seats(),
)

reasons: Final = table(
    "reasons",
    *keys("kind", "uid"),
    *strings("code", "message"),
    document("facts"),
    #: Since when with this code.
    moment("since"),
)

job_states: Final = table(
    "job_states",
    *keys("kind", "uid"),
    document("state"),
)


# ── HISTORY: what happened, one partition a week, and what is summed up of it ────────────────────────────────────────

#: Partitioned tables, by the column that decides; each has a DEFAULT partition as well.
PARTITIONED: Final = {
    "postings": "posted_at",
    "decisions": "decided_at",
    "ended_workloads": "ended_at",
    "closed_admissions": "closed_at",
}


def _partitioned(name: str) -> dict[str, Any]:
    return {"postgresql_partition_by": f"RANGE ({PARTITIONED[name]})"}


postings: Final = table(
    "postings",
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("posted_at", primary_key=True),
    *numbers("ledger_seq", "term"),
    #: admit | adopt | free | carry (held when the partition before ended, which was dropped)
    string("kind"),
    #: 0: of none (carry).
    number("admission"),
    #: User that the seats are for; "": unknown.
    blank("username"),
    # Double entry: what the debit account takes, the credit account gives. 'queue/<name>' or 'pool'.
    *strings("debit", "credit"),
    # Element i of each list is one amount, in the flavor that the seats really have.
    many("flavors", Text),
    many("resources", Text),
    many("amounts", BigInteger),
    CheckConstraint("debit <> credit", name="two_accounts"),
    CheckConstraint("0 <= ALL (amounts)", name="amounts_not_negative"),
    Index(None, "admission"),
    **_partitioned("postings"),
)

decisions: Final = table(
    "decisions",
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("decided_at", primary_key=True),
    *numbers("ledger_seq", "term"),
    *strings("kind", "workload_kind", "workload_uid", "namespace", "name", "queue", "code", "message"),
    Column("admission", BigInteger),
    *(Column(name, Text) for name in ("beneficiary_kind", "beneficiary_uid")),
    document("numbers"),
    Index(None, "workload_kind", "workload_uid"),
    Index(None, "namespace", "name"),
    **_partitioned("decisions"),
)

ended_workloads: Final = table(
    "ended_workloads",
    *keys("kind", "uid"),
    moment("ended_at", primary_key=True),
    *strings("namespace", "name", "queue"),
    *numbers("arrival", "priority", "created", "minimum", "pods"),
    document("asks"),
    #: Rows of ``outcomes`` as they were, oldest first.
    listing("outcomes"),
    # As in ``workloads``.
    *strings("username", "image", "result"),
    number("finished_at"),
    moment("seen_at"),
    Index(None, "namespace", "name"),
    #: As in ``workloads``.
    Index(None, "namespace", "kind"),
    **_partitioned("ended_workloads"),
)

closed_admissions: Final = table(
    "closed_admissions",
    #: As in ``admissions``; all of its seats are given back.
    number("id", primary_key=True),
    moment("closed_at", primary_key=True),
    *admission_facts(),
    Index(None, "kind", "uid"),
    Index(None, "namespace", "name"),
    **_partitioned("closed_admissions"),
)

history_starts: Final = table(
    "history_starts",
    #: A partitioned table.
    *keys("history"),
    #: Older rows were dropped. No row: none was ever dropped.
    moment("begins_at"),
)

past_use_marks: Final = table(
    "past_use_marks",
    #: Seconds.
    number("half_life", primary_key=True),
    #: Every posting up to this id is in ``past_use_sums``.
    number("posting"),
    #: Of the postings of the kind ``carry`` only those up to this id: the others repeat what is in the sums.
    number("carried"),
)

past_use_sums: Final = table(
    "past_use_sums",
    number("half_life", primary_key=True),
    *keys("queue", "username", "flavor", "resource"),
    #: Seconds since the epoch ÷ half-life.
    number("block", primary_key=True),
    #: Σ ± amount × weight (``queues.quota.decayed_usage``), of more digits than 64 bits hold.
    Column("units", Numeric, nullable=False),
)
