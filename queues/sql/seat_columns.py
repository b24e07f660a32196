"""Seats as columns: one list per attribute, shapes kept once, so that a gang is one row."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Seat
from queues.resources import Resources
from queues.sql.tables import admissions
from queues.workload import AdmissionId, FlavorName, NodeName, QueueName

#: The columns that ``to_columns`` fills and ``from_columns`` takes, in its order.
SEAT_NAMES: Final = ("pod_sets", "ordinals", "nodes", "flavors", "shape_of", "shapes")


def to_columns(seats: Sequence[Seat]) -> dict[str, Any]:
    """The lists that describe these seats, by column."""
    shapes: dict[Resources, int] = {}
    return {
        "pod_sets": [seat.pod_set for seat in seats],
        "ordinals": [seat.ordinal for seat in seats],
        "nodes": [seat.node for seat in seats],
        "flavors": [seat.flavor for seat in seats],
        "shape_of": [shapes.setdefault(seat.takes, len(shapes)) for seat in seats],
        "shapes": [dict(takes) for takes in shapes],
    }


def from_columns(
    pod_sets: Sequence[str],
    ordinals: Sequence[int],
    nodes: Sequence[NodeName],
    flavors: Sequence[FlavorName],
    shape_of: Sequence[int],
    shapes: Sequence[Mapping[str, int]],
) -> tuple[Seat, ...]:
    """The seats that ``to_columns`` took apart. Names and amounts that many seats repeat are shared."""
    takes = [_takes(*shape.items()) for shape in shapes]
    return tuple(
        Seat(
            pod_set=intern(pod_set),
            ordinal=ordinal,
            node=NodeName(intern(node)),
            flavor=FlavorName(intern(flavor)),
            takes=takes[shape],
        )
        for pod_set, ordinal, node, flavor, shape in zip(
            pod_sets, ordinals, nodes, flavors, shape_of, strict=True
        )
    )


@lru_cache(maxsize=4096)
def _takes(*amounts: tuple[str, int]) -> Resources:
    return Resources(amounts)


async def held_seats(
    tx: AsyncConnection, ids: Sequence[AdmissionId]
) -> list[tuple[AdmissionId, QueueName, str, frozenset[int], tuple[Seat, ...]]]:
    """Lock admissions that are not closed: id, queue, user, indices ended, all seats."""
    rows = await tx.execute(
        select(*admissions.c["id", "queue", "username", "ended", *SEAT_NAMES])
        .where(admissions.c.id == func.any(bindparam(None, list(ids), type_=ARRAY(BigInteger))))
        .order_by(admissions.c.id)
        .with_for_update()
    )
    return [
        (id_, queue, user, frozenset(ended), from_columns(*seats)) for id_, queue, user, ended, *seats in rows
    ]
