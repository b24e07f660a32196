"""Names of workloads and namespaces: what users ask about, and may have written wrongly."""

from typing import Final

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.pending import WAITS, WORKLOADS_WITH_REASONS, may_see
from queues.sql.read.rows import KindIn, Seen
from queues.sql.statements import one_of
from queues.sql.tables import ended_workloads, workloads

#: Kinds in other namespaces in which a name is looked for.
_LOOKED_IN: Final = 1000
#: From one kind in a namespace to the next by the index, whatever number of workloads there are of it.
_KINDS_IN_NAMESPACES: Final = """
WITH RECURSIVE found (namespace, kind) AS (
    (SELECT namespace, kind FROM {table} ORDER BY namespace, kind LIMIT 1)
    UNION ALL
    SELECT next.namespace, next.kind
    FROM found CROSS JOIN LATERAL (
        SELECT more.namespace, more.kind FROM {table} AS more
        WHERE (more.namespace, more.kind) > (found.namespace, found.kind)
        ORDER BY more.namespace, more.kind LIMIT 1
    ) AS next
)
SELECT kind, namespace FROM found LIMIT :limit
"""


async def kinds_in_namespaces(tx: AsyncConnection, limit: int) -> tuple[KindIn, ...]:
    """Kinds of workloads with their namespaces, at most ``limit``.

    First those with waiting workloads, then those with other workloads that have not ended, then those with ended ones.
    Each group by namespace.
    """
    columns = workloads.c["namespace", "kind"]
    waiting = select(*workloads.c["kind", "namespace"]).select_from(WORKLOADS_WITH_REASONS).where(WAITS)
    first = await tx.execute(waiting.group_by(*columns).order_by(*columns).limit(limit))
    found = dict.fromkeys(KindIn(*row) for row in first)
    for table in (workloads, ended_workloads):
        if len(found) < limit:
            question = text(_KINDS_IN_NAMESPACES.format(table=table.name))
            found |= dict.fromkeys(KindIn(*row) for row in await tx.execute(question, {"limit": limit}))
    return tuple(found)[:limit]


async def names_like(
    tx: AsyncConnection, namespace: str, name: str, *, seen: Seen | None, limit: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a namespace that begin alike, and other namespaces that have the very name; at most ``limit`` of each.

    Of workloads that wait, run, or ended as far back as the history begins.
    """
    start = name[: max(1, len(name) // 2)]
    # With their names the index finds a workload in each of them; without, all that ever ended would be read.
    others = {each.namespace for each in await kinds_in_namespaces(tx, _LOOKED_IN)} - {namespace}
    alike: list[str] = []
    elsewhere: list[str] = []
    for table in (workloads, ended_workloads):
        visible = may_see(table.c, seen)
        near = select(table.c.name).where(
            visible, table.c.namespace == namespace, table.c.name.startswith(start, autoescape=True)
        )
        same_name = select(table.c.namespace).where(
            visible, table.c.name == name, one_of(table.c.namespace, others)
        )
        alike += await tx.scalars(near.distinct().limit(limit))
        elsewhere += await tx.scalars(same_name.distinct().limit(limit))
    return tuple(dict.fromkeys(alike)), tuple(dict.fromkeys(elsewhere))
