"""The tables, by territory. Amounts are exact integers in units of ``queues.resources``.

One writer per territory: the lease row by leadership, OBSERVED by intake (``observed``), LEDGER by apply
(``ledger``). Whoever writes holds the lease row, intake shared and apply alone, so a ledger transaction sees
limits, tree and balances that nobody else changes until it commits.
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
    Sequence,
    SmallInteger,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str, **options: Any) -> Column[str]:
    return Column(name, Text, nullable=False, **options)


def _number(name: str, **options: Any) -> Column[int]:
    return Column(name, BigInteger, nullable=False, **options)


def _count(name: str) -> Column[int]:
    return _number(name, server_default=text("0"))


def _flag(name: str, default: bool) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("true" if default else "false"))


def _moment(name: str, **options: Any) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=False, **options)


def _now(name: str) -> Column[Any]:
    return _moment(name, server_default=func.clock_timestamp())


def _json(name: str) -> Column[Any]:
    return Column(name, JSONB, nullable=False, server_default=text("'{}'::jsonb"))


def _list(name: str, of: Any) -> Column[Any]:
    return Column(name, ARRAY(of), nullable=False, server_default=text("'{}'"))


def _seats() -> list[Column[Any]]:
    """Element i of each list is about seat i."""
    return [
        _list("pod_sets", Text),
        _list("ordinals", Integer),
        _list("nodes", Text),
        _list("flavors", Text),
        #: Index into ``shapes``.
        _list("shape_of", SmallInteger),
        #: What a seat of each shape takes: [{resource: amount}].
        Column("shapes", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    ]


#: Tables of which there is one part a month, by the column that decides; each has a DEFAULT part as well.
PARTITIONED: Final = {"postings": "posted_at", "decisions": "decided_at", "ended_workloads": "ended_at"}


def _partitioned(name: str) -> dict[str, Any]:
    return {"postgresql_partition_by": f"RANGE ({PARTITIONED[name]})"}


# --- leadership ----------------------------------------------------------------------------------------

leases: Final = Table(
    "leases",
    metadata,
    _text("name", primary_key=True),
    _text("holder"),
    #: Grows with every election.
    _number("term"),
    _moment("expires"),
    #: Of the last ledger transaction. Goes on over terms.
    _count("ledger_seq"),
)

# --- OBSERVED: queues ----------------------------------------------------------------------------------

queues: Final = Table(
    "queues",
    metadata,
    _text("name", primary_key=True),
    _text("uid", server_default=text("''")),
    _count("generation"),
    #: As its object says.
    Column("parent", Text),
    #: The queue that its use counts in: the parent, or root where the tree is broken; null: root itself.
    Column("counts_in", Text),
    #: What is wrong with its own document; null: nothing.
    Column("problem", Text),
    #: It, or the way up to root, cannot be used: it takes nothing new.
    _flag("broken", default=False),
    #: False: its object is gone; the row stays while something is held.
    _flag("present", default=True),
    _flag("paused", default=False),
    _flag("closed", default=False),
    _json("document"),
    _text("changed_by", server_default=text("''")),
)

queue_versions: Final = Table(
    "queue_versions",
    metadata,
    Column("version", BigInteger, Identity(always=True), primary_key=True),
    _now("recorded_at"),
    _text("queue"),
    _text("uid"),
    _number("generation"),
    _text("changed_by"),
    _json("document"),
    _flag("removed", default=False),
    Index(None, "queue", "version"),
)

queue_limits: Final = Table(
    "queue_limits",
    metadata,
    _text("queue", primary_key=True),
    #: '' sums over all flavors.
    _text("flavor", primary_key=True),
    _text("resource", primary_key=True),
    # As written.
    Column("guarantee", BigInteger),
    Column("deserved", BigInteger),
    Column("capability", BigInteger),
    # What follows from them and the rest of the tree (queues.quota), and is what counts: kept free for the
    # queue even while idle, and never exceeded (null: as much as the ancestors allow).
    _count("keeps"),
    Column("ceiling", BigInteger),
    CheckConstraint("keeps >= 0", name="keeps_not_negative"),
)

# --- OBSERVED: nodes -----------------------------------------------------------------------------------

nodes: Final = Table(
    "nodes",
    metadata,
    _text("name", primary_key=True),
    _text("flavor", server_default=text("''")),
    #: Ready, not cordoned, present: takes new seats.
    _flag("usable", default=True),
    Index("ix_nodes_unusable", "name", postgresql_where=text("NOT usable")),
)

node_limits: Final = Table(
    "node_limits",
    metadata,
    _text("node", primary_key=True),
    _text("resource", primary_key=True),
    #: Allocatable minus other people's pods.
    _number("amount"),
)

capacity: Final = Table(
    "capacity",
    metadata,
    #: '' sums over all nodes.
    _text("flavor", primary_key=True),
    _text("resource", primary_key=True),
    #: Sum over the limits of usable nodes: what bounds root.
    _number("amount"),
)

# --- OBSERVED: workloads -------------------------------------------------------------------------------

arrival_numbers: Final = Sequence("arrival_numbers", metadata=metadata)

workloads: Final = Table(
    "workloads",
    metadata,
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    _text("namespace"),
    _text("name"),
    _text("queue"),
    #: Who came first.
    _number("arrival"),
    _count("priority"),
    #: Seconds since the epoch, from the object.
    _count("created"),
    _number("minimum", server_default=text("1")),
    _number("pods", server_default=text("1")),
    _json("asks"),
    #: Whole devices that the gang needs to start (``queues.precedence``).
    _count("devices"),
    #: Declared, in seconds; null: none is.
    Column("run_time", BigInteger),
    #: Ended, though its object is still there.
    _flag("finished", default=False),
    Index(None, "namespace", "name"),
    Index(None, "queue", "arrival"),
)

outcomes: Final = Table(
    "outcomes",
    metadata,
    _text("pod_uid", primary_key=True),
    _text("kind"),
    _text("uid"),
    _text("pod_set"),
    _number("ordinal"),
    _text("phase"),
    Column("exit_code", Integer),
    _count("version"),
    _now("recorded_at"),
    Index(None, "kind", "uid"),
    CheckConstraint("phase IN ('Succeeded', 'Failed')", name="phase_is_terminal"),
)

recreations: Final = Table(
    "recreations",
    metadata,
    _text("pod_uid", primary_key=True),
    _text("kind"),
    _text("uid"),
    _text("namespace"),
    _text("name"),
    _text("queue"),
    #: JSON as text: it may hold the character NUL, escaped.
    _text("manifest"),
    _now("stored_at"),
)

# --- LEDGER: balances ----------------------------------------------------------------------------------

queue_balances: Final = Table(
    "queue_balances",
    metadata,
    _text("queue", primary_key=True),
    _text("flavor", primary_key=True),
    _text("resource", primary_key=True),
    #: By admissions of the queue itself.
    _count("own"),
    #: With everything below.
    _count("used"),
    #: own + Σ over children of max(counted, guarantee): what limits are held against.
    _count("counted"),
    CheckConstraint("own >= 0", name="own_not_negative"),
    CheckConstraint("used >= own", name="used_holds_own"),
    CheckConstraint("counted >= used", name="counted_holds_used"),
)

node_balances: Final = Table(
    "node_balances",
    metadata,
    _text("node", primary_key=True),
    _text("resource", primary_key=True),
    _count("used"),
    CheckConstraint("used >= 0", name="used_not_negative"),
)

# --- LEDGER: admissions --------------------------------------------------------------------------------

admissions: Final = Table(
    "admissions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _text("kind"),
    _text("uid"),
    _text("namespace"),
    _text("name"),
    _text("queue"),
    _number("priority"),
    #: Of the workload as it was admitted.
    _text("generation"),
    #: Who asked; "": unknown.
    _text("username", server_default=text("''")),
    #: open | evicting | closed
    _text("state", server_default=text("'open'")),
    #: Every seat has had a bound pod.
    _flag("started", default=False),
    _moment("opened_at"),
    Column("closed_at", DateTime(timezone=True)),
    #: Of leadership.
    _number("term"),
    *_seats(),
    #: Indices of seats that are given back.
    _list("ended", Integer),
    # Pods that ran before they were in the books: pod i has seat i of ``adopted_seats``.
    _list("adopted_pods", Text),
    _list("adopted_seats", Integer),
    # Why it is being taken back.
    Column("evicted_at", DateTime(timezone=True)),
    Column("cause_code", Text),
    Column("cause_message", Text),
    Column("beneficiary_kind", Text),
    Column("beneficiary_uid", Text),
    CheckConstraint("state IN ('open', 'evicting', 'closed')", name="state_is_known"),
    CheckConstraint("(state = 'closed') = (closed_at IS NOT NULL)", name="closed_has_a_time"),
    CheckConstraint(
        "cardinality(pod_sets) = cardinality(ordinals) AND cardinality(pod_sets) = cardinality(nodes)"
        " AND cardinality(pod_sets) = cardinality(flavors) AND cardinality(pod_sets) = cardinality(shape_of)"
        " AND cardinality(ended) <= cardinality(pod_sets)",
        name="lists_are_about_the_same_seats",
    ),
    Index(None, "kind", "uid"),
    Index("ix_admissions_open", "id", postgresql_where=text("state <> 'closed'")),
)

backoffs: Final = Table(
    "backoffs",
    metadata,
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    #: Seconds since the epoch.
    _count("not_before"),
    _count("rollbacks"),
    #: For others.
    _count("evictions"),
    #: Seconds since the epoch: of the last of these; 0: there was none.
    _count("waiting_since"),
)

claims: Final = Table(
    "claims",
    metadata,
    # The beneficiary.
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    _text("queue"),
    _text("generation"),
    #: Seconds since the epoch.
    _number("until"),
    #: Ids of admissions.
    _list("victims", BigInteger),
    *_seats(),
)

reasons: Final = Table(
    "reasons",
    metadata,
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    _text("code"),
    _text("message"),
    _json("facts"),
    #: Since when with this code.
    _moment("since"),
)

job_states: Final = Table(
    "job_states",
    metadata,
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    _json("state"),
    _moment("changed_at"),
)

# --- LEDGER: history, one part a month -----------------------------------------------------------------

postings: Final = Table(
    "postings",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _moment("posted_at", primary_key=True),
    _number("ledger_seq"),
    _number("term"),
    #: admit | adopt | free
    _text("kind"),
    _number("admission"),
    #: Who asked; "": unknown.
    _text("username", server_default=text("''")),
    # Double entry: what the debit account takes, the credit account gives. 'queue/<name>' or 'pool'.
    _text("debit"),
    _text("credit"),
    # Element i of each list is one amount, in the flavor that the seats really have.
    _list("flavors", Text),
    _list("resources", Text),
    _list("amounts", BigInteger),
    CheckConstraint("debit <> credit", name="two_accounts"),
    CheckConstraint("0 <= ALL (amounts)", name="amounts_not_negative"),
    Index(None, "admission"),
    **_partitioned("postings"),
)

decisions: Final = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _moment("decided_at", primary_key=True),
    _number("ledger_seq"),
    _number("term"),
    _text("kind"),
    _text("workload_kind"),
    _text("workload_uid"),
    _text("namespace"),
    _text("name"),
    _text("queue"),
    _text("code"),
    _text("message"),
    Column("admission", BigInteger),
    Column("beneficiary_kind", Text),
    Column("beneficiary_uid", Text),
    _json("numbers"),
    Index(None, "workload_kind", "workload_uid"),
    Index(None, "namespace", "name"),
    **_partitioned("decisions"),
)

ended_workloads: Final = Table(
    "ended_workloads",
    metadata,
    _text("kind", primary_key=True),
    _text("uid", primary_key=True),
    _moment("ended_at", primary_key=True),
    _text("namespace"),
    _text("name"),
    _text("queue"),
    _number("arrival"),
    _number("priority"),
    _number("created"),
    _number("pods"),
    _json("asks"),
    # Rows of ``admissions`` and ``outcomes`` as they were, oldest first.
    Column("admissions", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("outcomes", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Index(None, "namespace", "name"),
    **_partitioned("ended_workloads"),
)


def is_ours(name: str | None, kind: str, parents: MutableMapping[Any, Any]) -> bool:
    """For comparisons with a database: not the monthly parts, nor what others keep there."""
    return kind != "table" or name in metadata.tables
