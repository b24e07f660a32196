"""What nodes can take, what seats hold there, and whose seats these are. SELECT only: any replica can answer."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, Subquery, any_, func, literal, not_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.read_api import bodies
from queues.read_api.quantities import quantities
from queues.resources import DEVICE_MARK, WHOLE, is_device, scale
from queues.sql.read.pending import may_see
from queues.sql.read.rows import Seen
from queues.sql.statements import TEXTS, attributes
from queues.sql.tables import admissions, node_balances, node_limits, nodes


async def node_use(tx: AsyncConnection, *, after: str, limit: int) -> tuple[bodies.NodeBody, ...]:
    """Nodes by name, at most ``limit`` of those after a name."""
    page = (
        select(nodes.c.name, nodes.c.flavor, nodes.c.usable, nodes.c.closed)
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
        rows = await tx.execute(
            select(table.c.node, table.c.resource, amount.label("amount")).where(
                table.c.node == func.any(names)
            )
        )
        for row in rows:
            amounts[row.node][row.resource] = row.amount
    return tuple(
        bodies.NodeBody(
            **attributes(row, "name", "flavor", "usable", "closed"),
            limits=quantities(limits[row.name]),
            used=quantities(used[row.name]),
            free_devices=free_devices(limits[row.name], used[row.name]),
        )
        for row in found
    )


def free_devices(limits: Mapping[str, int], used: Mapping[str, int]) -> dict[str, int]:
    """Whole devices that no pod uses any part of, by resource, as the engine counts them.

    The amounts have single devices (``nvidia.com/gpu#3``) where a node shares its devices. What is left of a device
    that a pod has a part of is no whole device, also not together with what is left of another one.
    """
    free = {name: amount - used.get(name, 0) for name, amount in limits.items()}
    found = {}
    for name, amount in free.items():
        if "/" not in name or is_device(name):
            continue
        each = [free[one] for one in free if one.startswith(f"{name}{DEVICE_MARK}") and one[-1].isdigit()]
        slack = sum(left for left in each if 0 < left < WHOLE)
        whole = max(0, amount - slack) // scale(name)
        found[name] = min(whole, sum(left >= WHOLE for left in each)) if each else whole
    return found


#: Workloads of one node that are named.
MOST_NAMED: Final = 20


async def node_workloads(
    tx: AsyncConnection, names: Collection[str], seen: Seen | None, *, limit: int = MOST_NAMED
) -> dict[str, bodies.NodeWorkloadsBody]:
    """The workloads with seats on these nodes; a node without any is left out.

    ``seen``: which of them are named; ``limit``: at most so many on each node.
    """
    ranked = _ranked(_seated_on(names), seen)
    rows = await tx.execute(
        select(ranked).where(ranked.c.rank <= max(limit, 1)).order_by(ranked.c.node, ranked.c.rank)
    )
    of_nodes: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        of_nodes[row.node].append(row)
    return {node: _workloads_body(seated, limit) for node, seated in of_nodes.items()}


def _workloads_body(rows: Sequence[Row[Any]], limit: int) -> bodies.NodeWorkloadsBody:
    """The rows of one node: at least one."""
    return bodies.NodeWorkloadsBody(
        items=tuple(
            bodies.SeatedBody(
                **attributes(row, "kind", "uid", "namespace", "name", "queue", "evicting", "seats"),
                held=quantities(_sum(row.shapes)),
            )
            for row in rows
            if row.visible and row.rank <= limit
        ),
        total=rows[0].seen,
        hidden=rows[0].total - rows[0].seen,
    )


def _seated_on(names: Collection[str]) -> Subquery:
    """Workloads with seats on these nodes: a row for each node and workload."""
    seat = (
        func.unnest(admissions.c.nodes, admissions.c.shape_of)
        .table_valued("node", "shape", with_ordinality="place", joins_implicitly=True)
        .render_derived(name="seat")
    )
    asked = any_(literal(sorted(names), TEXTS))
    return (
        select(
            seat.c.node,
            *admissions.c["kind", "uid", "namespace", "name", "queue"],
            func.bool_or(admissions.c.state == "evicting").label("evicting"),
            func.count().label("seats"),
            func.jsonb_agg(admissions.c.shapes.op("->")(seat.c.shape)).label("shapes"),
        )
        .select_from(admissions)  # first: what is unnested is of its row
        .where(
            seat.c.node == asked,
            not_(seat.c.place - 1 == any_(admissions.c.ended)),
        )
        .group_by(seat.c.node, *admissions.c["kind", "uid", "namespace", "name", "queue"])
        .subquery("there")
    )


def _ranked(there: Subquery, seen: Seen | None) -> Subquery:
    """The same with their place on each node, what may be seen first, and how many there are of both."""
    visible = may_see(there.c, seen)
    return select(
        *there.c,
        visible.label("visible"),
        func.row_number()
        .over(
            partition_by=there.c.node, order_by=(visible.desc(), there.c.namespace, there.c.name, there.c.uid)
        )
        .label("rank"),
        func.count().filter(visible).over(partition_by=there.c.node).label("seen"),
        func.count().over(partition_by=there.c.node).label("total"),
    ).subquery("ranked")


def _sum(shapes: Collection[Mapping[str, int]]) -> dict[str, int]:
    held = Counter[str]()
    for shape in shapes:
        held.update(shape)
    return dict(held)
