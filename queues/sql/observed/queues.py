"""Versions of queues: each queue as it is now, and its changes with the user that made them.

What queues may give: limits, and the balances that follow from the tree's shape.

Part of ``observed``: only intake writes here, by way of it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import delete, exists, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.posting import Move, QueueAccount, balance_all
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.sql.leadership import Term, check_term
from queues.sql.observed.rows import QueueVersion
from queues.sql.statements import FLAG, JSON, NUMBER, TEXT, JsonRows, UnnestRows, bounded, names
from queues.sql.tables import queue_balances, queue_limits, queue_versions, queues
from queues.workload import NO_FLAVOR, FlavorName, QueueName

_VERSIONS = JsonRows(
    name=TEXT,
    uid=TEXT,
    generation=NUMBER,
    parent=TEXT,
    document=JSON,
    changed_by=TEXT,
    paused=FLAG,
    closed=FLAG,
    problem=TEXT,
    present=FLAG,
)

_current = insert(queues).from_select(_VERSIONS.c.keys(), select(*_VERSIONS.c))

_new = [_current.excluded[column.name] for column in _VERSIONS.c if column.name != "name"]

_old = [queues.c[column.name] for column in _VERSIONS.c if column.name != "name"]

_differ = (
    _current.on_conflict_do_update(
        index_elements=[queues.c.name],
        set_={column.key: column for column in _new},
        where=tuple_(*_old).is_distinct_from(tuple_(*_new)),
    )
    .returning(queues.c.name, queues.c.uid, queues.c.generation, queues.c.changed_by, queues.c.document)
    .cte("differ")
)

_STORE_VERSIONS = insert(queue_versions).from_select(
    ["queue", "uid", "generation", "changed_by", "document"], select(*_differ.c)
)


async def store_versions(tx: AsyncConnection, changed: Sequence[QueueVersion]) -> None:
    """These queues are so from now on; versions that differ from the last are kept for ever."""
    versions = [
        {
            "name": queue.name,
            "uid": queue.uid,
            "generation": queue.generation,
            "parent": None if queue.name == ROOT else queue.parent,
            "document": queue.document,
            "changed_by": queue.changed_by,
            "paused": queue.paused,
            "closed": queue.closed,
            "problem": queue.broken,
            "present": True,
        }
        for queue in changed
    ]
    if versions:
        await tx.execute(_STORE_VERSIONS, _VERSIONS.rows(versions))


async def store_removals(tx: AsyncConnection, gone: Sequence[QueueName]) -> None:
    """These queues are not there any more."""
    if not gone:
        return
    removed = (
        update(queues)
        .where(queues.c.name == func.any(names(gone)), queues.c.present)
        .values(present=False)
        .returning(queues.c.name, queues.c.uid, queues.c.generation, queues.c.document)
        .cte("removed")
    )
    await tx.execute(
        insert(queue_versions).from_select(
            ["queue", "uid", "generation", "document", "changed_by", "removed"],
            select(*removed.c, text("''"), text("true")),
        )
    )


async def record_queues(
    tx: AsyncConnection,
    term: Term,
    changed: Sequence[QueueVersion],
    removed: Collection[QueueName] = (),
) -> None:
    """Store versions and limits of queues, and count what they use along their new paths at once.

    A queue that is removed takes nothing new; its row stays while something below it is held. ``root`` cannot
    be removed. Raises Fenced.
    """
    await check_term(tx, term)
    gone = sorted(set(removed) - {ROOT} - {queue.name for queue in changed})
    # Locked first and whole, so that balances never move while the tree does.
    stored = await _lock_balances(tx)
    await store_versions(tx, changed)
    await store_removals(tx, gone)
    await _store_limits(tx, changed, gone)
    await _rebalance(tx, stored)


_LIMITS = UnnestRows(
    queue=TEXT, flavor=TEXT, resource=TEXT, guarantee=NUMBER, deserved=NUMBER, capability=NUMBER
)

_STORE_LIMITS = insert(queue_limits).from_select(_LIMITS.c.keys(), select(*_LIMITS.c))


async def _store_limits(
    tx: AsyncConnection, changed: Sequence[QueueVersion], gone: Sequence[QueueName]
) -> None:
    touched = [*gone, *(queue.name for queue in changed)]
    await tx.execute(delete(queue_limits).where(queue_limits.c.queue == func.any(names(touched))))
    if rows := [row for queue in changed for row in _limit_rows(queue)]:
        await tx.execute(_STORE_LIMITS, _LIMITS.rows(rows))


def _limit_rows(queue: QueueVersion) -> Iterable[tuple[str, str, str, int | None, int | None, int | None]]:
    for flavor, limits in queue.limits.items():
        for resource in {*limits.guarantee, *limits.deserved, *limits.capability}:
            yield (
                queue.name,
                flavor,
                resource,
                bounded(max(0, limits.guarantee.get(resource, 0))),
                _limit(limits.deserved, resource),
                _limit(limits.capability, resource),
            )


def _limit(amounts: Mapping[str, int], resource: str) -> int | None:
    return bounded(amounts[resource]) if resource in amounts else None


async def _lock_balances(tx: AsyncConnection) -> dict[QueueAccount, Move]:
    balances = queue_balances.c
    rows = await tx.execute(
        select(
            balances.queue,
            balances.flavor,
            balances.resource,
            balances.own,
            balances.used,
            balances.counted,
        )
        .order_by(balances.queue, balances.flavor, balances.resource)
        .with_for_update()
    )
    return {
        QueueAccount(queue, flavor, resource): Move(own, used, counted)
        for queue, flavor, resource, own, used, counted in rows
    }


async def _rebalance(tx: AsyncConnection, stored: Mapping[QueueAccount, Move]) -> None:
    """Store what follows from limits and tree: effective limits, where each queue counts, all balances."""
    tree, before = await _tree(tx)
    await _store_places(tx, tree, before)
    await _store_effective(tx, tree)
    counts_in = {name: path[1] if name != ROOT else None for name, path in tree.paths.items()}
    totals = balance_all(
        counts_in,
        {account: move.own for account, move in stored.items() if move.own},
        {
            QueueAccount(name, account.flavor, account.resource): units
            for name, guarantees in tree.guarantees.items()
            for account, units in guarantees.items()
        },
    )
    await _store_balances(tx, stored, totals)
    needed = {account.queue for account in totals} | set(counts_in.values())
    idle = queues.c.name != func.all(names(sorted(name for name in needed if name)))
    await tx.execute(delete(queues).where(~queues.c.present, idle))


async def _tree(tx: AsyncConnection) -> tuple[QueueTree, dict[QueueName, tuple[QueueName | None, bool]]]:
    """The quota tree of what is stored, and where each queue counted until now."""
    limits: dict[QueueName, dict[FlavorName, dict[str, dict[str, int]]]] = {}
    rows = await tx.execute(
        select(
            queue_limits.c.queue,
            queue_limits.c.flavor,
            queue_limits.c.resource,
            queue_limits.c.guarantee,
            queue_limits.c.deserved,
            queue_limits.c.capability,
        )
    )
    for queue, flavor, resource, *amounts in rows:
        kinds = limits.setdefault(queue, {}).setdefault(flavor, {})
        for kind, units in zip(("guarantee", "deserved", "capability"), amounts, strict=True):
            if units is not None:
                kinds.setdefault(kind, {})[resource] = units
    every: dict[QueueName, Queue] = {}
    before: dict[QueueName, tuple[QueueName | None, bool]] = {}
    for row in await tx.execute(
        select(
            queues.c.name,
            queues.c.parent,
            queues.c.problem,
            queues.c.present,
            queues.c.counts_in,
            queues.c.broken,
        )
    ):
        flavors = {flavor: _limits(kinds) for flavor, kinds in limits.get(row.name, {}).items()}
        every[row.name] = Queue(
            name=row.name,
            parent=row.parent,
            limits=flavors.pop(NO_FLAVOR, Limits()),
            flavors=flavors,
            broken=row.problem if row.present else "it was removed",
        )
        before[row.name] = (row.counts_in, row.broken)
    return QueueTree.build(every, None), before


def _limits(kinds: Mapping[str, Mapping[str, int]]) -> Limits:
    return Limits(
        guarantee=Resources(kinds.get("guarantee", {})),
        deserved=kinds.get("deserved", {}),
        capability=kinds.get("capability", {}),
    )


_MOVED = UnnestRows(name=TEXT, counts_in=TEXT, broken=FLAG)

_STORE_PLACES = (
    update(queues)
    .where(queues.c.name == _MOVED.c.name)
    .values(counts_in=_MOVED.c.counts_in, broken=_MOVED.c.broken)
)


async def _store_places(
    tx: AsyncConnection,
    tree: QueueTree,
    before: Mapping[QueueName, tuple[QueueName | None, bool]],
) -> None:
    moved = [
        (name, *place)
        for name, path in tree.paths.items()
        if (place := (path[1] if name != ROOT else None, not tree.usable(name))) != before.get(name)
    ]
    if moved:
        await tx.execute(_STORE_PLACES, _MOVED.rows(moved))


_EFFECTIVE = UnnestRows(queue=TEXT, flavor=TEXT, resource=TEXT, keeps=NUMBER, ceiling=NUMBER)

_limit_c = queue_limits.c

_FORGET_EFFECTIVE = (
    update(queue_limits)
    .where(
        ~exists().where(
            _limit_c.queue == _EFFECTIVE.c.queue,
            _limit_c.flavor == _EFFECTIVE.c.flavor,
            _limit_c.resource == _EFFECTIVE.c.resource,
        ),
        or_(_limit_c.keeps > 0, _limit_c.ceiling.is_not(None)),
    )
    .values(keeps=0, ceiling=None)
)

_effective = insert(queue_limits).from_select(_EFFECTIVE.c.keys(), select(*_EFFECTIVE.c))

_STORE_EFFECTIVE = _effective.on_conflict_do_update(
    index_elements=list(queue_limits.primary_key),
    set_={"keeps": _effective.excluded.keeps, "ceiling": _effective.excluded.ceiling},
    where=or_(
        _limit_c.keeps != _effective.excluded.keeps,
        _limit_c.ceiling.is_distinct_from(_effective.excluded.ceiling),
    ),
)


async def _store_effective(tx: AsyncConnection, tree: QueueTree) -> None:
    effective = _EFFECTIVE.rows(
        [
            (name, *account, tree.guarantee(name, account), tree.capability(name, account))
            for name in tree.paths
            for account in {**tree.guarantees[name], **tree.capabilities[name]}
        ]
    )
    await tx.execute(_FORGET_EFFECTIVE, effective)
    await tx.execute(_STORE_EFFECTIVE, effective)


_TOTALS = UnnestRows(queue=TEXT, flavor=TEXT, resource=TEXT, own=NUMBER, used=NUMBER, counted=NUMBER)

_totals = insert(queue_balances).from_select(_TOTALS.c.keys(), select(*_TOTALS.c))

_STORE_BALANCES = _totals.on_conflict_do_update(
    index_elements=list(queue_balances.primary_key),
    set_={name: _totals.excluded[name] for name in ("own", "used", "counted")},
)


async def _store_balances(
    tx: AsyncConnection, stored: Mapping[QueueAccount, Move], totals: Mapping[QueueAccount, Move]
) -> None:
    moved = [
        (*account, *map(bounded, total))
        for account in sorted({*stored, *totals})
        if (total := totals.get(account, Move())) != stored.get(account, Move())
    ]
    if moved:
        await tx.execute(_STORE_BALANCES, _TOTALS.rows(moved))
