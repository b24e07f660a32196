"""Node affinity that ties a pod to the nodes of its seats, as DaemonSet pods are tied to theirs: written and removed.

``matchFields metadata.name In [node]`` lets kube-scheduler look at these nodes only. A term may name one value
only, so several nodes are several ORed terms, crossed with the terms that the pod has of its own. On a gated
pod the API server lets terms only grow, so the pod's own terms keep their places.

Both directions exist for documents (``pinned``, ``unpinned``) and for values (``pinned_affinity``, ``without_pin``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from queues.workload import NodeFilter, Requirement

Term = Mapping[str, Any]
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
#: Equal terms become equal texts.
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def tied(terms: Sequence[Term], nodes: Sequence[str]) -> list[Term]:
    """Required terms, as documents, narrowed to these nodes.

    A term that asks nothing matches nothing in Kubernetes; filled in, it would match, so it stays empty.
    """
    return [
        _tied(term, node) if _asks(term) or not terms else term for node in nodes for term in (terms or [{}])
    ]


def _asks(term: Term) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _tied(term: Term, node: str) -> Term:
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {**term, "matchFields": [*(term.get("matchFields") or ()), pin]}


def pinned(affinity: Mapping[str, Any] | None, nodes: Sequence[str]) -> dict[str, Any]:
    """An ``affinity`` as a document, its node part narrowed to these nodes."""
    node_affinity = (affinity or {}).get("nodeAffinity") or {}
    terms = (node_affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    required = {"nodeSelectorTerms": tied(terms, nodes)}
    return {**(affinity or {}), "nodeAffinity": {**node_affinity, REQUIRED: required}}


def pinned_affinity(nodes: Sequence[str], own: NodeFilter) -> dict[str, Any]:
    """The ``affinity`` part of a merge patch that ties a pod with these required terms to these nodes."""
    required = {"nodeSelectorTerms": tied([_written(term) for term in own.affinity], nodes)}
    return {"nodeAffinity": {REQUIRED: required}}


def own_affinity(own: NodeFilter) -> dict[str, Any]:
    """The same for a pod that is to be tied to no node (any more): its own terms only."""
    terms = [_written(term) for term in own.affinity]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms} if terms else None}}


def _written(term: Sequence[Requirement]) -> Term:
    expressions = [_expression(requirement) for requirement in term if not requirement.field]
    fields = [_expression(requirement) for requirement in term if requirement.field]
    parts = (("matchExpressions", expressions), ("matchFields", fields))
    return {name: requirements for name, requirements in parts if requirements}


def _expression(requirement: Requirement) -> dict[str, Any]:
    document: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        document["values"] = list(requirement.values)
    return document


def unpinned(affinity: Mapping[str, Any] | None) -> dict[str, Any]:
    """An ``affinity`` as a document, as it was before ``pinned`` narrowed it; {}: it asked for nothing."""
    own = dict(affinity or {})
    node_affinity = dict(own.pop("nodeAffinity", None) or {})
    required = node_affinity.pop(REQUIRED, None)
    if required is not None:
        terms = [_without_last_field(term) for term in required.get("nodeSelectorTerms") or ()]
        # A term that asked for nothing but the node was the only one; others that ask nothing match nothing.
        if all(term is not None for term in terms):
            # Each term was there once for each node.
            once = list({_ENCODER.encode(term): term for term in terms}.values())
            node_affinity[REQUIRED] = {"nodeSelectorTerms": once}
    if node_affinity:
        own["nodeAffinity"] = node_affinity
    return own


def _without_last_field(term: Term) -> Term | None:
    """A term without the seat's node, which is always the last field; None if nothing else was asked for."""
    fields = list(term.get("matchFields") or ())
    if not fields:
        return dict(term)
    own = {key: value for key, value in term.items() if key != "matchFields"}
    if fields[:-1]:
        own["matchFields"] = fields[:-1]
    return own or None


def without_pin(nodes: NodeFilter) -> NodeFilter:
    """A filter as it was before ``pinned_affinity`` crossed its terms with nodes."""
    terms = dict.fromkeys(
        tuple(requirement for requirement in term if not _is_pin(requirement)) for term in nodes.affinity
    )
    if () in terms:
        return replace(nodes, affinity=())  # a term that asked for nothing but the node
    return replace(nodes, affinity=tuple(terms))


def _is_pin(requirement: Requirement) -> bool:
    return requirement.field and requirement.operator == "In" and len(requirement.values) == 1
