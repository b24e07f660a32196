"""Levels of a topology: the domain of each node, by node labels or by HyperNodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from queues.api.names import HYPERNODE_TIER
from queues.workload import NodeName

HOST: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, eq=False)
class TopologyLevel:
    """The domains of one topology level. A node that lacks the labels up to this level belongs to no domain."""

    #: Node label key.
    key: str
    #: Names of the domains: label values from the outermost level to this one, joined by "/".
    domains: tuple[str, ...]
    #: (N,) domain of each node, -1: none.
    of: NDArray[np.intp]
    #: Node positions in the order of domains; None if they are in that order already.
    order: NDArray[np.intp] | None
    #: (D,) where each domain begins in that order.
    starts: NDArray[np.intp]

    def sums(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum of a (N,) array over each domain: (D,). The array itself where every node is a domain."""
        if self.order is None and len(self.starts) == len(self.of):
            return amounts
        if not len(self.starts):
            return np.zeros(0, np.int64)
        ordered = amounts if self.order is None else amounts[self.order]
        return np.add.reduceat(ordered, self.starts)

    def first(self) -> NDArray[np.intp]:
        """(D,) the first node of each domain."""
        return self.starts if self.order is None else self.order[self.starts]

    def members(self, domain: int) -> NDArray[np.intp]:
        """Positions of the nodes of one domain, ascending."""
        end = int(self.starts[domain + 1]) if domain + 1 < len(self.starts) else None
        start = int(self.starts[domain])
        if self.order is None:
            return np.arange(start, len(self.of) if end is None else end)
        return self.order[start:end]


def tier_key(tier: int) -> str:
    """Key of the level of a tier of Volcano's HyperNodes."""
    return f"{HYPERNODE_TIER}{tier}"


def by_labels(
    names: Sequence[NodeName], labels: Sequence[Mapping[str, str]], keys: Sequence[str]
) -> tuple[TopologyLevel, ...]:
    """Levels of nodes with these labels, by the keys of a Topology, outermost first; the host comes last."""
    above = [key for key in keys if key != HOST]
    # A node belongs to a topology that names the host only if it carries that label too.
    inside = [HOST not in keys or HOST in of_node for of_node in labels]
    return (*(_level(labels, inside, above[: depth + 1]) for depth in range(len(above))), _hosts(names))


def by_name(
    names: Sequence[NodeName], tree: Sequence[tuple[str, Mapping[NodeName, str]]]
) -> tuple[TopologyLevel, ...]:
    """Levels of nodes by level key and domain of each node, outermost first; the host comes last."""
    return (
        *(_domains(key, [domains.get(name) for name in names]) for key, domains in tree),
        _hosts(names),
    )


def _level(labels: Sequence[Mapping[str, str]], inside: Sequence[bool], keys: Sequence[str]) -> TopologyLevel:
    return _domains(
        keys[-1],
        [
            "/".join(of_node[key] for key in keys)
            if inside[column] and all(key in of_node for key in keys)
            else None
            for column, of_node in enumerate(labels)
        ],
    )


def _domains(key: str, paths: Sequence[str | None]) -> TopologyLevel:
    ids: dict[str, int] = {}
    of = np.full(len(paths), -1, dtype=np.intp)
    for column, path in enumerate(paths):
        if path is not None:
            of[column] = ids.setdefault(path, len(ids))
    order = np.argsort(of, kind="stable")
    order = order[int(np.count_nonzero(of < 0)) :]
    starts = np.searchsorted(of[order], np.arange(len(ids)))
    in_order = len(order) == len(paths) and bool((order == np.arange(len(paths))).all())
    return TopologyLevel(key, tuple(ids), of, None if in_order else order, starts)


def _hosts(names: Sequence[NodeName]) -> TopologyLevel:
    every = np.arange(len(names), dtype=np.intp)
    return TopologyLevel(HOST, tuple(names), every, None, every)
