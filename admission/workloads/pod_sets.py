"""The pod sets of a workload: pods of one shape, how many of them, and which ordinals are done."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from queues.resources import Resources
from queues.workload import NodeFilter, NodeName, PodSet, Requirement


def numbered(pods: PodSet, held: Collection[int], count: int) -> PodSet:
    """A set of interchangeable pods: the ordinals that are held, whatever they are, and the lowest free ones."""
    wanted = set(held)
    ordinal = 0
    while len(wanted) < count:
        wanted.add(ordinal)
        ordinal += 1
    size = max(wanted, default=-1) + 1
    return replace(pods, count=size, done=frozenset(range(size)) - wanted)


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
