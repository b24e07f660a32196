"""The leader's care for the history: partitions are made ahead of time, what is older than the retention goes, and
postings are summed up as past use.

It runs between the turns, in transactions that are short and few; whatever fails is tried again later, and only the
metric of the retention's lag shows it. Each transaction that changes something checks the term first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, NoReturn

from queues.errors import DatabaseError, DatabaseUnavailable
from queues.sql.database import Database, Transaction
from queues.sql.history import past_use, retention
from queues.sql.history.partitions import HistoryPartition, ensure_partitions
from queues.sql.history.retention import Retention
from queues.sql.leadership import Term
from queues.sql.tables import PARTITIONED, postings

_log = logging.getLogger(__name__)

#: Seconds between two looks at all partitions, and after one that failed.
EVERY: Final = 3600.0
AFTER_FAILURE: Final = 60.0
#: Seconds between two steps, which leave Postgres to the turns.
PAUSE: Final = 0.05
#: Rows that one step deletes.
ROWS: Final = 1000
#: Seconds between two times at which postings are summed up, and postings of one step.
SUM_UP_EVERY: Final = 60.0
POSTINGS: Final = 10_000


class HistoryKeeper:
    """Keeps the history of one term."""

    def __init__(
        self,
        database: Database,
        term: Term,
        retention: Retention,
        clock: Callable[[], float],
        *,
        half_lives: Callable[[], frozenset[int] | None],
        summed_up: Callable[[frozenset[int]], None],
        budgets_since: Callable[[int], int | None],
    ) -> None:
        """``clock`` gives seconds since the epoch; ``half_lives``, those by which past use counts now; None if not
        known yet. ``summed_up`` is called with half-lives by which all postings are summed up.
        ``budgets_since``: the second from which on budgets count postings at a second; None if no queue has one."""
        self._budgets_since = budgets_since
        self._half_lives = half_lives
        self._summed_up = summed_up
        self._database = database
        self._term = term
        self._retention = retention
        self._clock = clock
        #: By table: since when (seconds since the epoch) rows are there that should have gone.
        self._overdue: dict[str, float] = {}
        #: Half-lives by which past use counted at the last look.
        self._used: frozenset[int] | None = None

    async def run(self) -> NoReturn:
        """Until the term is over. Raises Fenced."""
        # At once: the first turn may post much.
        await self._tried(self._make_partitions)
        next_look = 0.0
        loop = asyncio.get_running_loop()
        while True:
            if (
                self._half_lives() is not None
                and await self._tried(self._sum_up)
                and loop.time() >= next_look
            ):
                next_look = loop.time() + (EVERY if await self.look() else AFTER_FAILURE)
            await asyncio.sleep(SUM_UP_EVERY)

    def lag(self) -> Mapping[str, float]:
        """Seconds for which the oldest rows of each history have outlived their retention."""
        now = self._clock()
        return {table: max(0.0, now - self._overdue.get(table, now)) for table in PARTITIONED}

    async def look(self) -> bool:
        """Do all that is due. False: something failed, and is to be tried again soon. Raises Fenced."""
        steps: list[Callable[[], Awaitable[None]]] = [
            self._make_partitions,
            self._sum_up,
            self._forget_sums,
            *(partial(self._drop_old, table) for table in PARTITIONED),
        ]
        return all([await self._tried(step) for step in steps])

    async def _tried(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Whether a step succeeded."""
        try:
            await step()
        except DatabaseError as error:
            _log.warning("history not kept", extra={"why": str(error)})
            return False
        return True

    async def _sum_up(self) -> None:
        """Bring past use up to the newest posting."""
        half_lives = self._half_lives()
        for half_life in sorted(half_lives or ()):
            more = True
            while more:
                now = int(self._clock())
                async with self._database.transaction() as tx:
                    more = await past_use.sum_up(tx, self._term, half_life, now, rows=POSTINGS)
                await asyncio.sleep(PAUSE)
        if half_lives:
            self._summed_up(half_lives)

    async def _forget_sums(self) -> None:
        """Of half-lives that no queue has, now and at the last look: a queue may be about to be created again."""
        half_lives = self._half_lives()
        if half_lives is None:
            return
        before, self._used = self._used, half_lives
        if before is None:
            return
        kept = half_lives | before
        more = True
        while more:
            async with self._database.transaction() as tx:
                more = await past_use.forget(tx, self._term, kept, int(self._clock()), rows=ROWS)
            await asyncio.sleep(PAUSE)

    async def _make_partitions(self) -> None:
        today = datetime.fromtimestamp(self._clock(), UTC).date()
        for table in PARTITIONED:
            async with self._database.transaction() as tx:
                await ensure_partitions(tx, self._term, table, today)

    async def _drop_old(self, table: str) -> None:
        kept = self._retention.of(table)
        if kept is None:
            self._overdue.pop(table, None)
            return
        before = datetime.fromtimestamp(self._clock(), UTC) - kept
        if table == postings.name and (since := self._budgets_since(int(self._clock()))) is not None:
            before = min(before, datetime.fromtimestamp(since, UTC))
        async with self._database.transaction() as tx:
            old = await retention.expired(tx, table, before)
        for partition in old:
            self._overdue[table] = (partition.ends + kept).timestamp()
            await self._drop(table, partition)
        self._overdue.pop(table, None)
        left = True
        while left:
            async with self._database.transaction() as tx:
                await self._check_summed_up(tx, table, retention.default_of(table), before)
                left = await retention.trim_default(tx, self._term, table, before, rows=ROWS)
            await asyncio.sleep(PAUSE)

    async def _drop(self, table: str, partition: HistoryPartition) -> None:
        held: retention.Held = {}
        if table == postings.name:
            closing_held = retention.Closing(partition)
            more = True
            while more:
                async with self._database.transaction() as tx:
                    more = await closing_held.add_page(tx)
                await asyncio.sleep(PAUSE)
            held = closing_held.held()
        async with self._database.transaction() as tx:
            await self._check_summed_up(tx, table, partition.name, partition.ends)
            await retention.drop(tx, self._term, table, partition, held)
        _log.info("history dropped", extra={"history": table, "before": partition.ends.isoformat()})

    async def _check_summed_up(self, tx: Transaction, table: str, part: str, before: datetime) -> None:
        """Raises DatabaseUnavailable while past use needs the older postings of a partition."""
        if table != postings.name:
            return
        half_lives = self._half_lives()
        if half_lives is None or not await past_use.is_summed_up(tx, half_lives, part, before):
            raise DatabaseUnavailable(reason=f"{part} is not summed up yet as past use")
