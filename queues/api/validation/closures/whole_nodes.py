"""Devices of the whole nodes that reservations keep, as they count for the right of a tenant. Pure.

Whole nodes are kept, so all devices of these nodes count, also those that are not asked for: a reservation of a node's
network card has its GPUs as well.
"""

from collections.abc import Collection, Iterable, Mapping

from queues.api.reading.device_shares import PARTS_OF_VGPU
from queues.api.resource_names import is_extended

#: How many of each device a node has.
NodeShape = Mapping[str, int]


def node_shape(node: Mapping[str, int]) -> NodeShape:
    """The devices of a node. ``node``: what it has."""
    return {
        name: units
        for name, units in node.items()
        if units > 0 and is_extended(name) and name not in PARTS_OF_VGPU
    }


def node_shapes(nodes: Iterable[Mapping[str, int]]) -> list[NodeShape]:
    """The devices of nodes, each combination once. ``nodes``: what each has."""
    found = {frozenset(node_shape(node).items()) for node in nodes}
    return [dict(shape) for shape in sorted(found, key=sorted)]


def kept_devices(amounts: Mapping[str, int], shapes: Collection[NodeShape]) -> dict[str, int]:
    """The devices of the whole nodes that a reservation of these amounts can take, before its nodes are chosen.

    Of each device that of the nodes that have most of it together. Empty: no node has all that is asked.
    """
    asked = {name: units for name, units in amounts.items() if units > 0 and is_extended(name)}
    kept: dict[str, int] = {}
    for shape in shapes:
        if asked and all(shape.get(name, 0) > 0 for name in asked):
            nodes = max(-(-units // shape[name]) for name, units in asked.items())
            for name, units in shape.items():
                kept[name] = max(kept.get(name, 0), nodes * units)
    return kept
