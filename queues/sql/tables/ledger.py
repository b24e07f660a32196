"""LEDGER: admissions that hold something, balances and claims, and why workloads wait.

Written by apply (``queues.sql.ledger``).
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    Table,
    text,
)

from queues.sql.tables.columns import (
    admission_facts,
    count,
    document,
    many,
    metadata,
    moment,
    number,
    seats,
    string,
)

queue_balances: Final = Table(
    "queue_balances",
    metadata,
    string("queue", primary_key=True),
    string("flavor", primary_key=True),
    string("resource", primary_key=True),
    #: By admissions of the queue itself.
    count("own"),
    #: With everything below.
    count("used"),
    #: own + Σ over children of max(counted, guarantee): what limits are held against.
    count("counted"),
    CheckConstraint("own >= 0", name="own_not_negative"),
    CheckConstraint("used >= own", name="used_holds_own"),
    CheckConstraint("counted >= used", name="counted_holds_used"),
)

node_balances: Final = Table(
    "node_balances",
    metadata,
    string("node", primary_key=True),
    string("resource", primary_key=True),
    count("used"),
    CheckConstraint("used >= 0", name="used_not_negative"),
)

admissions: Final = Table(
    "admissions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    *admission_facts(),
    #: open | evicting. One that closes moves to ``closed_admissions``.
    string("state", server_default=text("'open'")),
    #: Pods that had to start together when the workload was admitted.
    count("minimum"),
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

backoffs: Final = Table(
    "backoffs",
    metadata,
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    #: Seconds since the epoch.
    count("not_before"),
    count("rollbacks"),
    #: Evictions for other workloads.
    count("evictions"),
    #: Seconds since the epoch: of the last of these; 0: there was none.
    count("waiting_since"),
    #: Times that its pods were not ready in time, of what revision of its object; and which pods the last time.
    count("unready"),
    string("unready_revision", server_default=text("''")),
    string("unready_message", server_default=text("''")),
)

claims: Final = Table(
    "claims",
    metadata,
    # The beneficiary.
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    string("queue"),
    string("generation"),
    #: Seconds since the epoch.
    number("until"),
    #: Ids of admissions.
    many("victims", BigInteger),
    *seats(),
)

reasons: Final = Table(
    "reasons",
    metadata,
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    string("code"),
    string("message"),
    document("facts"),
    #: Since when with this code.
    moment("since"),
)

job_states: Final = Table(
    "job_states",
    metadata,
    string("kind", primary_key=True),
    string("uid", primary_key=True),
    document("state"),
)
