"""History that is old enough leaves by the partition. What follows from all postings stays right: what was held when a
partition ended is carried over, as postings of the kind ``carry``.

Summing up what a partition leaves behind is reading, in bounded steps: nothing is written into a partition that old.
Carrying it over and dropping the partition is one transaction, so there is no moment at which both or neither count.
Balances do not depend on postings at all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import insert, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.history.partitions import HistoryPartition, limit_lock_wait, partitions
from queues.sql.leadership import Term, check_term
from queues.sql.tables import PARTITIONED, history_starts, postings

#: Postings that one statement sums up.
PAGE: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """For how many days each kind of history is kept; 0: for ever."""

    decisions: int
    #: Workloads whose object is gone, and closed admissions.
    ended_work: int
    postings: int

    def of(self, table: str) -> timedelta | None:
        """For how long rows of a partitioned table are kept; None for ever."""
        days = {"decisions": self.decisions, "postings": self.postings}.get(table, self.ended_work)
        return timedelta(days=days) if days else None


class HeldAmount(NamedTuple):
    """What postings are about: an account, a user, and what is held."""

    account: str
    username: str
    flavor: str
    resource: str


Held = Mapping[HeldAmount, int]

# With ``carry`` among them: what is carried over once is carried on.
_HELD = """
SELECT CASE debit WHEN 'pool' THEN credit ELSE debit END AS account, username, line.flavor, line.resource,
       sum(CASE debit WHEN 'pool' THEN -line.amount ELSE line.amount END)::bigint AS units
FROM {rows} AS p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount)
{where}
GROUP BY 1, 2, 3, 4
"""


def default_of(table: str) -> str:
    """Name of the DEFAULT partition of a table."""
    return f"{table}_default"


async def expired(tx: AsyncConnection, table: str, before: datetime) -> list[HistoryPartition]:
    """Partitions with older rows only, the oldest first."""
    return [part for part in await partitions(tx, table) if part.ends <= before]


class Closing:
    """What the postings of a partition leave behind, summed up page by page. Mutable."""

    def __init__(self, partition: HistoryPartition) -> None:
        self.partition = partition
        self._after: int | None = None
        self._held: Counter[HeldAmount] = Counter()

    async def add_page(self, tx: AsyncConnection) -> bool:
        """Sum up the next page. False: all are summed up."""
        name = self.partition.name
        first, last = (await tx.execute(text(f'SELECT min(id), max(id) FROM "{name}"'))).one()
        after = self._after if self._after is not None else (first or 0) - 1
        if last is None or after >= last:
            return False
        question = _HELD.format(rows=f'"{name}"', where="WHERE id > :after AND id <= :until")
        for *key, units in await tx.execute(text(question), {"after": after, "until": after + PAGE}):
            self._held[HeldAmount(*key)] += units
        self._after = after + PAGE
        return True

    def held(self) -> dict[HeldAmount, int]:
        """What of all this is not given back in the partition itself."""
        return {of: units for of, units in self._held.items() if units}


async def drop(
    tx: AsyncConnection, term: Term, table: str, partition: HistoryPartition, held: Held | None = None
) -> None:
    """Drop a partition of a table. ``held``: what its postings leave behind, of the table of postings.

    Raises Fenced; DatabaseUnavailable if the table is being read for long.
    """
    await check_term(tx, term)
    await limit_lock_wait(tx)
    await tx.execute(text(f'DROP TABLE "{partition.name}"'))
    await _carry_over(tx, term, held or {}, partition.ends)
    await _note_start(tx, table, partition.ends)


async def trim_default(tx: AsyncConnection, term: Term, table: str, before: datetime, *, rows: int) -> bool:
    """Delete some rows that are older from the DEFAULT partition. True: more of them are left. Raises Fenced."""
    await check_term(tx, term)
    part, column = default_of(table), PARTITIONED[table]
    old = f'SELECT ctid FROM "{part}" WHERE {column} < :before'
    found = (await tx.scalars(text(f"{old} LIMIT {rows + 1}"), {"before": before})).all()
    if not found:
        return False
    some = {"some": found[:rows]}
    if table == postings.name:
        question = _HELD.format(rows=f'"{part}"', where="WHERE ctid = ANY(CAST(:some AS tid[]))")
        held = {HeldAmount(*key): units for *key, units in await tx.execute(text(question), some)}
        await _carry_over(tx, term, {of: units for of, units in held.items() if units}, before)
    await tx.execute(text(f'DELETE FROM "{part}" WHERE ctid = ANY(CAST(:some AS tid[]))'), some)
    await _note_start(tx, table, before)
    return len(found) > rows


async def _carry_over(tx: AsyncConnection, term: Term, held: Held, at: datetime) -> None:
    lines: defaultdict[tuple[str, str, bool], list[tuple[str, str, int]]] = defaultdict(list)
    for of, units in sorted(held.items()):
        lines[of.account, of.username, units > 0].append((of.flavor, of.resource, abs(units)))
    rows: list[dict[str, object]] = []
    for (account, username, takes), amounts in lines.items():
        flavors, resources, units_each = zip(*amounts, strict=True)
        rows.append(
            {
                "posted_at": at,
                "ledger_seq": 0,
                "term": term.number,
                "kind": "carry",
                "admission": 0,
                "username": username,
                "debit": account if takes else "pool",
                "credit": "pool" if takes else account,
                "flavors": list(flavors),
                "resources": list(resources),
                "amounts": list(units_each),
            }
        )
    if rows:
        await tx.execute(insert(postings), rows)


async def _note_start(tx: AsyncConnection, table: str, at: datetime) -> None:
    new = upsert(history_starts).values(history=table, begins_at=at)
    await tx.execute(
        new.on_conflict_do_update(
            index_elements=[history_starts.c.history],
            set_={"begins_at": at},
            where=history_starts.c.begins_at < at,
        )
    )
