"""Nodes → facts. Pure."""

from collections.abc import Mapping
from sys import intern
from typing import Any

from admission.decode.fields import condition, one, seconds
from admission.facts.cluster import NodeFact
from admission.wire import WireNode
from queues.api.reading.device_shares import with_devices
from queues.errors import InvalidQuantity
from queues.resources import Resources, capacity
from queues.workload import NodeName, Taint


def node_fact(node: WireNode) -> NodeFact:
    """A node; without a Ready condition that is True it is not ready."""
    readiness = condition(node.status.conditions, "Ready")
    ready = readiness is not None and readiness.status == "True"
    return NodeFact(
        name=NodeName(node.metadata.name),
        allocatable=one(
            with_devices(_allocatable(node.status.allocatable or {}), node.metadata.labels or {})
        ),
        # Thousands of nodes repeat the same few hundred texts.
        labels={intern(key): intern(value) for key, value in (node.metadata.labels or {}).items()},
        taints=tuple(
            one(Taint(key=taint.key, value=taint.value or "", effect=taint.effect))
            for taint in node.spec.taints or ()
        ),
        unschedulable=bool(node.spec.unschedulable),
        ready=ready,
        not_ready_since=0 if ready or readiness is None else seconds(readiness.last_transition_time),
    )


def _allocatable(quantities: Mapping[str, Any]) -> Resources:
    amounts = {}
    for name, text in quantities.items():
        try:
            amounts[name] = capacity(name, text)
        except InvalidQuantity:
            continue  # a resource that cannot be read is one that the node does not offer
    return Resources(amounts)
