"""Cycles of a directed graph: its strongly connected components, found without recursion.

Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
"""

from collections import deque
from collections.abc import Iterable, Mapping


def components(arcs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Strongly connected components, each with its names sorted. A component comes after those it has arcs to.

    Arcs to names that are not keys are ignored.
    """
    ranks: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: dict[str, None] = {}
    found: list[tuple[str, ...]] = []
    for start in arcs:
        if start in ranks:
            continue
        stack = [(start, iter(arcs[start]))]
        while stack:
            name, targets = stack[-1]
            if name not in ranks:
                ranks[name] = lowest[name] = len(ranks)
                open_[name] = None
            for target in targets:
                if target not in arcs:
                    continue
                if target not in ranks:
                    stack.append((target, iter(arcs[target])))
                    break
                if target in open_:
                    lowest[name] = min(lowest[name], ranks[target])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == ranks[name]:
                    component: list[str] = []
                    while not component or component[-1] != name:
                        component.append(open_.popitem()[0])
                    found.append(tuple(sorted(component)))
    return found


def cycles(arcs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """A shortest cycle of each component that has one, from the component's first name back to it; sorted."""
    return sorted(
        _shortest_cycle(component, arcs)
        for component in components(arcs)
        if len(component) > 1 or component[0] in set(arcs[component[0]])
    )


def _shortest_cycle(component: tuple[str, ...], arcs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    first, inside = component[0], set(component)
    came_from: dict[str, str] = {}
    queue = deque([first])
    while first not in came_from:
        name = queue.popleft()
        for target in arcs[name]:
            if target in inside and target not in came_from:
                came_from[target] = name
                queue.append(target)
    backwards = [first, came_from[first]]
    while backwards[-1] != first:
        backwards.append(came_from[backwards[-1]])
    return tuple(reversed(backwards))
