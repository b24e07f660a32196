"""Users: what the work of each holds and waits for now, summed up by Postgres."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, any_, cast, func, not_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import is_device
from queues.sql.read.pending import WAITS, WORKLOADS_WITH_REASONS, may_see
from queues.sql.read.rows import Seen, UserLine
from queues.sql.statements import one_of
from queues.sql.tables import admissions, workloads
from queues.workload import QueueName


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
