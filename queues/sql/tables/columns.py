"""The schema as SQLAlchemy knows it, and the kinds of columns that its tables are made of."""

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, MetaData, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

#: Every table of this package is in it.
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
STAGES: Final = ("released_at", "bound_at", "running_at")


def string(name: str, **options: Any) -> Column[str]:
    """Words."""
    return Column(name, Text, nullable=False, **options)


def number(name: str, **options: Any) -> Column[int]:
    """An amount, in units of ``queues.resources``, or another integer of 64 bits."""
    return Column(name, BigInteger, nullable=False, **options)


def count(name: str) -> Column[int]:
    """A number that begins at 0."""
    return number(name, server_default=text("0"))


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
        Column("shapes", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    ]


def admission_facts() -> list[Column[Any]]:
    """What is known of an admission, whether it is closed or not, besides its id."""
    return [
        string("kind"),
        string("uid"),
        string("namespace"),
        string("name"),
        string("queue"),
        number("priority"),
        #: Of the workload as it was admitted.
        string("generation"),
        #: User that the seats are for; "": unknown.
        string("username", server_default=text("''")),
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
        *(sometime(name) for name in STAGES),
        #: Of leadership.
        number("term"),
        *seats(),
        # Pods that ran before they were in the books: pod i has seat i of ``adopted_seats``.
        many("adopted_pods", Text),
        many("adopted_seats", Integer),
        # Why it is being taken back, or was.
        sometime("evicted_at"),
        Column("cause_code", Text),
        Column("cause_message", Text),
        Column("beneficiary_kind", Text),
        Column("beneficiary_uid", Text),
    ]
