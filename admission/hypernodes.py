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
    contents: dict[str, frozenset[NodeName]] = {}
    for name in by_name:
        _contents(name, by_name, nodes, contents, frozenset())
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
    name: str,
    hypernodes: Mapping[str, HyperNodeFact],
    nodes: Sequence[NodeFact],
    known: dict[str, frozenset[NodeName]],
    above: frozenset[str],
) -> frozenset[NodeName]:
    """Nodes inside a HyperNode, those of the ones it contains included. One that contains itself stops there."""
    if name in known:
        return known[name]
    found: set[NodeName] = set()
    for member in hypernodes[name].members:
        if not member.hypernode:
            found.update(node.name for node in nodes if _chosen(member, node))
        elif member.exact is not None and member.exact in hypernodes.keys() - above - {name}:
            found |= _contents(member.exact, hypernodes, nodes, known, above | {name})
    known[name] = frozenset(found)
    return known[name]


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
