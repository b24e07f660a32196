"""Names of workloads and namespaces: what users ask about, and may have written wrongly."""

from typing import Final

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.pending import WAITS, WORKLOADS_WITH_REASONS, may_see
from queues.sql.read.rows import Seen
from queues.sql.statements import one_of
from queues.sql.tables import ended_workloads, workloads

#: Other namespaces in which a name is looked for.
_LOOKED_IN: Final = 500
#: From one name to the next by the index, whatever number of workloads a namespace has.
_NAMESPACES: Final = """
WITH RECURSIVE found (namespace) AS (
    (SELECT namespace FROM {table} ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT more.namespace FROM {table} AS more WHERE more.namespace > found.namespace
            ORDER BY more.namespace LIMIT 1)
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found WHERE namespace IS NOT NULL LIMIT :limit
"""


async def namespaces_of_workloads(tx: AsyncConnection, limit: int) -> tuple[str, ...]:
    """Namespaces of workloads, at most ``limit``: first those in which some wait, then those in which others are, then
    those of ended ones. Each by name."""
    waiting = (
        select(workloads.c.namespace)
        .select_from(WORKLOADS_WITH_REASONS)
        .where(WAITS)
        .group_by(workloads.c.namespace)
        .order_by(workloads.c.namespace)
        .limit(limit)
    )
    found = dict.fromkeys(await tx.scalars(waiting))
    for table in (workloads, ended_workloads):
        if len(found) < limit:
            question = text(_NAMESPACES.format(table=table.name))
            found |= dict.fromkeys(await tx.scalars(question, {"limit": limit}))
    return tuple(found)[:limit]


async def names_like(
    tx: AsyncConnection, namespace: str, name: str, *, seen: Seen | None, limit: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a namespace that begin alike, and other namespaces that have the very name; at most ``limit`` of each.

    Of workloads that wait, run, or ended as far back as the history begins.
    """
    start = name[: max(1, len(name) // 2)]
    # With their names the index finds a workload in each of them; without, all that ever ended would be read.
    others = set(await namespaces_of_workloads(tx, _LOOKED_IN)) - {namespace}
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
