"""What was used in the past, from the postings: at the start of a term, and when half-lives are other ones."""

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Integer,
    Numeric,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.past_use import SLOTS, Holder, oldest_block, weigh_slot
from queues.quota import Account
from queues.sql.given import MOMENT, moment
from queues.sql.tables import postings
from queues.workload import NO_FLAVOR, FlavorName, QueueName

_ACCOUNT = "queue/"
_QUEUES = bindparam("queues", type_=ARRAY(Text))
_HALF_LIFE = bindparam("half_life", type_=BigInteger)
_SINCE = bindparam("since", type_=MOMENT)

_line = func.unnest(postings.c.flavors, postings.c.resources, postings.c.amounts).table_valued(
    column("flavor", Text), column("resource", Text), column("amount", BigInteger)
)
_line = _line.render_derived(name="line")
_given = postings.c.kind == "free"
_account = case((_given, postings.c.credit), else_=postings.c.debit)
_second = cast(func.extract("epoch", postings.c.posted_at), BigInteger)
_inside = (_second % _HALF_LIFE) * SLOTS
_units = case((_given, -_line.c.amount), else_=_line.c.amount)
#: Sums by slot, in the database: of a hundred thousand postings of a queue few rows remain.
_SUMS = (
    select(
        _account.label("account"),
        postings.c.username,
        _line.c.flavor,
        _line.c.resource,
        # Of whole numbers above 0, so it rounds down.
        _second.op("/")(_HALF_LIFE).label("block"),
        cast(_inside.op("/")(_HALF_LIFE), Integer).label("slot"),
        func.sum(_units).label("units"),
        # Of bytes and seconds, which a bigint may not hold.
        func.sum(cast(_units, Numeric) * (_inside % _HALF_LIFE)).label("lag"),
    )
    .select_from(postings)
    .join(_line, true())
    .where(and_(postings.c.posted_at >= _SINCE, _account == func.any(_QUEUES)))
    .group_by("account", postings.c.username, _line.c.flavor, _line.c.resource, "block", "slot")
)


async def past_use(
    tx: AsyncConnection, half_lives: Mapping[QueueName, frozenset[int]], now: int
) -> dict[Holder, dict[Account, dict[int, int]]]:
    """The past of these queues as it counts at ``now`` (seconds since the epoch), for ``Memories.begin``."""
    rows: dict[Holder, dict[Account, dict[int, int]]] = {}
    for half_life in sorted(frozenset[int]().union(*half_lives.values())):
        accounts = [f"{_ACCOUNT}{queue}" for queue, every in half_lives.items() if half_life in every]
        since = moment(max(0, oldest_block(now, half_life) * half_life))
        given = {"queues": accounts, "half_life": half_life, "since": since}
        for account, user, flavor, resource, block, slot, units, lag in await tx.execute(_SUMS, given):
            holder = Holder(QueueName(account.removeprefix(_ACCOUNT)), user, half_life)
            weighs = weigh_slot(half_life, slot, int(units), int(lag))
            for each in dict.fromkeys((NO_FLAVOR, FlavorName(flavor))):
                blocks = rows.setdefault(holder, {}).setdefault(Account(each, resource), {})
                blocks[block] = blocks.get(block, 0) + weighs
    return _without_nothing(rows)


def _without_nothing(
    rows: dict[Holder, dict[Account, dict[int, int]]],
) -> dict[Holder, dict[Account, dict[int, int]]]:
    """Without sums that came out as 0, as ``Memories`` keeps them."""
    kept = {
        holder: {
            account: left
            for account, blocks in sums.items()
            if (left := {block: units for block, units in blocks.items() if units})
        }
        for holder, sums in rows.items()
    }
    return {holder: sums for holder, sums in kept.items() if sums}
