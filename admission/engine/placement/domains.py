"""Ranks along the topology, for pods that found their places one by one: neighbours by number are neighbours.

The levels that pods ask for, and which domains of a level to try, the best first.

Where others of the same pods sit already, only the domain that they sit in counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Layout, Mask
from queues.admissions import Seat
from queues.plan import Reason
from queues.workload import NodeName, PodSet


def renumber(layout: Layout, pods: PodSet, seats: Sequence[Seat]) -> list[Seat]:
    """The same places for the same ordinals of one pod set without parts, domain by domain."""
    chain = chain_of(layout, levels_of(pods)) or layout.chains[0]

    def place(seat: Seat) -> tuple[int, ...]:
        column = layout.position[seat.node]
        return (*(int(level.of[column]) for level in chain), column)

    ordinals = sorted(seat.ordinal for seat in seats)
    return [
        replace(seat, ordinal=ordinal)
        for seat, ordinal in zip(sorted(seats, key=place), ordinals, strict=True)
    ]


Chain = tuple[TopologyLevel, ...]


def levels_of(pods: PodSet) -> list[str]:
    """Label keys of the levels that the pods of one set ask for among themselves."""
    own = pods.required_topology or pods.preferred_topology
    return [*([own] if own else []), *(part.level for part in pods.partitions if part.level)]


def chain_of(layout: Layout, keys: Sequence[str]) -> Chain | None:
    """The first topology that has all these levels."""
    for chain in layout.chains:
        if {level.key for level in chain}.issuperset(keys):
            return chain
    return None


def unknown_level(layout: Layout, keys: Sequence[str]) -> Reason | None:
    """The first of these levels that no topology has; None: all are known."""
    for key in keys:
        if layout.chain(key) is None:
            known = sorted({level.key for chain in layout.chains for level in chain})
            return reasons.unknown_level(key, known)
    return None


def domains_to_try(
    layout: Layout, key: str, required: bool, capacity: Amounts, pods: int, beside: Sequence[NodeName]
) -> Iterator[Mask | None]:
    """Domains of a level to try, the best first: the one that others sit in, else the tightest that holds all.

    If the level is only preferred, then the wider ones, at last None: anywhere. ``capacity``: pods per node.
    """
    found = layout.chain(key)
    assert found is not None
    chain, at = found
    columns = [layout.position[node] for node in beside if node in layout.position]
    for index in range(at, at - 1 if required else -1, -1):
        level = chain[index]
        if columns:
            domain = int(level.of[columns[0]])
            if domain >= 0 and (not required or all(level.of[column] == domain for column in columns)):
                yield np.equal(level.of, domain)
            continue
        room = level.sums(capacity)
        fitting = np.flatnonzero(room >= pods)
        for domain in fitting[np.argsort(room[fitting], kind="stable")].tolist():
            yield np.equal(level.of, domain)
    if not required:
        yield None


def not_in_one_domain(layout: Layout, key: str, beside: Sequence[NodeName]) -> Reason | None:
    """Why nobody can join those who sit: they are not in one domain of the level. None: they are."""
    found = layout.chain(key)
    assert found is not None
    level = found[0][found[1]]
    domains = sorted({int(level.of[layout.position[node]]) for node in beside if node in layout.position})
    if not domains or (len(domains) == 1 and domains[0] >= 0):
        return None
    return reasons.scattered(key, [level.domains[domain] for domain in domains if domain >= 0])
