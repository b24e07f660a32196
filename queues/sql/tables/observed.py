"""OBSERVED: what the cluster would forget. Written by intake (``queues.sql.observed.workloads``)."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    Sequence,
    Table,
    Text,
    text,
)

from queues.sql.tables.columns import count, document, flag, metadata, number, recorded, string

queues: Final = Table(
    "queues",
    metadata,
    string("name", primary_key=True),
    string("uid", server_default=text("''")),
    count("generation"),
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
    string("changed_by", server_default=text("''")),
)

queue_versions: Final = Table(
    "queue_versions",
    metadata,
    Column("version", BigInteger, Identity(always=True), primary_key=True),
    recorded("recorded_at"),
    string("queue"),
    string("uid"),
    number("generation"),
    string("changed_by"),
    document("document"),
    flag("removed", default=False),
    Index(None, "queue", "version"),
)

queue_limits: Final = Table(
    "queue_limits",
    metadata,
    string("queue", primary_key=True),
    #: '' sums over all flavors.
    string("flavor", primary_key=True),
    string("resource", primary_key=True),
    # As written.
    Column("guarantee", BigInteger),
    Column("deserved", BigInteger),
    Column("capability", BigInteger),
    # What follows from them and the rest of the tree (queues.quota.tree), and is what counts: kept free for the
    # queue even while idle, and never exceeded (null: as much as the ancestors allow).
    count("keeps"),
    Column("ceiling", BigInteger),
    CheckConstraint("keeps >= 0", name="keeps_not_negative"),
)

nodes: Final = Table(
    "nodes",
    metadata,
    string("name", primary_key=True),
    string("flavor", server_default=text("''")),
    #: Ready, not cordoned, present: takes new seats.
    flag("usable", default=True),
    #: Why it takes no gangs all the same, in words: ''.
    string("closed", server_default=text("''")),
    Index("ix_nodes_unusable", "name", postgresql_where=text("NOT usable")),
)

node_limits: Final = Table(
    "node_limits",
    metadata,
    string("node", primary_key=True),
    string("resource", primary_key=True),
    #: Allocatable minus other people's pods.
    number("amount"),
)

capacity: Final = Table(
    "capacity",
    metadata,
    #: '' sums over all nodes.
    string("flavor", primary_key=True),
    string("resource", primary_key=True),
    #: Sum over the limits of usable nodes: what bounds root.
    number("amount"),
)

arrival_numbers: Final = Sequence("arrival_numbers", metadata=metadata)

workloads: Final = Table(
    "workloads",
    metadata,
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    string("namespace"),
    string("name"),
    string("queue"),
    #: Order of arrival.
    number("arrival"),
    count("priority"),
    #: Seconds since the epoch, from the object.
    count("created"),
    number("minimum", server_default=text("1")),
    number("pods", server_default=text("1")),
    document("asks"),
    #: Whole devices that the gang needs to start (``queues.order.policies``).
    count("devices"),
    #: Declared, in seconds; null: none is.
    Column("run_time", BigInteger),
    #: Of a pod that waits alone: kind and name of what controls it, such as deployment/web; "": nothing does.
    string("owner", server_default=text("''")),
    #: Ended, or a group that waits for nothing until there are further pods, though its object is still there.
    flag("finished", default=False),
    #: The user that created it; "": unknown.
    string("username", server_default=text("''")),
    #: Image of its pods' first container, at most 200 characters; "": unknown.
    string("image", server_default=text("''")),
    #: Values that it states and that cannot be read, a sentence a line; "": none.
    string("ignored_values", server_default=text("''")),
    #: How it ended (``queues.workload.Result``); "" if it has not, or if that is not known.
    string("result", server_default=text("''")),
    #: Seconds since the epoch: when it was seen to have ended; 0 if it has not, or if that is not known.
    count("finished_at"),
    #: When Muster first stored it.
    recorded("seen_at"),
    Index(None, "namespace", "name"),
    #: What there is in which namespace, without reading all.
    Index(None, "namespace", "kind"),
    Index(None, "queue", "arrival"),
)

outcomes: Final = Table(
    "outcomes",
    metadata,
    string("pod_uid", primary_key=True),
    string("kind"),
    string("uid"),
    string("pod_set"),
    number("ordinal"),
    string("phase"),
    Column("exit_code", Integer),
    count("version"),
    recorded("recorded_at"),
    Index(None, "kind", "uid"),
    CheckConstraint("phase IN ('Succeeded', 'Failed')", name="phase_is_terminal"),
)

recreations: Final = Table(
    "recreations",
    metadata,
    string("pod_uid", primary_key=True),
    string("kind"),
    string("uid"),
    string("namespace"),
    string("name"),
    string("queue"),
    #: JSON as text: it may hold the character NUL, escaped.
    string("manifest"),
)
