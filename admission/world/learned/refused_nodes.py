"""Nodes that workloads avoid: those on which the stock scheduler refused their pods, until the cause can have changed,
and those that may give a gang the unhealthy device again that it had there.

A node is left out for pods of the pod set that it refused: a launcher may have to be where no worker can.

Why it refuses need not be in any books (the anti-affinity of pods elsewhere, a plugin of the cluster's own), so the
same place would look as good as before. A refusal is forgotten when what the workload asks, its volumes, or the node's
labels, taints or allocatable amounts change; when a pod of others goes, if the scheduler's words are about other pods;
and after a time (``memory_of``). Nodes near one that refused are tried last, where the cause may be one of a domain,
and so are those that refused before. Not stored: a new leader tries once more where it failed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from admission.engine.nodes.levels import HOST
from admission.facts.cluster import NodeFact
from admission.workloads.pod_sets import NOWHERE_REFUSED, RefusedPlaces, SetOnNode
from admission.workloads.rollback import goes_with_pods, is_of_a_domain, memory_of
from admission.workloads.state import WorkloadState
from queues.workload import NOT_REFUSED, NodeName, Preference, Requirement, WorkloadKey

#: Labels of domains that Kubernetes knows, the widest first.
_DOMAINS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
#: Weight of one node that refused: wishes of users are small compared with it.
_WEIGHT: Final = 1_000_000
#: Domains that are kept for one workload, each by itself.
_DOMAINS_KEPT: Final = 100


class _Refusal(NamedTuple):
    words: str
    until: int


@dataclass(slots=True)
class _Refused:
    """What is remembered of one workload."""

    #: Of its object; what another one was refused does not count.
    revision: str
    by_place: dict[SetOnNode, _Refusal] = field(default_factory=dict)
    #: Nodes that refused it longer ago: others are tried before them.
    earlier: set[NodeName] = field(default_factory=set)
    #: As ``RefusedPlaces.may_differ``.
    may_differ: bool = False
    #: The same as the workload sees it; None if to be worked out again.
    places: RefusedPlaces | None = None


class RefusedNodes:
    """Refusals by workload and node. ``nodes``: the nodes as they are; ``levels``: labels of topology levels."""

    def __init__(
        self, nodes: Mapping[NodeName, NodeFact], levels: Callable[[], Iterable[tuple[str, ...]]]
    ) -> None:
        self._known: dict[WorkloadKey, _Refused] = {}
        self._nodes = nodes
        self._levels = levels

    def note(self, key: WorkloadKey, revision: str, refusing: Mapping[SetOnNode, str], now: int) -> bool:
        """The scheduler refuses pods of a workload in these places, with these words. Whether that is news."""
        if not refusing:
            return False
        known = self._known.get(key)
        if known is None or known.revision != revision:
            known = self._known[key] = _Refused(revision)
        nodes = {place.node for place in refusing}
        is_news = known.may_differ or not known.earlier.isdisjoint(nodes)
        for place, words in refusing.items():
            before = known.by_place.get(place)
            is_news |= before is None or before.words != words
            known.by_place[place] = _Refusal(words, now + memory_of(words))
        if is_news:
            known.earlier -= nodes
            known.may_differ = False
            known.places = None
        return is_news

    def of(self, key: WorkloadKey, revision: Callable[[], str]) -> RefusedPlaces:
        """Where a workload was refused, if its object is the same still."""
        known = self._known.get(key)
        if known is None:
            return NOWHERE_REFUSED
        if known.revision != revision():
            del self._known[key]
            return NOWHERE_REFUSED
        if known.places is None:
            words = {place: refusal.words for place, refusal in sorted(known.by_place.items())}
            known.places = RefusedPlaces(
                words=words, prefers=self._prefers(words, known.earlier), may_differ=known.may_differ
            )
        return known.places

    def expire(self, now: int) -> set[WorkloadKey]:
        """Forget what is too old; the workloads that may use such nodes again."""
        changed = set()
        for key, known in self._known.items():
            if over := {place for place, refusal in known.by_place.items() if refusal.until <= now}:
                known.by_place = {place: known.by_place[place] for place in known.by_place.keys() - over}
                known.earlier |= {place.node for place in over}
                known.places = None
                changed.add(key)
        return changed

    def put_node(self, name: NodeName, before: NodeFact | None, after: NodeFact | None) -> set[WorkloadKey]:
        """A node appeared, changed or went away; the workloads for which it is as good as any again."""
        if not self._known or (before is not None and after is not None and _says(before) == _says(after)):
            return set()
        return self._drop(lambda node, _: node == name)

    def levels_changed(self) -> set[WorkloadKey]:
        """Levels are others now; the workloads that may wish to be outside of other domains."""
        for known in self._known.values():
            known.places = None
        return set(self._known)

    def pod_left(self, node: NodeName, owner: WorkloadKey | None) -> set[WorkloadKey]:
        """A pod of ``owner`` (of no workload if None) has left a node; the workloads that may use nodes again."""
        if not self._known:
            return set()
        near = self._domains_of(node)
        return self._drop(
            lambda other, refusal: (
                goes_with_pods(refusal.words)
                and (
                    other == node or (is_of_a_domain(refusal.words) and bool(near & self._domains_of(other)))
                )
            ),
            but=owner,
        )

    def forget(self, key: WorkloadKey) -> bool:
        """The workload is gone, or its volumes have changed. Whether anything was remembered."""
        return self._known.pop(key, None) is not None

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if before in self._known:
            self._known[after] = self._known.pop(before)

    def _drop(
        self, is_over: Callable[[NodeName, _Refusal], bool], but: WorkloadKey | None = None
    ) -> set[WorkloadKey]:
        changed = set()
        for key, known in self._known.items():
            refusals = () if key == but else known.by_place.items()
            over = [place for place, refusal in refusals if is_over(place.node, refusal)]
            for place in over:
                del known.by_place[place]
            if over:
                changed.add(key)
                known.may_differ = True
                known.places = None
        return changed

    def _prefers(
        self, words: Mapping[SetOnNode, str], earlier: AbstractSet[NodeName]
    ) -> tuple[Preference, ...]:
        """Wishes for nodes outside of the domains of those that refused; the more of them refused, the stronger."""
        wishes = [Preference(_WEIGHT, (_not_one_of(earlier),))] if earlier else []
        nodes = {place.node for place in words if is_of_a_domain(words[place])}
        refusing = Counter(domain for node in nodes for domain in self._domains_of(node))
        wishes += [
            Preference(_WEIGHT * times, (Requirement(label, "NotIn", (value,)),))
            for (label, value), times in sorted(refusing.most_common(_DOMAINS_KEPT))
        ]
        return tuple(wishes)

    def _domains_of(self, node: NodeName) -> frozenset[tuple[str, str]]:
        """The domains that a node is in, as labels with their values. The node itself is none."""
        fact = self._nodes.get(node)
        if fact is None:
            return frozenset()
        labels = {*_DOMAINS, *(label for levels in self._levels() for label in levels)} - {HOST}
        return frozenset((label, fact.labels[label]) for label in labels if label in fact.labels)


def _not_one_of(nodes: AbstractSet[NodeName]) -> Requirement:
    return Requirement(NOT_REFUSED, "NotIn", tuple(sorted(nodes)), field=True)


def _says(node: NodeFact) -> tuple[object, ...]:
    """What the scheduler may refuse a pod by."""
    return (node.labels, node.taints, node.allocatable, node.unschedulable)


@dataclass(slots=True)
class _OnFaultyDevices:
    """Nodes on whose unhealthy devices a workload was."""

    nodes: frozenset[NodeName] = frozenset()
    #: Those on which it was put twice: whatever seems to be held back, they do give the devices to it.
    twice: frozenset[NodeName] = frozenset()
    #: Those that may give the devices to it again.
    offering: frozenset[NodeName] = frozenset()


class AvoidedNodes:
    """Nodes to leave out, by workload, each until its devices are healthy.

    ``is_faulty``: whether a node has unhealthy devices; ``offers_faulty_devices``: whether pods may get them.
    """

    def __init__(
        self, is_faulty: Callable[[NodeName], bool], offers_faulty_devices: Callable[[NodeName], bool]
    ) -> None:
        self._faulty: dict[WorkloadKey, _OnFaultyDevices] = {}
        self._is_faulty = is_faulty
        self._offers_faulty_devices = offers_faulty_devices

    def note_setback(self, key: WorkloadKey, state: WorkloadState) -> None:
        """The workload goes back whole, from this state."""
        if state.faulty_nodes:
            found = self._faulty.setdefault(key, _OnFaultyDevices())
            found.twice |= found.nodes & state.faulty_nodes
            found.nodes |= state.faulty_nodes
            found.offering = self._offering(found)

    def nodes(self, key: WorkloadKey) -> frozenset[NodeName]:
        """Nodes to leave out."""
        faulty = self._faulty.get(key)
        return frozenset() if faulty is None else faulty.offering

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads for which a node has become usable, or has not: its devices are healthy, or held back by the device
        plugin. A plugin that holds a device back may offer it again, so what is healthy alone is forgotten."""
        changed = set()
        for key, found in list(self._faulty.items()):
            before, found.nodes = found.offering, frozenset(filter(self._is_faulty, found.nodes))
            found.offering = self._offering(found)
            if found.offering != before:
                changed.add(key)
            if not found.nodes:
                del self._faulty[key]
        return changed

    def _offering(self, found: _OnFaultyDevices) -> frozenset[NodeName]:
        return frozenset(filter(self._offers_faulty_devices, found.nodes)) | (found.nodes & found.twice)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._faulty.pop(key, None)

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if before in self._faulty:
            self._faulty[after] = self._faulty.pop(before)
