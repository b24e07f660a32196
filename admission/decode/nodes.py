"""Nodes → facts. Pure."""

from collections.abc import Mapping
from sys import intern
from typing import Any

from admission.decode.fields import condition, one, seconds
from admission.facts.cluster import NodeFact
from admission.node_recovery.state import read_state
from admission.wire import WireNode
from queues.api import names
from queues.api.reading.device_shares import with_devices
from queues.errors import InvalidQuantity
from queues.resources import NOTHING, Resources, capacity
from queues.workload import NodeName, Taint


def node_fact(node: WireNode) -> NodeFact:
    """A node; without a Ready condition that is True it is not ready."""
    readiness = condition(node.status.conditions, "Ready")
    ready = readiness is not None and readiness.status == "True"
    allocatable = _amounts(node.status.allocatable or {})
    annotations = node.metadata.annotations or {}
    recovery = annotations.get(names.RECOVERY, "")
    return NodeFact(
        name=NodeName(node.metadata.name),
        allocatable=one(with_devices(allocatable, node.metadata.labels or {})),
        withheld=one(_withheld(node.status.capacity or {}, allocatable)),
        # Thousands of nodes repeat the same few hundred texts.
        labels={intern(key): intern(value) for key, value in (node.metadata.labels or {}).items()},
        taints=tuple(
            one(Taint(key=taint.key, value=taint.value or "", effect=taint.effect))
            for taint in node.spec.taints or ()
        ),
        unschedulable=bool(node.spec.unschedulable),
        ready=ready,
        accepted=read_state(recovery).accepted,
        recovery=recovery,
        not_ready_since=0 if ready or readiness is None else seconds(readiness.last_transition_time),
    )


def _amounts(quantities: Mapping[str, Any]) -> Resources:
    amounts = {}
    for name, text in quantities.items():
        try:
            amounts[name] = capacity(name, text)
        except InvalidQuantity:
            continue  # a resource that cannot be read is one that the node does not offer
    return Resources(amounts)


def _withheld(has: Mapping[str, Any], allocatable: Resources) -> Resources:
    """What the node has of extended resources and does not offer.

    The kubelet counts all devices of a plugin in ``capacity``, and in ``allocatable`` those that it calls healthy.
    """
    extended = {name: text for name, text in has.items() if "/" in name}
    if not extended:
        return NOTHING
    beyond = _amounts(extended) - Resources({name: allocatable.get(name) for name in extended})
    return Resources({name: beyond[name] for name in beyond if beyond[name] > 0})
