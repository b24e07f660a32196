"""Cycles: strongly connected components of a directed graph, without recursion.

Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
"""

from collections import deque
from collections.abc import Iterable, Mapping


def components(arcs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Strongly connected components, with their names in order; a component comes after the components it leads to.

    Arcs to names that are not keys lead nowhere.
    """
    ranks: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: dict[str, None] = {}
    found: list[tuple[str, ...]] = []
    for start in arcs:
        if start in ranks:
            continue
        way = [(start, iter(arcs[start]))]
        while way:
            name, targets = way[-1]
            if name not in ranks:
                ranks[name] = lowest[name] = len(ranks)
                open_[name] = None
            for target in targets:
                if target not in arcs:
                    continue
                if target not in ranks:
                    way.append((target, iter(arcs[target])))
                    break
                if target in open_:
                    lowest[name] = min(lowest[name], ranks[target])
            else:
                way.pop()
                if way:
                    above = way[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == ranks[name]:
                    part: list[str] = []
                    while not part or part[-1] != name:
                        part.append(open_.popitem()[0])
                    found.append(tuple(sorted(part)))
    return found


def cycles(arcs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """A shortest way around for each part that has one, from its first name back to it, in order."""
    return sorted(
        _around(part, arcs) for part in components(arcs) if len(part) > 1 or part[0] in set(arcs[part[0]])
    )


def _around(part: tuple[str, ...], arcs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    first, inside = part[0], set(part)
    came_from: dict[str, str] = {}
    queue = deque([first])
    while first not in came_from:
        name = queue.popleft()
        for target in arcs[name]:
            if target in inside and target not in came_from:
                came_from[target] = name
                queue.append(target)
    way = [first, came_from[first]]
    while way[-1] != first:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
