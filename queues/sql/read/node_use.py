"""What the nodes can take and what the ledger holds on them. SELECT only, so that any replica can answer."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import and_, func, not_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import DEVICE_MARK
from queues.sql.tables import node_balances, node_limits, nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """One node; amounts in units of ``queues.resources``, by resource, without single devices."""

    name: str
    flavor: str
    #: Ready, not cordoned, present: takes new seats.
    usable: bool
    #: What Muster may give: allocatable less the pods that it has not admitted.
    limits: Mapping[str, int] = field(default_factory=dict)
    #: What seats hold.
    used: Mapping[str, int] = field(default_factory=dict)


async def node_use(tx: AsyncConnection, *, after: str, limit: int) -> tuple[NodeUse, ...]:
    """Nodes by name, at most ``limit`` of those after a name."""
    page = (
        select(nodes.c.name, nodes.c.flavor, nodes.c.usable)
        .where(nodes.c.name > after)
        .order_by(nodes.c.name)
        .limit(limit)
    )
    found = (await tx.execute(page)).all()
    names = [row.name for row in found]
    limits: defaultdict[str, dict[str, int]] = defaultdict(dict)
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for table, amount, amounts in (
        (node_limits, node_limits.c.amount, limits),
        (node_balances, node_balances.c.used, used),
    ):
        whole = not_(func.strpos(table.c.resource, DEVICE_MARK) > 0)
        rows = await tx.execute(
            select(table.c.node, table.c.resource, amount.label("amount")).where(
                and_(table.c.node == func.any(names), whole)
            )
        )
        for row in rows:
            amounts[row.node][row.resource] = row.amount
    return tuple(
        NodeUse(
            name=row.name, flavor=row.flavor, usable=row.usable, limits=limits[row.name], used=used[row.name]
        )
        for row in found
    )
