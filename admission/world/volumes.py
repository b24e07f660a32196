"""Volumes of pods that wait: on which nodes they can be used, and what is missing. Pure.

kube-scheduler refuses a pod on nodes where its volumes cannot be used (plug-ins VolumeBinding, VolumeZone,
VolumeRestrictions). Muster chooses the node, so it asks the same before. The objects are known only while a workload
with volumes waits (``is_needed``); until they are, it waits for them, a short time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from admission.decode.fields import one
from admission.engine.nodes.levels import HOST
from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.facts.volumes import (
    CsiNodeFact,
    Place,
    PodVolume,
    StorageClassFact,
    Terms,
    VolumeClaimFact,
    VolumeFact,
    claims_of,
)
from admission.facts.workloads import WorkloadFact
from admission.workloads.seats import is_live
from admission.world.admissions import KeyIndex
from queues.reason_codes import ReasonCode
from queues.text_format import counted, listed
from queues.workload import NOT_TAKEN, NodeFilter, Obstacle, PodSet, Requirement, WorkloadKey

#: Kinds of facts that ``VolumeFacts.observe`` takes.
ABOUT_VOLUMES: Final = frozenset(
    (
        *(FactKind.VOLUME_CLAIM, FactKind.VOLUME, FactKind.STORAGE_CLASS),
        *(FactKind.CSI_NODE, FactKind.VOLUMES_WATCHED),
    )
)
#: All claims, volumes and storage classes have been handed in; none is any more.
KNOWN: Final = Change(FactKind.VOLUMES_WATCHED, "known", None)
UNWATCHED: Final = Change(FactKind.VOLUMES_WATCHED, "unwatched", None)
#: Classes with this provisioner make no volumes: an administrator does.
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
#: Seconds for which a workload waits at most until its volumes are known.
_AWAITED: Final = 10
#: Seconds without a workload that needs them after which the objects are not watched any more.
_KEPT: Final = 600

_Subject = tuple[FactKind, str]
#: A part of terms for volumes that are free now.
_FREE_NOW: Final = Requirement(NOT_TAKEN, "DoesNotExist")


class VolumeOfNode(NamedTuple):
    """A volume on one node. A claim has it alone, so the node attaches as many of its class as there are."""

    #: The node, as its label for the host says.
    host: str
    #: Its StorageClass, as a driver.
    driver: str
    #: A claim may still get it.
    is_free: bool


@dataclass(slots=True)
class _Answer:
    """Where pods can use their volumes, as far as that is worked out."""

    #: Nodes on which a claim can be used, each to be met, with the claim and its zone in words.
    places: list[tuple[str, Terms]] = field(default_factory=list)
    #: Why they can be used nowhere now; None if they can.
    problem: Obstacle | None = None
    #: What it was worked out from.
    subjects: set[_Subject] = field(default_factory=set)

    def lacks(self, message: str) -> None:
        """Something does not exist."""
        self.problem = self.problem or Obstacle(ReasonCode.VOLUME_MISSING, message)

    def waits(self, message: str) -> None:
        """Something is there, and cannot be used now."""
        self.problem = self.problem or Obstacle(ReasonCode.VOLUMES_NOT_READY, message)


class VolumeFacts:
    """Claims, volumes, storage classes, and the workloads that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[Place, VolumeClaimFact] = {}
        #: Where claims are, by uid.
        self._claim_places: dict[str, Place] = {}
        self._volumes: dict[str, VolumeFact] = {}
        self._classes: dict[str, StorageClassFact] = {}
        #: Bound pods with volumes, by uid.
        self.pods: dict[str, PodFact] = {}
        self._pods_with: KeyIndex[Place, str] = KeyIndex()
        #: Workloads with volumes that wait, and what their places follow from.
        self._waiting: dict[WorkloadKey, frozenset[_Subject]] = {}
        self._following: KeyIndex[_Subject, WorkloadKey] = KeyIndex()
        #: All objects are known.
        self.is_synced = False
        self._awaited_until = 0
        #: It is over, and they are not known.
        self._gave_up = False
        self._needed_at = 0

    def is_needed(self, now: int) -> bool:
        """Whether the objects are to be watched."""
        return bool(self._waiting) or (self._needed_at > 0 and now - self._needed_at < _KEPT)

    def _begin(self) -> set[WorkloadKey]:
        self.is_synced = True
        return set(self._waiting)

    def _end(self) -> set[WorkloadKey]:
        self.is_synced, self._gave_up, self._awaited_until, self._needed_at = False, False, 0, 0
        for known in (self._claims, self._claim_places, self._volumes, self._classes):
            known.clear()
        return set(self._waiting)

    # ── what the cluster shows ──────────────────────────────────────────────────────────────────────────────

    def observe(self, change: Change) -> set[WorkloadKey]:
        """An object appeared, changed or went away; the workloads whose places may be others now."""
        subjects: set[_Subject] = set()
        match change.kind, change.fact:
            case FactKind.VOLUME_CLAIM, VolumeClaimFact() | None:
                place = self._claim_places.pop(change.key, None)
                if change.fact is not None:
                    place = self._claim_places[change.key] = (change.fact.namespace, change.fact.name)
                if place is not None:
                    _put(self._claims, place, change.fact)
                    subjects = {(FactKind.VOLUME_CLAIM, "/".join(place))}
            case FactKind.VOLUME, VolumeFact() | None:
                before = self._volumes.get(change.key)
                _put(self._volumes, change.key, change.fact)
                classes = {each.storage_class for each in (before, change.fact) if each is not None}
                subjects = {(FactKind.VOLUME, change.key)}
                subjects |= {(FactKind.VOLUME, f"class {name}") for name in classes}
            case FactKind.STORAGE_CLASS, StorageClassFact() | None:
                _put(self._classes, change.key, change.fact)
                subjects = {(FactKind.STORAGE_CLASS, change.key), (FactKind.STORAGE_CLASS, "")}
            case FactKind.CSI_NODE, CsiNodeFact() | None:
                pass  # how many volumes a node attaches is no matter of a workload (``attached_volumes``)
            case FactKind.VOLUMES_WATCHED, None:
                return self._begin() if change == KNOWN else self._end()
            case _:
                raise AssertionError(f"a {change.kind} change carries {type(change.fact).__name__}")
        return {key for subject in subjects for key in self._following.of(subject)}

    def claims_in(self, change: Change) -> Iterator[Place]:
        """Claims that a change is about, as far as the objects are known now."""
        if change.kind is FactKind.VOLUME_CLAIM and (place := self._claim_places.get(change.key)) is not None:
            yield place
        volume = self._volumes.get(change.key) if change.kind is FactKind.VOLUME else None
        if volume is not None and volume.claim is not None:
            yield volume.claim

    def attached_as(self, namespace: str, volume: PodVolume) -> tuple[str, str] | None:
        """The driver that attaches a volume of a pod, and a name that no other volume has; "": one that is made for the
        pod. None if nothing is attached, or if it is not known."""
        claim = self._claims.get((namespace, volume.claim)) if volume.claim else None
        if claim is None and not volume.is_made:
            return None
        if claim is not None and claim.volume in self._volumes:
            bound = self._volumes[claim.volume]
            return (bound.driver, bound.handle) if bound.driver else None
        class_ = self._class(
            claim.storage_class if claim is not None else volume.storage_class, claim is None
        )
        if class_ is None:
            return None
        driver = class_.provisioner
        if driver == _NO_PROVISIONER:
            if claim is not None and claim.volume:
                return None  # the volume is not free, and counts itself
            driver = _driver_of_class(class_.name)
        return driver, f"claim {namespace}/{volume.claim}" if volume.claim else ""

    def of_node(self, name: str) -> "VolumeOfNode | None":
        """A volume that an administrator made on one node for claims that wait for their first pod. None for others."""
        if (volume := self._volumes.get(name)) is None or (host := _host_of(volume)) is None:
            return None
        class_ = self._classes.get(volume.storage_class)
        if class_ is None or not class_.waits or class_.provisioner != _NO_PROVISIONER:
            return None
        is_free = volume.is_available and volume.claim is None
        return VolumeOfNode(host, _driver_of_class(class_.name), is_free)

    def names(self) -> Iterable[str]:
        """Names of the volumes."""
        return self._volumes

    def put_pod(self, uid: str, pod: PodFact | None) -> set[WorkloadKey]:
        """A pod appeared, changed or went away; the workloads that waited for its volumes."""
        before = self.pods.pop(uid, None)
        after = pod if pod is not None and pod.volumes and pod.node is not None and is_live(pod) else None
        if before is None and after is None:
            return set()
        claims, now = (claims_of(pod.namespace, pod.volumes) if pod else () for pod in (before, after))
        self._pods_with.move(uid, claims, now)
        if after is not None:
            self.pods[uid] = after
        if (before is None) == (after is None):
            return set()
        subjects = [(FactKind.VOLUME_CLAIM, "/".join(place)) for place in (*claims, *now)]
        return {key for subject in subjects for key in self._following.of(subject)}

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, key: WorkloadKey) -> None:
        """A workload does not wait, or has no volumes."""
        self._following.move(key, self._waiting.pop(key, ()), ())

    def in_workload(self, fact: WorkloadFact, now: int, *, runs: bool) -> WorkloadFact:
        """A workload that waits, with its pods kept to nodes where they can use their volumes.

        ``runs``: it has seats, and waits for more.
        """
        self._note_need(now)
        subjects: set[_Subject] = set()
        pod_sets, obstacle = [], fact.obstacle
        for pods in fact.pod_sets:
            volumes = fact.volumes.get(pods.name, ())
            answer = self._answer(fact.namespace, volumes, fact.key, pods.wanted_count())
            subjects |= answer.subjects
            if answer.problem is not None and pods.wanted_count() and not runs:
                code, message = answer.problem
                obstacle = obstacle or Obstacle(code, f"pods of {pods.name}: {message}")
            pod_sets.append(_at(pods, answer))
        self._note(fact.key, subjects)
        return replace(fact, pod_sets=tuple(pod_sets), obstacle=obstacle)

    def in_pods(self, key: WorkloadKey, pods: Sequence[PodFact], now: int) -> Sequence[PodFact]:
        """The pods of a workload that waits, those that are gated kept to nodes where they can use their volumes."""
        self._note_need(now)
        found, subjects = [], set[_Subject]()
        for pod in pods:
            if not (pod.gated and pod.volumes):
                found.append(pod)
            else:
                answer = self._answer(pod.namespace, pod.volumes, key, 1)
                subjects |= answer.subjects
                nodes = _filter_at(pod.shape.nodes, answer)
                shape = pod.shape if nodes is pod.shape.nodes else one(replace(pod.shape, nodes=nodes))
                found.append(replace(pod, shape=shape, obstacle=pod.obstacle or answer.problem))
        self._note(key, subjects)
        return found

    def _note_need(self, now: int) -> None:
        self._needed_at = now
        if not self.is_synced:
            self._awaited_until = self._awaited_until or now + _AWAITED

    def awaited_until(self, key: WorkloadKey) -> int:
        """Until when (seconds) a workload waits for the objects; 0: it does not."""
        waits = key in self._waiting and not (self.is_synced or self._gave_up)
        return self._awaited_until if waits else 0

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that have waited long enough for objects that cannot be read."""
        if self.is_synced or not 0 < self._awaited_until <= now or self._gave_up:
            return set()
        self._gave_up = True
        return set(self._waiting)

    def _note(self, key: WorkloadKey, subjects: set[_Subject]) -> None:
        self._following.move(key, self._waiting.pop(key, ()), subjects)
        self._waiting[key] = frozenset(subjects)

    def _answer(self, namespace: str, volumes: Iterable[PodVolume], key: WorkloadKey, pods: int) -> _Answer:
        answer = _Answer()
        if not self.is_synced:
            return answer  # they could not be read: the stock scheduler decides
        for volume in volumes:
            claim = self._claim_of(namespace, volume, answer)
            if claim is not None and answer.problem is None:
                self._place(claim, answer)
                self._note_other_users(claim, key, pods, answer)
        if apart := _contradiction(answer.places):
            answer.waits(apart)
        return answer

    def _claim_of(self, namespace: str, volume: PodVolume, answer: _Answer) -> VolumeClaimFact | None:
        """The claim of a volume, or what one will be that is made for a pod. None if something is wrong."""
        if volume.claim:
            answer.subjects.add((FactKind.VOLUME_CLAIM, f"{namespace}/{volume.claim}"))
            if (known := self._claims.get((namespace, volume.claim))) is not None:
                return known
        if volume.is_made:
            return VolumeClaimFact(
                namespace=namespace, name=volume.claim, storage_class=volume.storage_class, is_to_be_made=True
            )
        answer.lacks(
            f"PersistentVolumeClaim {volume.claim}: found none in namespace {namespace}, expected one; create it"
        )
        return None

    def _place(self, claim: VolumeClaimFact, answer: _Answer) -> None:
        """Where a claim can be used, as VolumeBinding and VolumeZone decide it."""
        named = f"PersistentVolumeClaim {claim.name}"
        if claim.deleting:
            answer.waits(
                f"{named}: found one that is being deleted, expected one that stays; create it again"
            )
        elif claim.is_lost:
            answer.lacks(
                f"{named}: found phase Lost, expected Bound: its PersistentVolume {claim.volume} is gone; delete the "
                "claim and create it again"
            )
        elif claim.is_bound:
            answer.subjects.add((FactKind.VOLUME, claim.volume))
            volume = self._volumes.get(claim.volume)
            if volume is None:
                answer.lacks(
                    f"{named}: found no PersistentVolume {claim.volume}, to which it is bound; restore the volume, or "
                    "delete the claim and create it again"
                )
            else:
                where = f"{claim.name} ({volume.where})" if volume.where else claim.name
                answer.places += [(where, terms) for terms in volume.nodes]
        else:
            self._place_unbound(claim, named, answer)

    def _place_unbound(self, claim: VolumeClaimFact, named: str, answer: _Answer) -> None:
        class_ = self._class_of(claim, answer)
        waits = class_ is not None and class_.waits and not claim.volume
        if class_ is None and claim.storage_class:
            answer.lacks(
                f"{named}: found no StorageClass {claim.storage_class}, expected one, or a PersistentVolume of that "
                "class that is bound to it; create the class"
            )
        elif not waits and claim.is_to_be_made:
            return  # a volume is made as soon as there is a claim, wherever that is
        elif not waits:
            kept = f" to PersistentVolume {claim.volume}, which it names," if claim.volume else ""
            answer.waits(
                f"{named}: found one that is not bound{kept} yet, expected a bound one: its class does not wait for "
                "the first pod. It is tried again when it is bound; kubectl describe pvc says what it waits for"
            )
        elif claim.selected_node:
            at = Requirement("metadata.name", "In", (claim.selected_node,), field=True)
            answer.places.append((f"{claim.name} (node {claim.selected_node})", ((at,),)))
        elif class_ is not None:
            self._place_by_class(claim, class_, answer)

    def _class_of(self, claim: VolumeClaimFact, answer: _Answer) -> StorageClassFact | None:
        answer.subjects.add((FactKind.STORAGE_CLASS, claim.storage_class or ""))
        return self._class(claim.storage_class, claim.is_to_be_made)

    def _class(self, name: str | None, is_to_be_made: bool) -> StorageClassFact | None:
        """The class of a claim that names it."""
        if name is not None:
            return self._classes.get(name)
        if not is_to_be_made:
            return None  # the API server has written the default class, if there was one
        defaults = [each for each in self._classes.values() if each.is_default]
        return max(defaults, key=lambda each: (each.created, each.name), default=None)

    def _place_by_class(self, claim: VolumeClaimFact, class_: StorageClassFact, answer: _Answer) -> None:
        """Where a volume of a class can be made, or is ready to be bound."""
        makes = class_.provisioner != _NO_PROVISIONER
        if makes and not class_.topologies:
            return
        terms: list[tuple[Requirement, ...]] = list(class_.topologies) if makes else []
        if not (claim.is_to_be_made and makes):
            answer.subjects.add((FactKind.VOLUME, f"class {class_.name}"))
            for volume in self._volumes.values():
                if not _may_bind(claim, volume, class_.name):
                    continue
                if len(volume.nodes) != 1:
                    return  # anywhere, or more than can be said together
                terms += ((*term, _FREE_NOW) if term else term for term in volume.nodes[0])
        if not terms:
            named = f"PersistentVolumeClaim {claim.name}" if claim.name else "a claim of each pod"
            answer.waits(
                f"{named}: found no PersistentVolume of class {class_.name} that is free "
                "and large enough, expected one: the class makes none; create one"
            )
            return
        answer.places.append((f"{claim.name} (StorageClass {class_.name})", tuple(dict.fromkeys(terms))))

    def _note_other_users(self, claim: VolumeClaimFact, key: WorkloadKey, pods: int, answer: _Answer) -> None:
        """ReadWriteOncePod: one pod of the cluster at a time has the claim."""
        if not claim.is_for_one_pod or answer.problem is not None:
            return
        named = f"PersistentVolumeClaim {claim.name}"
        if pods > 1:
            answer.waits(
                f"{named}: found access mode ReadWriteOncePod and {counted(pods, 'pod')} that use it, expected one "
                "pod; give each pod its own claim, or the claim another access mode"
            )
            return
        others = [self.pods[uid] for uid in self._pods_with.of((claim.namespace, claim.name))]
        if user := next((pod for pod in others if pod.owner != key), None):
            answer.waits(
                f"{named}: found in use by pod {user.name}, expected free: its access mode is ReadWriteOncePod. It is "
                "tried again when that pod has ended"
            )


def _put(facts: dict, key: object, fact: object | None) -> None:  # type: ignore[type-arg]
    facts.pop(key, None)
    if fact is not None:
        facts[key] = fact


def _driver_of_class(name: str) -> str:
    """What counts as the driver of volumes that are made before they are asked for."""
    return f"StorageClass {name}"


def _host_of(volume: VolumeFact) -> str | None:
    """The only host on which a volume can be used. None if there may be several."""
    match volume.nodes:
        case [[[Requirement(key=key, operator="In", values=[host]), *_]], *_] if key == HOST:
            return host
    return None


def _may_bind(claim: VolumeClaimFact, volume: VolumeFact, class_: str) -> bool:
    """Whether a volume that is there can be given to a claim. Selectors of claims are passed over, and so is the size
    of those that do not exist yet."""
    own = (claim.namespace, claim.name)
    return (
        volume.storage_class == class_
        and (volume.claim == own or (volume.claim is None and volume.is_available))
        and claim.modes <= volume.modes
        and (claim.is_to_be_made or claim.volume_mode == volume.volume_mode)
        and claim.size <= volume.size
    )


def _at(pods: PodSet, answer: _Answer) -> PodSet:
    nodes = _filter_at(pods.nodes, answer)
    return pods if nodes is pods.nodes else replace(pods, nodes=nodes)


def _filter_at(nodes: NodeFilter, answer: _Answer) -> NodeFilter:
    if not answer.places:
        return nodes
    return one(replace(nodes, also=tuple(dict.fromkeys(terms for _, terms in answer.places))))


def _contradiction(places: Sequence[tuple[str, Terms]]) -> str:
    """Two volumes that no node reaches both; "": none is known."""
    for position, (first, terms) in enumerate(places):
        for second, others in places[position + 1 :]:
            if first != second and _are_apart(_values(terms), _values(others)):
                return (
                    f"volumes {listed((first, second))} cannot be used on one node; use claims whose volumes are in "
                    "the same place"
                )
    return ""


def _values(terms: Terms) -> Mapping[tuple[bool, str], frozenset[str]]:
    """Labels for which each term demands a value, with the values."""
    by_term = [
        {(each.field, each.key): frozenset(each.values) for each in term if each.operator == "In"}
        for term in terms
    ]
    labels = set.intersection(*(set(each) for each in by_term)) if by_term else set()
    return {label: frozenset().union(*(each[label] for each in by_term)) for label in labels}


def _are_apart(
    some: Mapping[tuple[bool, str], frozenset[str]], others: Mapping[tuple[bool, str], frozenset[str]]
) -> bool:
    return any(not some[label] & others[label] for label in some.keys() & others.keys())
