"""Facts of pods, workloads and nodes with their devices counted as amounts: those that are claimed (dynamic resource
allocation), and those that agents on the nodes report. Pure.

What counts follows from several objects, which may come and change in any order. So pods and workloads with claims, and
nodes, are kept as they were seen, and are reported anew when something changes that their devices follow from.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import FlavorFact, NodeFact
from admission.facts.devices import (
    DeviceClassFact,
    NodeDevicesFact,
    ResourceClaimFact,
    ResourceSliceFact,
)
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.world.admissions import KeyIndex, replaced
from admission.world.devices.resource_claims import Place, Pool, ResourceClaims, with_claims
from admission.world.devices.slice_devices import (
    DeviceClasses,
    SliceAmounts,
    of_newest_generation,
    slice_amounts,
    with_devices,
)
from queues.workload import NodeName

#: Kind and key of a change.
_Subject = tuple[FactKind, str]


class DeviceFacts:
    """Part of the world: the way in for changes."""

    def __init__(self) -> None:
        self.classes = DeviceClasses()
        self.claims = ResourceClaims(self.classes)
        #: Where ResourceClaims and ResourceClaimTemplates are, by uid.
        self._places: dict[str, Place] = {}
        #: Pods and workloads with claims, as they were seen; and which of them name a claim or template.
        self._claimants: dict[_Subject, Change] = {}
        self._users: KeyIndex[tuple[FactKind, Place], _Subject] = KeyIndex()
        self._slices: dict[str, ResourceSliceFact] = {}
        self._slices_on: KeyIndex[NodeName, str] = KeyIndex()
        self._slices_of: KeyIndex[Pool, str] = KeyIndex()
        #: What agents report, by node.
        self._reported: dict[NodeName, NodeDevicesFact] = {}
        #: Nodes as they were seen.
        self._nodes: dict[NodeName, Change] = {}

    def resolved(self, changes: Iterable[Change]) -> Iterator[Change]:
        """The changes with devices counted, and what follows from them for other objects. Lazy: take all of it.

        Changes of what devices follow from are not passed on.
        """
        for change in changes:
            match change.kind, change.fact:
                case ((FactKind.POD | FactKind.WORKLOAD), _):
                    pools = self._note_claimant(change)
                    yield self._counted(change)
                    yield from self._held_anew(pools)
                case FactKind.NODE, _:
                    replaced(self._nodes, NodeName(change.key), None if change.fact is None else change)
                    yield self._on_node(change)
                case FactKind.FLAVOR, FlavorFact() | None:
                    yield change
                    if self.classes.put_flavor(change.key, change.fact):
                        yield from self._all()
                case FactKind.DEVICE_CLASS, DeviceClassFact() | None:
                    if self.classes.put_class(change.key, change.fact):
                        yield from self._all()
                case (
                    (FactKind.CLAIM_TEMPLATE | FactKind.RESOURCE_CLAIM),
                    (ResourceClaimFact() | None) as claim,
                ):
                    yield from self._put_claim(change, claim)
                case FactKind.RESOURCE_SLICE, ResourceSliceFact() | None:
                    yield from self._put_slice(change.key, change.fact)
                case FactKind.NODE_DEVICES, NodeDevicesFact() | None:
                    yield from self._put_reported(NodeName(change.key), change.fact)
                case _:
                    yield change

    def reported(self, node: NodeName) -> NodeDevicesFact | None:
        """What the agent of a node reports, with the pods that have its devices by claims; None if it has no agent."""
        fact = self._reported.get(node)
        claims = self.claims.ids_in(self.slices_on(node)) if fact is not None else {}
        if fact is None or not claims:
            return fact
        pods = {place: self._pods_with(place) for place in claims}
        return with_claims(fact, claims, pods)

    def _pods_with(self, place: Place) -> list[str]:
        """Uids of the pods that name a claim."""
        users = self._users.of((FactKind.RESOURCE_CLAIM, place))
        return [key for kind, key in users if kind is FactKind.POD]

    def slices_on(self, node: NodeName) -> list[ResourceSliceFact]:
        """The slices of a node that count."""
        return of_newest_generation(self._slices[each] for each in self._slices_on.of(node))

    def _note_claimant(self, change: Change) -> set[Pool]:
        """Keep a pod or workload with claims; returns pools in which its devices are others than before."""
        subject = (change.kind, change.key)
        before = self._claimants.pop(subject, None)
        if before is None and not _has_claims(change):
            return set()
        named, names = _named(before), _named(change)
        if names:
            self._claimants[subject] = change
        self._users.move(subject, named, names)
        claims = (place for kind, place in named ^ names if kind is FactKind.RESOURCE_CLAIM)
        return {each.of for place in claims for each in self.claims.allocated(place)}

    def _held_anew(self, pools: Iterable[Pool]) -> Iterator[Change]:
        """Nodes with an unhealthy device and devices of these pools, reported anew: other pods have them now."""
        for node in sorted({self._slices[each].node for pool in pools for each in self._slices_of.of(pool)}):
            reported = self._reported.get(node)
            if node in self._nodes and reported is not None and reported.has_faults:
                yield self._on_node(self._nodes[node])

    def _counted(self, change: Change) -> Change:
        match change.fact:
            case PodFact(claims=claims) as pod if claims:
                return replace(change, fact=self.claims.in_pod(pod))
            case WorkloadFact(claims=by_pod_set) as workload if by_pod_set:
                return replace(change, fact=self.claims.in_workload(workload))
        return change

    def _put_claim(self, change: Change, fact: ResourceClaimFact | None) -> Iterator[Change]:
        place = self._places.pop(change.key, None)
        if fact is not None:
            place = self._places[change.key] = (fact.namespace, fact.name)
        if place is None:
            return
        pools = set[Pool]()
        if change.kind is FactKind.CLAIM_TEMPLATE:
            self.claims.put_template(place, fact)
        else:
            pools = self.claims.put_claim(place, fact)
        for subject in list(self._users.of((change.kind, place))):
            yield self._counted(self._claimants[subject])
        yield from self._held_anew(pools)

    def _on_node(self, change: Change) -> Change:
        """The node with its devices: as many as it or its slices announce, less unhealthy ones."""
        if not isinstance(change.fact, NodeFact):
            return change
        name = change.fact.name
        reported = self.reported(name)
        slices = self.slices_on(name)
        amounts = slice_amounts(slices, self.classes, reported) if slices else SliceAmounts()
        fact = with_devices(change.fact, amounts, reported)
        return change if fact is change.fact else replace(change, fact=fact)

    def _put_reported(self, node: NodeName, fact: NodeDevicesFact | None) -> Iterator[Change]:
        seen = self._nodes.get(node)
        before = None if seen is None else self._on_node(seen)
        replaced(self._reported, node, fact)
        # Agents report each pod that gets devices. Nothing follows from that unless one of them is unhealthy.
        if seen is not None and (after := self._on_node(seen)) != before:
            yield after

    def _put_slice(self, name: str, fact: ResourceSliceFact | None) -> Iterator[Change]:
        before = replaced(self._slices, name, fact)
        if before is not None:
            self._slices_on.discard(before.node, name)
            self._slices_of.discard((before.driver, before.pool), name)
        if fact is not None:
            self._slices_on.add(fact.node, name)
            self._slices_of.add((fact.driver, fact.pool), name)
        for node in sorted({each.node for each in (before, fact) if each is not None}):
            if node in self._nodes:
                yield self._on_node(self._nodes[node])

    def _all(self) -> Iterator[Change]:
        """Whatever has devices, reported anew."""
        for change in list(self._claimants.values()):
            yield self._counted(change)
        nodes = self._slices_on.keys()
        for node in nodes:
            if node in self._nodes:
                yield self._on_node(self._nodes[node])


def _has_claims(change: Change) -> bool:
    return isinstance(change.fact, PodFact | WorkloadFact) and bool(change.fact.claims)


def _named(change: Change | None) -> set[tuple[FactKind, Place]]:
    """Claims and templates that the pods of a change name."""
    match change.fact if change is not None else None:
        case PodFact(namespace=namespace, claims=claims):
            named = list(claims)
        case WorkloadFact(namespace=namespace, claims=by_pod_set):
            named = [claim for claims in by_pod_set.values() for claim in claims]
        case _:
            return set()
    return {
        (kind, (namespace, name))
        for claim in named
        for kind, name in ((FactKind.CLAIM_TEMPLATE, claim.template), (FactKind.RESOURCE_CLAIM, claim.claim))
        if name
    }
