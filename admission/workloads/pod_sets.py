"""The pod sets of a workload: pods of one shape, how many of them, and which ordinals are done."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from queues.resources import Resources
from queues.workload import NodeFilter, NodeName, PodSet, Requirement


class FreeOrdinals:
    """Gives out the ordinals of one pod set that no pod has yet. Time and memory follow the number of pods."""

    def __init__(self, taken: Iterable[int]) -> None:
        self._taken = set(taken)
        self._lowest = 0

    def take(self, wished: int | None = None) -> int:
        """The wished ordinal if it is free, else the lowest one that is."""
        if wished is None or wished in self._taken:
            while self._lowest in self._taken:
                self._lowest += 1
            wished = self._lowest
        self._taken.add(wished)
        return wished


def numbered(pods: PodSet, held: Collection[int], count: int) -> PodSet:
    """A set of interchangeable pods: the ordinals that are held, whatever they are, and the lowest free ones."""
    if not held and count == pods.count and not (pods.done or pods.ordinals):
        return pods
    free = FreeOrdinals(held)
    wanted = sorted((*held, *(free.take() for _ in range(count - len(held)))))
    in_a_row = not wanted or wanted[-1] == len(wanted) - 1
    return replace(pods, count=len(wanted), ordinals=() if in_a_row else tuple(wanted))


def elsewhere(pod_sets: Sequence[PodSet], nodes: frozenset[NodeName]) -> tuple[PodSet, ...]:
    """The same pod sets, kept off these nodes."""
    if not nodes:
        return tuple(pod_sets)
    off = Requirement(key="metadata.name", operator="NotIn", values=tuple(sorted(nodes)), field=True)
    return tuple(replace(pods, nodes=_with(pods.nodes, off)) for pods in pod_sets)


def _with(own: NodeFilter, requirement: Requirement) -> NodeFilter:
    if not own.affinity:
        return replace(own, affinity=((requirement,),))
    # A term that asks nothing matches nothing, and stays so.
    return replace(own, affinity=tuple((*term, requirement) if term else term for term in own.affinity))


def enlarged(pod_sets: tuple[PodSet, ...], larger: Mapping[str, Resources]) -> tuple[PodSet, ...]:
    """The same pod sets with requests of at least this size, by name."""
    if not larger:
        return pod_sets
    return tuple(
        replace(pods, takes=pods.takes.largest(larger[pods.name])) if pods.name in larger else pods
        for pods in pod_sets
    )
