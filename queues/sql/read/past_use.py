"""What was used in the past, from the postings: at the start of a term, and when half-lives are other ones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, case, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.accounts import Account
from queues.quota.decayed_usage import NO_PAST, SLOTS, PastUse, UsageHolder, oldest_block, weigh_slot
from queues.sql.statements import MOMENT, NUMBER, moment
from queues.sql.tables import postings
from queues.workload import NO_FLAVOR, QueueName

#: Postings that one statement looks at: none takes so long that it would be given up.
PAGE_ROWS = 10_000
_LAST: Final = 2**63 - 1
_ACCOUNT: Final = "queue/"

_half_life = bindparam("half_life", type_=NUMBER)
_given = postings.c.kind == "free"
_account = case((_given, postings.c.credit), else_=postings.c.debit)
#: The latest first: months that are too long ago are not even opened.
_page = (
    select(
        postings.c.id,
        cast(func.extract("epoch", postings.c.posted_at), BigInteger).label("second"),
        _given.label("given"),
        _account.label("account"),
        postings.c.username,
        postings.c.flavors,
        postings.c.resources,
        postings.c.amounts,
    )
    .where(
        postings.c.id > bindparam("after", type_=NUMBER),
        postings.c.id < bindparam("before", type_=NUMBER),
        postings.c.posted_at >= bindparam("since", type_=MOMENT),
        _account == func.any(bindparam("accounts", type_=ARRAY(Text))),
    )
    .order_by(postings.c.id.desc())
    .limit(bindparam("rows", type_=NUMBER))
    .subquery("page")
)
_inside = (_page.c.second % _half_life) * SLOTS
_group = (
    # Of whole numbers above 0, so it rounds down.
    _page.c.second.op("/")(_half_life).label("block"),
    _inside.op("/")(_half_life).label("slot"),
    *(_page.c[name] for name in ("given", "account", "username", "flavors", "resources", "amounts")),
)
#: Work of one shape is alike: of the postings of a slot few rows remain.
_SUMS = select(
    func.min(func.min(_page.c.id)).over(),
    func.sum(func.count()).over(),
    func.count(),
    cast(func.sum(_inside % _half_life), BigInteger),
    *_group,
).group_by(*_group)

_NEWEST: Final = select(func.max(postings.c.id))

BlockSums = defaultdict[Account, Counter[int]]

Read = dict[UsageHolder, BlockSums]


async def past_use(
    tx: AsyncConnection, half_lives: Mapping[QueueName, frozenset[int]], now: int
) -> dict[UsageHolder, dict[Account, dict[int, int]]]:
    """The past of these queues as it counts at ``now`` (seconds since the epoch), for ``Memories.begin``."""
    rows: Read = {}
    for half_life in sorted(frozenset[int]().union(*half_lives.values())):
        gap: PostingGap | None = PostingGap(0, _LAST)
        while gap is not None:
            gap = await _read(tx, half_lives, half_life, now, gap, rows)
    return {holder: kept for holder, sums in rows.items() if (kept := _with_totals(sums))}


class PostingGap(NamedTuple):
    """Postings that are still to be read: ids between these two."""

    after: int
    before: int


class UsageReader:
    """The past for people, on any replica: read once, then only what was posted since. Mutable.

    What one question has no time for, the next ones read; they come one at a time. Postings get their ids one
    transaction after the other (the ledger's fence), so all up to the newest that is seen are there.
    """

    def __init__(self) -> None:
        self._begin({})

    def _begin(self, half_lives: Mapping[QueueName, frozenset[int]]) -> None:
        self._half_lives = half_lives
        self._every = sorted(frozenset[int]().union(*half_lives.values()))
        #: Of all users together.
        self._rows: Read = {}
        self._newest = 0
        self._gaps: list[tuple[int, PostingGap]] = []
        self._swept: dict[int, int] = {}

    async def past_use(
        self,
        tx: AsyncConnection,
        half_lives: Mapping[QueueName, frozenset[int]],
        now: int,
        *,
        enough: Callable[[], bool],
    ) -> PastUse | None:
        """The past as ``tx`` sees it at ``now`` (seconds since the epoch), all users of a queue as one.

        None: ``enough`` said so before all was read.
        """
        if half_lives != self._half_lives:
            self._begin(half_lives)
        if not half_lives:
            return NO_PAST
        newest = await tx.scalar(_NEWEST) or 0
        if newest > self._newest:
            self._gaps += [(half_life, PostingGap(self._newest, newest + 1)) for half_life in self._every]
            self._newest = newest
        while self._gaps:
            if enough():
                return None
            half_life, gap = self._gaps[-1]
            page: Read = {}
            rest = await _read(tx, half_lives, half_life, now, gap, page)
            self._gaps[-1:] = [] if rest is None else [(half_life, rest)]
            self._take(page)
        self._sweep(now)
        rows = {holder: kept for holder, sums in self._rows.items() if (kept := _with_totals(sums))}
        return PastUse(rows=rows)

    def _take(self, page: Read) -> None:
        for holder, sums in page.items():
            mine = self._rows.setdefault(holder._replace(user=""), defaultdict(Counter))
            for account, blocks in sums.items():
                mine[account].update(blocks)

    def _sweep(self, now: int) -> None:
        """Blocks that count no more, once in a half-life."""
        for half_life in self._every:
            oldest = oldest_block(now, half_life)
            if self._swept.get(half_life, 0) >= oldest:
                continue
            self._swept[half_life] = oldest
            for holder, sums in self._rows.items():
                if holder.half_life == half_life:
                    for blocks in sums.values():
                        for block in [block for block in blocks if block < oldest]:
                            del blocks[block]


async def _read(
    tx: AsyncConnection,
    half_lives: Mapping[QueueName, frozenset[int]],
    half_life: int,
    now: int,
    gap: PostingGap,
    rows: Read,
) -> PostingGap | None:
    """The latest page of a gap, by one half-life, into ``rows``; what is left of the gap then."""
    given = {
        "accounts": [f"{_ACCOUNT}{queue}" for queue, every in half_lives.items() if half_life in every],
        "since": moment(max(0, oldest_block(now, half_life) * half_life)),
        "half_life": half_life,
        "rows": PAGE_ROWS,
        "after": gap.after,
        "before": gap.before,
    }
    first, found = 0, 0
    for row in await tx.execute(_SUMS, given):
        first, found, count, lag, block, slot, is_given, account, user, *amounts = row
        holder = UsageHolder(QueueName(account.removeprefix(_ACCOUNT)), user, half_life)
        weighs = weigh_slot(half_life, slot, count, lag) * (-1 if is_given else 1)
        sums = rows.setdefault(holder, defaultdict(Counter))
        for flavor, resource, units in zip(*amounts, strict=True):
            sums[Account(flavor, resource)][block] += units * weighs
    return PostingGap(gap.after, first) if found == PAGE_ROWS else None


def _with_totals(sums: BlockSums) -> dict[Account, dict[int, int]]:
    """With the sums over all flavors, and without what came out as 0, as ``Memories`` keeps them."""
    totals: BlockSums = defaultdict(Counter)
    for account, blocks in sums.items():
        for each in dict.fromkeys((Account(NO_FLAVOR, account.resource), account)):
            totals[each].update(blocks)
    kept = {
        account: {block: units for block, units in blocks.items() if units}
        for account, blocks in totals.items()
    }
    return {account: blocks for account, blocks in kept.items() if blocks}
