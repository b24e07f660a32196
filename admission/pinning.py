"""Node affinity that ties a pod to the nodes of its seats, as DaemonSet pods are tied to theirs.

``matchFields metadata.name In [node]`` lets kube-scheduler look at those nodes only. A term may name one value
only, so several nodes are several ORed terms, crossed with the terms that the pod has of its own. On a gated
pod the API server lets terms only grow, so the pod's own expressions keep their places.
"""

from collections.abc import Sequence
from typing import Any

from queues.workload import NodeFilter, NodeName, Requirement


def pinned_affinity(nodes: Sequence[NodeName], own: NodeFilter) -> dict[str, Any]:
    """The ``affinity`` part of a merge patch that ties a pod with these required terms to these nodes."""
    terms = [_pinned(term, node) for node in nodes for term in (own.affinity or ((),))]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def own_affinity(own: NodeFilter) -> dict[str, Any]:
    """The same for a pod that is to be tied to no node (any more): its own terms only."""
    terms = [_written(term) for term in own.affinity]
    required = {"nodeSelectorTerms": terms} if terms else None
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _pinned(term: Sequence[Requirement], node: NodeName) -> dict[str, Any]:
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    written = _written(term)
    return {**written, "matchFields": [*written.get("matchFields", ()), pin]}


def _written(term: Sequence[Requirement]) -> dict[str, list[dict[str, Any]]]:
    expressions = [_expression(requirement) for requirement in term if not requirement.field]
    fields = [_expression(requirement) for requirement in term if requirement.field]
    parts = (("matchExpressions", expressions), ("matchFields", fields))
    return {name: requirements for name, requirements in parts if requirements}


def _expression(requirement: Requirement) -> dict[str, Any]:
    document: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        document["values"] = list(requirement.values)
    return document
