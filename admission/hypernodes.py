"""Volcano's HyperNodes as one more topology: which domain each node is in, tier by tier. Pure.

A HyperNode contains nodes (by name, by a pattern found in the name, by labels) and other HyperNodes. Of a tier
the domain of a node is the widest HyperNode around it that is not above that tier; so a tier that is left out on
the way from a node to the top costs nothing. Of several of one tier around a node the first by name counts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from admission.engine.topology import tier_key
from admission.facts import HyperNodeFact, Member, NodeFact, holds
from queues.spec.hypernode_rules import InvalidPattern, compiled
from queues.workload import NodeName

Tree = tuple[tuple[str, Mapping[NodeName, str]], ...]


def tree_of(hypernodes: Iterable[HyperNodeFact], nodes: Sequence[NodeFact]) -> Tree:
    """Key of each tier and the domain of each node in it, the outermost first."""
    by_name = {each.name: each for each in sorted(hypernodes, key=lambda each: each.name)}
    contents = _contents(by_name, nodes)
    around: dict[NodeName, dict[int, str]] = {}
    for name, hypernode in by_name.items():
        for node in contents[name]:
            around.setdefault(node, {}).setdefault(hypernode.tier, name)
    tiers = sorted({each.tier for each in by_name.values()}, reverse=True)
    return tuple((tier_key(tier), _domains(around, tiers[: tiers.index(tier) + 1])) for tier in tiers)


def _domains(around: Mapping[NodeName, Mapping[int, str]], tiers: Sequence[int]) -> dict[NodeName, str]:
    """Domain of each node in the last of these tiers, told by the way from the outermost of them."""
    found = {}
    for node, names in around.items():
        path = []
        for tier in tiers:
            widest = max((each for each in names if each <= tier), default=None)
            if widest is not None:
                path.append(names[widest])
        if len(path) == len(tiers):
            found[node] = "/".join(name for at, name in enumerate(path) if at == 0 or path[at - 1] != name)
    return found


def _contents(
    hypernodes: Mapping[str, HyperNodeFact], nodes: Sequence[NodeFact]
) -> dict[str, frozenset[NodeName]]:
    """Nodes inside each HyperNode, those of the ones it contains included.

    Of those that contain one another each has all nodes of all, in whatever order they are looked at; and however
    long a chain of them is, it is followed without recursion.
    """
    direct = {
        name: frozenset(
            node.name
            for member in hypernode.members
            if not member.hypernode
            for node in nodes
            if _chosen(member, node)
        )
        for name, hypernode in hypernodes.items()
    }
    inside: dict[str, frozenset[NodeName]] = {}
    for name in hypernodes:
        reached, open_ = {name}, [name]
        while open_:
            for member in hypernodes[open_.pop()].members:
                inner = member.exact if member.hypernode else None
                if inner is not None and inner in hypernodes and inner not in reached:
                    reached.add(inner)
                    open_.append(inner)
        inside[name] = frozenset().union(*(direct[each] for each in reached))
    return inside


def _chosen(member: Member, node: NodeFact) -> bool:
    if member.exact is not None:
        return node.name == member.exact
    if member.regex is not None:
        pattern = _pattern(member.regex)
        return pattern is not None and pattern.search(node.name) is not None
    return member.labels is not None and all(holds(each, node.labels) for each in member.labels)


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return compiled(text)
    except InvalidPattern:
        return None
