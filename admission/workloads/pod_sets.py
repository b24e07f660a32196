"""The pod sets of a workload: pods of one shape, how many of them, and which ordinals are done."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from admission.decode.fields import one
from admission.facts.pods import PodShape
from admission.facts.workloads import NOTHING_BY_NAME
from queues.resources import Resources
from queues.text_format import listed
from queues.workload import (
    NOT_REFUSED,
    NodeName,
    Obstacle,
    PodSet,
    PodSetProgress,
    Preference,
    Requirement,
    Toleration,
)

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
#: Nodes that a sentence names.
_NAMED: Final = 6

#: What Kubernetes lets every pod tolerate for a while that does not say otherwise: no node is chosen for it.
_TOLERATED: Final = frozenset(
    Toleration(f"node.kubernetes.io/{state}", "Exists", "", "NoExecute")
    for state in ("not-ready", "unreachable")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateShapes:
    """What the API server makes of the templates of a workload."""

    #: By pod set; of the others it is not known.
    shapes: Mapping[str, PodShape] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Why it would refuse pods of one of them; None if it is not known to.
    refusal: Obstacle | None = None
    #: The answer is expected any moment, until this second; 0: it is not.
    awaited_until: int = 0


NOTHING_ASKED: Final = TemplateShapes()


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
    ordinals = () if in_a_row else tuple(wanted)
    same = (pods.count, pods.ordinals) == (len(wanted), ordinals)
    return pods if same else replace(pods, count=len(wanted), ordinals=ordinals)


def without_succeeded(
    pod_sets: tuple[PodSet, ...], progress: Mapping[str, PodSetProgress], succeeded: Mapping[str, int]
) -> tuple[PodSet, ...]:
    """The same pod sets without pods that have succeeded and that no others follow.

    ``succeeded``: pods that are seen to have succeeded, by pod set; the status may count them later.
    """
    return tuple(_left(pods, progress.get(pods.name), succeeded.get(pods.name, 0)) for pods in pod_sets)


def _left(pods: PodSet, progress: PodSetProgress | None, seen: int) -> PodSet:
    if progress is None or not progress.wanted or not seen:
        return pods
    left = max(0, progress.wanted - max(seen, progress.succeeded))
    return pods if left >= pods.count else one(replace(pods, count=left))


class SetOnNode(NamedTuple):
    """Pods of one pod set on one node. Other pods of the workload may be taken there."""

    pod_set: str
    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPlaces:
    """Where the stock scheduler refused pods of a workload, as far as that still counts."""

    #: The scheduler's words.
    words: Mapping[SetOnNode, str] = field(default_factory=lambda: _NOTHING)
    #: Domains with such nodes are the last to be tried: the cause may be one of the whole domain. So are nodes that
    #: refused it long ago.
    prefers: tuple[Preference, ...] = ()
    #: Since the last refusal something has changed that may have been a cause.
    may_differ: bool = False

    @property
    def nodes(self) -> frozenset[NodeName]:
        """Nodes that refused any of the pods."""
        return frozenset(place.node for place in self.words)

    def of(self, pod_set: str) -> frozenset[NodeName]:
        """Nodes that refused pods of this pod set."""
        return frozenset(place.node for place in self.words if place.pod_set == pod_set)

    def with_places(self, more: Mapping[SetOnNode, str]) -> "RefusedPlaces":
        """The same with places that refuse a pod at the moment."""
        return replace(self, words={**self.words, **more}) if more else self

    def named(self) -> str:
        """The nodes in a sentence."""
        nodes = sorted(self.nodes)
        return f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes ({listed(nodes, _NAMED)})"


NOWHERE_REFUSED: Final = RefusedPlaces()


def elsewhere(
    pod_sets: Sequence[PodSet], refused: RefusedPlaces, faulty: frozenset[NodeName] = frozenset()
) -> tuple[PodSet, ...]:
    """The same pod sets, each kept off nodes that refused it, and all off those whose ``faulty`` devices they had."""
    if not (refused.words or refused.prefers or faulty):
        return tuple(pod_sets)
    return tuple(
        replace(
            pods,
            nodes=pods.nodes.narrowed(off) if off else pods.nodes,
            prefers=(*pods.prefers, *refused.prefers),
        )
        for pods in pod_sets
        for off in [_off_nodes(refused.of(pods.name), faulty)]
    )


def _off_nodes(refused: frozenset[NodeName], faulty: frozenset[NodeName]) -> list[Requirement]:
    return [
        Requirement(key=key, operator="NotIn", values=tuple(sorted(nodes)), field=True)
        for key, nodes in ((NOT_REFUSED, refused), ("metadata.name", faulty))
        if nodes
    ]


def as_made(pod_sets: tuple[PodSet, ...], shapes: Mapping[str, PodShape]) -> tuple[PodSet, ...]:
    """The same pod sets as the API server makes their pods: by name, at least as large as their templates."""
    if not shapes:
        return pod_sets
    return tuple(_as_made(pods, shape) if (shape := shapes.get(pods.name)) else pods for pods in pod_sets)


def _as_made(pods: PodSet, shape: PodShape) -> PodSet:
    own, made = pods.nodes.tolerations, shape.nodes.tolerations
    kept = tuple(each for each in made if each in own or each not in _TOLERATED)
    nodes = shape.nodes if kept == made else replace(shape.nodes, tolerations=kept)
    nodes = replace(nodes, also=pods.nodes.also) if pods.nodes.also else nodes
    # Rules that the API server adds; others are as they are written, whatever the pod of the trial is called.
    rules = pods.rules or shape.rules
    if (nodes, rules, shape.ports) == (pods.nodes, pods.rules, pods.ports) and shape.takes.fits(pods.takes):
        return pods
    takes = pods.takes.largest(shape.takes)
    return one(replace(pods, takes=takes, nodes=nodes, ports=shape.ports, rules=rules))


def enlarged(pod_sets: tuple[PodSet, ...], larger: Mapping[str, Resources]) -> tuple[PodSet, ...]:
    """The same pod sets with requests of at least this size, by name."""
    if not larger:
        return pod_sets
    return tuple(
        replace(pods, takes=pods.takes.largest(larger[pods.name])) if pods.name in larger else pods
        for pods in pod_sets
    )
