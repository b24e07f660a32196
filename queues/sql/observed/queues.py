"""Versions of queues: each queue as it is now, and its changes with the user that made them.

What queues may give: limits, and the balances that follow from the tree's shape.

Part of ``observed``: only intake writes here, by way of it.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import to_builtins
from sqlalchemy import delete, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.plugins.registry import PluginSetAside
from queues.quota.posting import Move, QueueAccount, balance_all
from queues.quota.queue import ROOT, WAS_REMOVED, Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.sql.leadership import Term, check_term
from queues.sql.observed.rows import QueueVersion
from queues.sql.statements import (
    JsonRows,
    UnnestRows,
    attributes,
    bounded,
    insert_rows,
    names,
    same,
    upsert_rows,
)
from queues.sql.tables import queue_balances, queue_limits, queue_versions, queues
from queues.workload import NO_FLAVOR, FlavorName, QueueName

_VERSIONS = JsonRows(
    *queues.c["name", "uid", "generation", "parent", "document", "served", "changed_by", "paused", "closed"],
    *queues.c["problem", "present"],
)
#: Fields of a queue that say how its workloads are served.
_SERVED = (
    "order",
    "ageing_per_hour",
    "max_run_time",
    "policy",
    "placement",
    "plugin_parameters",
    "on_plugin_failure",
    "hold",
)

_differ = (
    upsert_rows(queues, _VERSIONS)
    .returning(*queues.c["name", "uid", "generation", "changed_by", "document"])
    .cte("differ")
)
_STORE_VERSIONS = insert(queue_versions).from_select(
    ["queue", "uid", "generation", "changed_by", "document"], select(*_differ.c)
)


async def store_versions(tx: AsyncConnection, changed: Sequence[QueueVersion]) -> None:
    """These queues are so from now on; versions that differ from the last are kept for ever."""
    versions = [
        {
            **attributes(version, "uid", "document", "changed_by"),
            **attributes(version.queue, "name", "generation", "paused", "closed"),
            "served": to_builtins(attributes(version.queue, *_SERVED)),
            "parent": None if version.queue.name == ROOT else version.queue.parent,
            "problem": version.queue.broken,
            "present": True,
        }
        for version in changed
    ]
    if versions:
        await tx.execute(_STORE_VERSIONS, _VERSIONS.rows(versions))


async def record_set_aside(
    tx: AsyncConnection, term: Term, queue: QueueName, plugins: Sequence[PluginSetAside]
) -> None:
    """These plug-ins of a queue are set aside, and no others. Raises Fenced."""
    await check_term(tx, term)
    await tx.execute(
        update(queues).where(queues.c.name == queue).values(plugins_set_aside=to_builtins(list(plugins)))
    )


async def store_removals(tx: AsyncConnection, gone: Sequence[QueueName]) -> None:
    """These queues are not there any more."""
    if not gone:
        return
    removed = (
        update(queues)
        .where(queues.c.name == func.any(names(gone)), queues.c.present)
        .values(present=False)
        .returning(*queues.c["name", "uid", "generation", "document"])
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
    gone = sorted(set(removed) - {ROOT} - {version.queue.name for version in changed})
    # Locked first and whole, so that balances never move while the tree does.
    stored = await _lock_balances(tx)
    await store_versions(tx, changed)
    await store_removals(tx, gone)
    await _store_limits(tx, changed, gone)
    await _rebalance(tx, stored)


_ACCOUNT = ("queue", "flavor", "resource")

_LIMIT_COLUMNS = queue_limits.c[*_ACCOUNT, "guarantee", "deserved", "capability"]

_LIMITS = UnnestRows(*_LIMIT_COLUMNS)
_STORE_LIMITS = insert_rows(queue_limits, _LIMITS)


async def _store_limits(
    tx: AsyncConnection, changed: Sequence[QueueVersion], gone: Sequence[QueueName]
) -> None:
    touched = [*gone, *(version.queue.name for version in changed)]
    await tx.execute(delete(queue_limits).where(queue_limits.c.queue == func.any(names(touched))))
    if rows := [row for version in changed for row in _limit_rows(version.queue)]:
        await tx.execute(_STORE_LIMITS, _LIMITS.rows(rows))


def _limit_rows(queue: Queue) -> Iterable[tuple[str, str, str, int | None, int | None, int | None]]:
    for flavor, limits in queue.all_limits().items():
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


_BALANCE_COLUMNS = queue_balances.c[*_ACCOUNT, "own", "used", "counted"]


async def _lock_balances(tx: AsyncConnection) -> dict[QueueAccount, Move]:
    rows = await tx.execute(select(*_BALANCE_COLUMNS).order_by(*queue_balances.c[_ACCOUNT]).with_for_update())
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
    rows = await tx.execute(select(*_LIMIT_COLUMNS))
    for queue, flavor, resource, *amounts in rows:
        kinds = limits.setdefault(queue, {}).setdefault(flavor, {})
        for kind, units in zip(("guarantee", "deserved", "capability"), amounts, strict=True):
            if units is not None:
                kinds.setdefault(kind, {})[resource] = units
    every: dict[QueueName, Queue] = {}
    before: dict[QueueName, tuple[QueueName | None, bool]] = {}
    for row in await tx.execute(
        select(*queues.c["name", "parent", "problem", "present", "counts_in", "broken"])
    ):
        flavors = {
            flavor: Limits(
                guarantee=Resources(kinds.get("guarantee", {})),
                deserved=kinds.get("deserved", {}),
                capability=kinds.get("capability", {}),
            )
            for flavor, kinds in limits.get(row.name, {}).items()
        }
        every[row.name] = Queue(
            name=row.name,
            parent=row.parent,
            limits=flavors.pop(NO_FLAVOR, Limits()),
            flavors=flavors,
            broken=row.problem if row.present else WAS_REMOVED,
        )
        before[row.name] = (row.counts_in, row.broken)
    # Of thousands of queues it takes a while, in which reads and reviews are answered.
    return await asyncio.to_thread(QueueTree.build, every, None), before


_MOVED = UnnestRows(*queues.c["name", "counts_in", "broken"])
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


_EFFECTIVE = UnnestRows(*queue_limits.c[*_ACCOUNT, "keeps", "ceiling"])

_FORGET_EFFECTIVE = (
    update(queue_limits)
    .where(
        ~exists().where(same(queue_limits, _EFFECTIVE, *_ACCOUNT)),
        or_(queue_limits.c.keeps > 0, queue_limits.c.ceiling.is_not(None)),
    )
    .values(keeps=0, ceiling=None)
)

_STORE_EFFECTIVE = upsert_rows(queue_limits, _EFFECTIVE)


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


_TOTALS = UnnestRows(*_BALANCE_COLUMNS)

_STORE_BALANCES = upsert_rows(queue_balances, _TOTALS)


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
