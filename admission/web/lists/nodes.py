"""Nodes, with what seats hold on them and whose seats these are, as the read API shows them."""

from collections.abc import Mapping, Sequence

from admission.read_api import bodies
from admission.web.quantities import quantities
from queues.sql.read.node_use import NodeUse, NodeWorkloads, Seated


def node_bodies(
    nodes: Sequence[NodeUse], workloads: Mapping[str, NodeWorkloads] | None
) -> tuple[bodies.NodeBody, ...]:
    """One body for each node. ``workloads``: by node, None if they were not asked for."""
    return tuple(
        bodies.NodeBody(
            name=node.name,
            flavor=node.flavor,
            usable=node.usable,
            closed=node.closed,
            limits=quantities(node.limits),
            used=quantities(node.used),
            free_devices=node.free_devices,
            workloads=None if workloads is None else _workloads(workloads.get(node.name, NodeWorkloads())),
        )
        for node in nodes
    )


def _workloads(there: NodeWorkloads) -> bodies.NodeWorkloadsBody:
    return bodies.NodeWorkloadsBody(
        items=tuple(map(_seated, there.named)), total=there.seen, hidden=there.hidden
    )


def _seated(one: Seated) -> bodies.SeatedBody:
    return bodies.SeatedBody(
        kind=one.kind,
        namespace=one.namespace,
        name=one.name,
        uid=one.uid,
        queue=one.queue,
        evicting=one.evicting,
        seats=one.seats,
        held=quantities(one.held),
    )
