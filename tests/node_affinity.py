"""Where pods are pinned."""

from typing import Any


def pinned_nodes(spec: dict[str, Any]) -> set[str]:
    """Node names that the required affinity of a pod's spec lists."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return {
        value
        for term in required.get("nodeSelectorTerms", ())
        for part in term.get("matchFields", ())
        for value in part["values"]
    }
