"""What was used in the past: at the start of a term, when half-lives are other ones, and for people.

Sums are stored by block of a half-life, up to one posting (``queues.sql.history.past_use``). What was posted after it
is read from the postings, and so is everything by a half-life that nothing is stored of yet. Both are the same sums.

Postings get their ids one transaction after the other (the ledger's fence), so all up to the newest that is seen are
there, and "up to one posting" has one meaning.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, bindparam, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.accounts import Account
from queues.quota.decayed_usage import SLOTS, UsageHolder, oldest_block, weigh_slot
from queues.sql.statements import NUMBER, moment, names, parts
from queues.sql.tables import past_use_marks, past_use_sums, postings
from queues.workload import NO_FLAVOR, FlavorName, QueueName

#: Postings that one statement looks at: none takes so long that it would be given up.
PAGE_ROWS = 10_000
#: Stored rows that are taken in before other tasks get their turn.
_PART: Final = 1000

BlockSums = defaultdict[Account, Counter[int]]

Read = dict[UsageHolder, BlockSums]

#: Sums of amounts, by slot, of the postings between two ids. The weight of an amount is linear in the time since the
#: slot began, so a sum of amounts and a sum of amounts × that time say everything (``weigh_slot``).
_SUMS: Final = text(
    f"""
    SELECT p.second / :half_life AS block, p.inside / :half_life AS slot, p.queue, p.username,
           line.flavor, line.resource, sum(p.sign * line.amount) AS units,
           sum(p.sign * line.amount::numeric * (p.inside % :half_life)) AS lag
    FROM (
        SELECT t.second, (t.second % :half_life) * {SLOTS} AS inside,
               CASE debit WHEN 'pool' THEN -1 ELSE 1 END AS sign,
               substr(CASE debit WHEN 'pool' THEN credit ELSE debit END, length('queue/') + 1) AS queue,
               username, flavors, resources, amounts
        FROM postings, LATERAL (SELECT CAST(extract(epoch FROM posted_at) AS bigint) AS second) AS t
        WHERE id > :after AND id <= :until AND (kind <> 'carry' OR id <= :carried)
    ) AS p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount)
    GROUP BY 1, 2, 3, 4, 5, 6
    """
).bindparams(*(bindparam(name, type_=NUMBER) for name in ("half_life", "after", "until", "carried")))

_NEWEST: Final = select(func.max(postings.c.id))


class Mark(NamedTuple):
    """How far postings are summed up by one half-life."""

    half_life: int
    #: All up to this one.
    posting: int
    #: What was carried over counts up to this one; carried later, it is in the sums by what it follows from.
    carried: int
    #: The sums are stored.
    is_stored: bool = True


class SlotSum(NamedTuple):
    """Amounts of one holder, in their own flavor, that were posted in one slot."""

    queue: QueueName
    user: str
    account: Account
    block: int
    #: Σ ± amount × weight.
    units: int


async def newest_posting(tx: AsyncConnection) -> int:
    """Id of the newest posting; 0: there is none."""
    return await tx.scalar(_NEWEST) or 0


async def marks(tx: AsyncConnection, half_lives: Iterable[int], now: int) -> list[Mark]:
    """How far postings are summed up by each half-life. ``now``: seconds since the epoch.

    If nothing is stored: up to where postings no longer count.
    """
    rows = await tx.execute(select(*past_use_marks.c["half_life", "posting", "carried"]))
    stored, newest = {row.half_life: Mark(*row) for row in rows}, await newest_posting(tx)
    found = []
    for half_life in sorted(half_lives):
        mark = stored.get(half_life)
        if mark is None:
            # A block more: leaders' clocks may have differed.
            since = (oldest_block(now, half_life) - 1) * half_life
            mark = Mark(half_life, await _first_since(tx, since, newest) - 1, newest, False)
        found.append(mark)
    return found


async def far_behind(tx: AsyncConnection, half_lives: Iterable[int], now: int, most: int) -> frozenset[int]:
    """Half-lives by which more than so many postings are not summed up."""
    newest = await newest_posting(tx)
    return frozenset(
        mark.half_life for mark in await marks(tx, half_lives, now) if newest - mark.posting > most
    )


async def _first_since(tx: AsyncConnection, second: int, newest: int) -> int:
    """The smallest id from which on postings are that young: found by halving, since ids grow with time."""
    low, high = 1, newest + 1
    at = select(postings.c.posted_at).order_by(postings.c.id).limit(1)
    since = moment(max(0, second))
    while low < high:
        middle = (low + high) // 2
        posted = await tx.scalar(at.where(postings.c.id >= middle))
        if posted is not None and posted < since:
            low = middle + 1
        else:
            high = middle
    return low


async def slot_sums(tx: AsyncConnection, mark: Mark, until: int) -> list[SlotSum]:
    """Sums of the postings after a mark, up to an id. They are read by one statement: ask for few (``PAGE_ROWS``)."""
    given = {
        "half_life": mark.half_life,
        "after": mark.posting,
        "until": until,
        "carried": mark.carried,
    }
    return [_slot_sum(mark.half_life, row) for row in await tx.execute(_SUMS, given)]


def _slot_sum(half_life: int, row: Row[Any]) -> SlotSum:
    weighs = weigh_slot(half_life, row.slot, int(row.units), int(row.lag))
    account = Account(FlavorName(row.flavor), row.resource)
    return SlotSum(QueueName(row.queue), row.username, account, row.block, weighs)


async def past_use(
    tx: AsyncConnection, half_lives: Mapping[QueueName, frozenset[int]], now: int, *, by_user: bool = True
) -> dict[UsageHolder, dict[Account, dict[int, int]]]:
    """The past of these queues as it counts at ``now`` (seconds since the epoch), for ``UsageRecorder.begin``.

    ``tx`` must see one state (``Database.snapshot``). ``by_user``: if not, what is stored of all users of a queue is
    read as one sum.
    """
    rows: Read = {}
    newest = await newest_posting(tx)
    for mark in await marks(tx, frozenset[int]().union(*half_lives.values()), now):
        await _read_stored(tx, half_lives, mark, now, rows, by_user=by_user)
        read = mark
        while read.posting < newest:
            read = await _read_page(tx, half_lives, read, newest, now, rows)
    return {holder: kept for holder, sums in rows.items() if (kept := _with_totals(sums))}


async def _read_page(
    tx: AsyncConnection,
    half_lives: Mapping[QueueName, frozenset[int]],
    mark: Mark,
    newest: int,
    now: int,
    rows: Read,
) -> Mark:
    """The next page after a mark, into ``rows``; the mark at its end."""
    until = min(newest, mark.posting + PAGE_ROWS)
    oldest = oldest_block(now, mark.half_life)
    for each in await slot_sums(tx, mark, until):
        if each.block >= oldest and mark.half_life in half_lives.get(each.queue, ()):
            holder = UsageHolder(each.queue, each.user, mark.half_life)
            rows.setdefault(holder, defaultdict(Counter))[each.account][each.block] += each.units
    return mark._replace(posting=until)


async def _read_stored(
    tx: AsyncConnection,
    half_lives: Mapping[QueueName, frozenset[int]],
    mark: Mark,
    now: int,
    rows: Read,
    *,
    by_user: bool,
) -> None:
    """What is stored up to a mark of these queues, into ``rows``."""
    if not mark.is_stored:
        return
    sums, half_life = past_use_sums.c, mark.half_life
    of_users = sums["queue", "flavor", "resource", "block"]
    who = sums.username if by_user else literal("").label("username")
    asked = select(*of_users, who, func.sum(sums.units).label("units")).where(
        sums.half_life == half_life,
        sums.block >= oldest_block(now, half_life),
        sums.queue == func.any(names(queue for queue, each in half_lives.items() if half_life in each)),
    )
    asked = asked.group_by(*of_users, *([sums.username] if by_user else []))
    async for part in parts(tx, asked, _PART):
        for row in part:
            holder = UsageHolder(QueueName(row.queue), row.username, half_life)
            account = Account(FlavorName(row.flavor), row.resource)
            rows.setdefault(holder, defaultdict(Counter))[account][row.block] += int(row.units)


def _with_totals(sums: BlockSums) -> dict[Account, dict[int, int]]:
    """With the sums over all flavors, and without what came out as 0, as ``UsageRecorder`` keeps them."""
    totals: BlockSums = defaultdict(Counter)
    for account, blocks in sums.items():
        for each in dict.fromkeys((Account(NO_FLAVOR, account.resource), account)):
            totals[each].update(blocks)
    kept = {
        account: {block: units for block, units in blocks.items() if units}
        for account, blocks in totals.items()
    }
    return {account: blocks for account, blocks in kept.items() if blocks}
