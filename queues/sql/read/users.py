"""Users: what the work of each holds and waits for now, summed up by Postgres."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, and_, any_, bindparam, cast, func, not_, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import is_device
from queues.sql.read.pending import WAITS, WORKLOADS_WITH_REASONS, may_see
from queues.sql.read.rows import Seen, UserLine
from queues.sql.read.world import seconds_of
from queues.sql.statements import MOMENT, TEXT, TEXTS, moment, one_of
from queues.sql.tables import admissions, workloads
from queues.workload import QueueName

#: Newest postings that are read for past use; where more of them are younger than is asked for, it is not shown.
READ: Final = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """Whose work is summed up."""

    #: None for work of all queues.
    queues: Collection[QueueName] | None
    #: The user who asks: all work of that user counts, and of others what is ``seen``.
    user: str
    seen: Seen | None = None


async def users(tx: AsyncConnection, question: UserQuestion) -> tuple[UserLine, ...]:
    """Users with work that waits or holds seats, by name. A user that is not known is ""."""
    admitted: dict[str, int] = {row[0]: row[1] for row in await tx.execute(_admitted(question))}
    pending: dict[str, int] = {row[0]: row[1] for row in await tx.execute(_pending(question))}
    used: dict[str, dict[str, int]] = {}
    for user, resource, units in await tx.execute(_used(question)):
        if not is_device(resource):
            used.setdefault(user, {})[resource] = int(units)
    return tuple(
        UserLine(
            user=user, used=used.get(user, {}), pending=pending.get(user, 0), admitted=admitted.get(user, 0)
        )
        for user in sorted({*admitted, *pending, *used})
    )


def _counts(columns: Any, question: UserQuestion) -> ColumnElement[bool]:
    """Whether a row counts."""
    mine = columns.username == question.user
    counts = or_(mine, may_see(columns, question.seen)) if question.user else may_see(columns, question.seen)
    return counts if question.queues is None else and_(counts, one_of(columns.queue, question.queues))


def _admitted(question: UserQuestion) -> Any:
    one = func.concat(admissions.c.kind, admissions.c.uid)
    return (
        select(admissions.c.username, func.count(func.distinct(one)))
        .where(_counts(admissions.c, question))
        .group_by(admissions.c.username)
    )


def _pending(question: UserQuestion) -> Any:
    return (
        select(workloads.c.username, func.count())
        .select_from(WORKLOADS_WITH_REASONS)
        .where(WAITS, _counts(workloads.c, question))
        .group_by(workloads.c.username)
    )


def _used(question: UserQuestion) -> Any:
    """Amounts by user and resource: seats of one shape are counted before their shape is taken apart."""
    seat = (
        func.unnest(admissions.c.shape_of)
        .table_valued("shape", with_ordinality="place", joins_implicitly=True)
        .render_derived(name="seat")
    )
    is_given_back = seat.c.place - 1 == any_(admissions.c.ended)
    held = (
        select(
            admissions.c.username,
            admissions.c.shapes.op("->")(seat.c.shape).label("shape"),
            func.count().label("times"),
        )
        .where(_counts(admissions.c, question), not_(is_given_back))
        .group_by(admissions.c.id, seat.c.shape)
        .subquery("held")
    )
    amount = (
        func.jsonb_each_text(held.c.shape)
        .table_valued("key", "value", joins_implicitly=True)
        .render_derived(name="amount")
    )
    units = func.sum(held.c.times * cast(amount.c.value, BigInteger))
    return select(held.c.username, amount.c.key, units).group_by(held.c.username, amount.c.key)


async def hidden_work(tx: AsyncConnection, queues: Collection[QueueName] | None, seen: Seen | None) -> bool:
    """Whether work waits or holds seats in these queues (in any if None) that may not be seen."""
    if seen is None:
        return False
    for columns, rows in (
        (admissions.c, select(admissions.c.uid)),
        (workloads.c, select(workloads.c.uid).select_from(WORKLOADS_WITH_REASONS).where(WAITS)),
    ):
        hidden = rows.where(not_(may_see(columns, seen))).limit(1)
        if queues is not None:
            hidden = hidden.where(one_of(columns.queue, queues))
        if await tx.scalar(hidden) is not None:
            return True
    return False


_CHANGES: Final = text(
    """
    SELECT username, line.resource,
           sum(CASE kind WHEN 'free' THEN -line.amount ELSE line.amount END
               * extract(epoch FROM posted_at - :since)) AS unit_seconds
    FROM postings, unnest(resources, amounts) AS line(resource, amount)
    WHERE id > (SELECT coalesce(max(id), 0) FROM postings) - :read AND posted_at >= :since AND kind <> 'carry'
      AND (:accounts IS NULL OR debit = ANY(:accounts) OR credit = ANY(:accounts))
      AND (:username IS NULL OR username = :username) AND line.resource LIKE '%/%'
    GROUP BY 1, 2
    """
).bindparams(
    bindparam("since", type_=MOMENT),
    bindparam("accounts", type_=TEXTS),
    bindparam("username", type_=TEXT),
)
_LAST_UNREAD: Final = text(
    "SELECT posted_at FROM postings WHERE id <= (SELECT max(id) FROM postings) - :read ORDER BY id DESC LIMIT 1"
)


async def device_seconds(
    tx: AsyncConnection,
    held: Mapping[str, Mapping[str, int]],
    *,
    queues: Collection[QueueName] | None,
    user: str | None,
    since: int,
    now: int,
) -> dict[str, dict[str, int]] | None:
    """What users held of devices since a time, in units × seconds by user and resource.

    ``held``: what they hold now. ``user``: only this one; None for all. The result is None if too much has happened
    since then to read it for one answer.
    """
    unread = await tx.scalar(_LAST_UNREAD, {"read": READ})
    if unread is not None and seconds_of(unread) >= since:
        return None
    # What is held now, less what came since then for the time before it came, was held all that while.
    found = {
        name: {resource: units * (now - since) for resource, units in amounts.items() if "/" in resource}
        for name, amounts in held.items()
        if user in (None, name)
    }
    accounts = None if queues is None else [f"queue/{queue}" for queue in queues]
    given = {"read": READ, "since": moment(since), "accounts": accounts, "username": user}
    for name, resource, unit_seconds in await tx.execute(_CHANGES, given):
        if not is_device(resource):
            of_user = found.setdefault(name, {})
            of_user[resource] = of_user.get(resource, 0) - int(unit_seconds)
    return {
        name: {resource: units for resource, units in sorted(amounts.items()) if units > 0}
        for name, amounts in found.items()
    }
