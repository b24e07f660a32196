"""Volcano's HyperNodes as one more topology: which domain each node is in, tier by tier. Pure.

A HyperNode contains nodes (by name, by a pattern found in the name, by labels) and other HyperNodes. Of a tier
the domain of a node is the widest HyperNode around it that is not above that tier; so a tier that is left out on
the way from a node to the top costs nothing. Of several of one tier around a node the first by name counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from admission.engine.nodes.levels import tier_key
from admission.facts.cluster import HyperNodeFact, HyperNodeMember, NodeFact
from queues.api.reading.name_patterns import Patterns
from queues.api.validation.cycles import cycles
from queues.label_selectors import selects
from queues.workload import NodeName, Requirement

#: So many tiers make levels, the lowest ones; as many levels as a Topology may have.
MOST_TIERS: Final = 16

Tree = tuple[tuple[str, Mapping[NodeName, str]], ...]


def tiers_of(hypernodes: Iterable[HyperNodeFact]) -> tuple[int, ...]:
    """Tiers that make levels of the topology, ascending."""
    return tuple(sorted({each.tier for each in hypernodes})[:MOST_TIERS])


def hypernode_tree(hypernodes: Iterable[HyperNodeFact], nodes: Sequence[NodeFact]) -> Tree:
    """Key of each tier and the domain of each node in it, the outermost first."""
    by_name = {each.name: each for each in sorted(hypernodes, key=lambda each: each.name)}
    contents = _contents(by_name, nodes)
    around: dict[NodeName, dict[int, str]] = {}
    used = frozenset(tiers_of(by_name.values()))
    for name, hypernode in by_name.items():
        for node in contents[name] if hypernode.tier in used else ():
            around.setdefault(node, {}).setdefault(hypernode.tier, name)
    tiers = tiers_of(by_name.values())[::-1]
    return tuple((tier_key(tier), _domains(around, tiers[: tiers.index(tier) + 1])) for tier in tiers)


def _domains(around: Mapping[NodeName, Mapping[int, str]], tiers: Sequence[int]) -> dict[NodeName, str]:
    """Domain of each node in the last of these tiers, named by the path from the outermost of them."""
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
    direct = _chosen(hypernodes, nodes)
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


def _chosen(
    hypernodes: Mapping[str, HyperNodeFact], nodes: Sequence[NodeFact]
) -> dict[str, frozenset[NodeName]]:
    """Nodes that each HyperNode contains by members of its own."""
    members = {
        name: [member for member in hypernode.members if not member.hypernode]
        for name, hypernode in hypernodes.items()
    }
    names = {node.name for node in nodes}
    texts = {member.regex for each in members.values() for member in each if member.regex is not None}
    by_pattern = _patterns(frozenset(texts)).found_in(node.name for node in nodes)
    by_label = _Labelled(nodes)

    def of(member: HyperNodeMember) -> Iterable[NodeName]:
        if member.exact is not None:
            return {NodeName(member.exact)} & names
        if member.regex is not None:
            return map(NodeName, by_pattern.get(member.regex, ()))
        return by_label.that_meet(member.labels) if member.labels is not None else ()

    return {name: frozenset(node for member in each for node in of(member)) for name, each in members.items()}


class _Labelled:
    """Nodes by their labels, so that a rack of many is not looked for among all nodes."""

    def __init__(self, nodes: Sequence[NodeFact]) -> None:
        self._nodes = nodes
        self._by_value: dict[str, dict[str, list[NodeFact]]] = {}

    def that_meet(self, requirements: Sequence[Requirement]) -> Iterable[NodeName]:
        narrow = next((each for each in requirements if each.operator == "In"), None)
        candidates: Iterable[NodeFact] = self._nodes
        if narrow is not None:
            by_value = self._of(narrow.key)
            candidates = (node for value in set(narrow.values) for node in by_value.get(value, ()))
        return (node.name for node in candidates if selects(requirements, node.labels))

    def _of(self, key: str) -> Mapping[str, Sequence[NodeFact]]:
        if key not in self._by_value:
            found = self._by_value[key] = {}
            for node in self._nodes:
                if key in node.labels:
                    found.setdefault(node.labels[key], []).append(node)
        return self._by_value[key]


@lru_cache(maxsize=2)
def _patterns(texts: frozenset[str]) -> Patterns:
    return Patterns(texts)


#: So many problems of one HyperNode are shown.
_TOLD: Final = 3


def problems_of(hypernodes: Iterable[HyperNodeFact]) -> dict[str, str]:
    """A sentence for each HyperNode that cannot be used, has members that cannot be, or is inside itself."""
    hypernodes = tuple(hypernodes)
    used = frozenset(tiers_of(hypernodes))
    arcs = {
        fact.name: [each.exact for each in fact.members if each.hypernode and each.exact is not None]
        for fact in hypernodes
    }
    around = {way[0]: way for way in cycles(arcs)}
    found = {}
    for fact in hypernodes:
        told = []
        if fact.problems:
            some, more = "; ".join(fact.problems[:_TOLD]), len(fact.problems) - _TOLD
            rest = f"; and {more} more" if more > 0 else ""
            told.append(f"Members that contain no node until they are put right: {some}{rest}.")
        if fact.tier not in used:
            told.append(f"Its tier {fact.tier} makes no level: only the {MOST_TIERS} lowest tiers do.")
        if fact.name in around:
            way = " → ".join(around[fact.name])
            told.append(f"It is inside itself, {way}: all of these contain the same nodes until one lets go.")
        if told:
            found[fact.name] = " ".join(told)
    return found
