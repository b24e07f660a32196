"""Whose seats are on nodes. SELECT only: any replica can answer."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, Subquery, any_, func, literal, not_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.read_api.nodes import NodeWorkloadsBody, SeatedBody
from queues.read_api.quantities import quantities
from queues.resources import is_whole_gpu, scale
from queues.sql.read.pending import may_see
from queues.sql.read.rows import Seen
from queues.sql.statements import TEXTS, attributes
from queues.sql.tables import admissions

#: Workloads of one node that are named.
MOST_NAMED: Final = 20
_COLUMNS: Final = ("kind", "uid", "namespace", "name", "queue", "username")


async def node_workloads(
    tx: AsyncConnection, names: Collection[str], seen: Seen | None, *, limit: int = MOST_NAMED
) -> dict[str, NodeWorkloadsBody]:
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


def _workloads_body(rows: Sequence[Row[Any]], limit: int) -> NodeWorkloadsBody:
    """The rows of one node: at least one."""
    return NodeWorkloadsBody(
        items=tuple(
            SeatedBody(
                **attributes(row, "kind", "uid", "namespace", "name", "queue", "evicting", "seats"),
                user=row.username,
                held=quantities(held),
                gpus=sum(units / scale(name) for name, units in held.items() if is_whole_gpu(name)),
            )
            for row in rows
            if row.visible and row.rank <= limit
            for held in (_sum(row.shapes),)
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
            *admissions.c[_COLUMNS],
            func.bool_or(admissions.c.state == "evicting").label("evicting"),
            func.count().label("seats"),
            func.jsonb_agg(admissions.c.shapes.op("->")(seat.c.shape)).label("shapes"),
        )
        .select_from(admissions)  # first: what is unnested is of its row
        .where(
            seat.c.node == asked,
            not_(seat.c.place - 1 == any_(admissions.c.ended)),
        )
        .group_by(seat.c.node, *admissions.c[_COLUMNS])
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
