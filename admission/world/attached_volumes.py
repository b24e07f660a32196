"""How many volumes nodes attach: the limits of their drivers, and what counts against them.

As kube-scheduler's plugin NodeVolumeLimits counts them: volumes of one driver on the pods of a node, each volume once.
A claim without a volume counts by the provisioner of its StorageClass. Where that makes none, it counts by the class: a
node attaches as many as administrators made on it, and those that are not free count. As long as volumes are not
watched, or no node has a limit, only workloads with volumes are listed. From then on pod sets, and bound pods without a
seat, are noted with their volumes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from admission.engine.nodes.levels import HOST
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeFact
from admission.facts.pods import PodFact
from admission.facts.volumes import CsiNodeFact, Place, PodVolume, claims_of
from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import support_of
from admission.workloads.state import WorkloadState
from admission.world.admissions import KeyIndex, replaced
from admission.world.volumes import VolumeFacts, VolumeOfNode
from queues.workload import ATTACHED, HostPort, NodeName, Workload, WorkloadKey

#: Driver and name of a volume; "": it is made for the pod and has no name yet.
_Volume = tuple[str, str]

_NO_LIMITS: Mapping[NodeName, Mapping[str, int]] = {}


class AttachedVolumes:
    """Part of the world: limits of volumes by node, and the volumes of workloads and pods that count."""

    def __init__(
        self,
        volumes: VolumeFacts,
        states: Mapping[WorkloadKey, WorkloadState],
        facts: Mapping[WorkloadKey, WorkloadFact],
        has_seat: Callable[[str], bool],
        nodes: Mapping[NodeName, NodeFact],
    ) -> None:
        """``has_seat``: whether the pod with this uid does."""
        self._volumes, self._states, self._facts, self._has_seat = volumes, states, facts, has_seat
        self._nodes = nodes
        self._by_node: dict[NodeName, Mapping[str, int]] = {}
        #: Volumes that administrators made on single nodes, by name.
        self._of_nodes: dict[str, VolumeOfNode] = {}
        #: Drivers with a limit, and on how many nodes.
        self._nodes_of = Counter[str]()
        #: Drivers whose volumes count now.
        self._drivers: frozenset[str] = frozenset()
        self._limits: Mapping[NodeName, Mapping[str, int]] | None = _NO_LIMITS
        #: Workloads with volumes that wait or hold seats; while volumes count, with their claims.
        self._of_workloads: dict[WorkloadKey, frozenset[Place]] = {}
        #: While volumes count: bound pods with volumes that have no seat.
        self._of_pods: dict[str, PodFact] = {}
        self._workloads_with: KeyIndex[Place, WorkloadKey] = KeyIndex()
        self._pods_with: KeyIndex[Place, str] = KeyIndex()
        #: What pods without a seat are noted with, on which node.
        self._noted: dict[str, tuple[NodeName, tuple[HostPort, ...]]] = {}
        #: Of these it has to be worked out again.
        self._stale_workloads: set[WorkloadKey] = set()
        self._stale_pods: set[str] = set()

    @property
    def limits(self) -> Mapping[NodeName, Mapping[str, int]]:
        """Volumes that a node can attach, by driver."""
        if self._limits is None:
            limits = dict(self._by_node) if self._drivers else {}
            for node, volume in self._on_nodes():
                of_node = limits.get(node, {})
                limits[node] = {**of_node, volume.driver: of_node.get(volume.driver, 0) + 1}
            self._limits = limits
        return self._limits

    @property
    def is_used(self) -> bool:
        """Whether volumes are watched, and some node has a limit."""
        return bool(self._drivers)

    @property
    def is_stale(self) -> bool:
        """Whether limits or volumes are others than when they were last asked for."""
        return self._limits is None or bool(self._stale_workloads or self._stale_pods)

    # ── what the cluster shows ──────────────────────────────────────────────────────────────────────────────

    def observe(self, change: Change, claims: Iterable[Place]) -> None:
        """An object about volumes changed; ``VolumeFacts`` knows it, and the claims that it is about."""
        match change.kind, change.fact:
            case FactKind.CSI_NODE, CsiNodeFact() | None:
                self._put_limits(NodeName(change.key), {} if change.fact is None else change.fact.limits)
            case FactKind.VOLUMES_WATCHED, _:
                if not self._volumes.is_synced:
                    self._by_node.clear()
                    self._of_nodes.clear()
                    self._nodes_of.clear()
                self._count_drivers()
            case FactKind.STORAGE_CLASS, _:
                for name in self._volumes.names():
                    self._put_volume(name)
                self._outdate()
            case _:
                if change.kind is FactKind.VOLUME:
                    self._put_volume(change.key)
                for claim in claims:
                    self._stale_workloads.update(self._workloads_with.of(claim))
                    self._stale_pods.update(self._pods_with.of(claim))

    def put_pod(self, uid: str, fact: PodFact | None) -> bool:
        """A bound pod without a seat appeared or changed; None if it is gone, or has a seat. True if what counts
        changed."""
        before = self._of_pods.pop(uid, None)
        if before is None and (fact is None or not fact.volumes or not self._drivers):
            return False
        if before is not None:
            self._pods_with.move(uid, claims_of(before.namespace, before.volumes), ())
        noted = self._noted.pop(uid, None)
        self._stale_pods.discard(uid)
        if fact is not None and fact.volumes and self._drivers:
            self._add_pod(uid, fact)
            self._note(uid, fact)
        return noted != self._noted.get(uid)

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────────

    def put_workload(self, key: WorkloadKey, state: WorkloadState | None, workload: Workload) -> Workload:
        """A workload that waits or holds seats changed; None if it does neither any more.

        Returns the workload with the volumes of its pods.
        """
        self._stale_workloads.discard(key)
        self._workloads_with.move(key, self._of_workloads.pop(key, ()), ())
        fact = self._facts.get(key)
        if state is None or not (_has_volumes(fact) or any(pod.volumes for pod in state.pods)):
            return workload
        if not self._drivers:
            self._of_workloads[key] = frozenset()
            return workload
        volumes = _volumes_of_sets(workload, fact, state.pods)
        of_all = (volume for of_set in volumes.values() for of_pod in of_set for volume in of_pod)
        self._of_workloads[key] = claims_of(workload.namespace, of_all)
        self._workloads_with.move(key, (), self._of_workloads[key])
        pod_sets = tuple(
            replace(pods, attached=self._noted_with(workload.namespace, volumes.get(pods.name, ())))
            for pods in workload.pod_sets
        )
        return workload if pod_sets == workload.pod_sets else replace(workload, pod_sets=pod_sets)

    def refresh(self) -> Iterator[tuple[WorkloadKey, WorkloadState]]:
        """Work out anew what has become stale. Returns the workloads that are to be put again."""
        for uid in self._stale_pods:
            self._noted.pop(uid, None)
            if uid in self._of_pods:
                self._note(uid, self._of_pods[uid])
        self._stale_pods = set()
        stale, self._stale_workloads = self._stale_workloads, set()
        keys = sorted(stale, key=lambda key: (key.kind, key.uid))
        return ((key, self._states[key]) for key in keys if key in self._states)

    def noted_pods(self) -> Iterable[tuple[NodeName, tuple[HostPort, ...]]]:
        """Pods without a seat that have such volumes: their node, and what they are noted with. Volumes on nodes that
        are not free are noted in the same way, whether a pod has them or not."""
        taken = ((node, volume) for node, volume in self._on_nodes() if not volume.is_free)
        return chain(
            self._noted.values(), ((node, (HostPort(1, ATTACHED, volume.driver),)) for node, volume in taken)
        )

    def note_node(self) -> None:
        """A node came or went, or its labels changed."""
        if self._of_nodes:
            self._limits = None

    # ── limits ──────────────────────────────────────────────────────────────────────────────────────────────

    def _put_limits(self, node: NodeName, limits: Mapping[str, int]) -> None:
        before = self._by_node.pop(node, {})
        if limits:
            self._by_node[node] = limits
        if before == limits:
            return
        self._nodes_of.update(limits.keys())
        self._nodes_of.subtract(before.keys())
        if self._volumes.is_synced:
            self._count_drivers()

    def _put_volume(self, name: str) -> None:
        volume = self._volumes.of_node(name)
        before = replaced(self._of_nodes, name, volume)
        if before == volume:
            return
        self._nodes_of.update([volume.driver] if volume is not None else [])
        self._nodes_of.subtract([before.driver] if before is not None else [])
        self._limits = None
        if self._volumes.is_synced:
            self._count_drivers()

    def _on_nodes(self) -> Iterator[tuple[NodeName, VolumeOfNode]]:
        """Volumes that administrators made on single nodes, with the node; none as long as volumes do not count."""
        if not self._drivers or not self._of_nodes:
            return
        hosts = {fact.labels.get(HOST, name): name for name, fact in self._nodes.items()}
        for volume in self._of_nodes.values():
            if (node := hosts.get(volume.host)) is not None:
                yield node, volume

    def _count_drivers(self) -> None:
        """Limits changed, or volumes are watched now, or not any more."""
        self._limits = None
        counted = self._volumes.is_synced
        drivers = frozenset(driver for driver, nodes in self._nodes_of.items() if nodes > 0 and counted)
        if drivers == self._drivers:
            return
        began, self._drivers = not self._drivers, drivers
        if began:
            self._begin()
        self._outdate()
        if not drivers:
            self._of_pods.clear()
            self._noted.clear()
            self._pods_with = KeyIndex()

    def _begin(self) -> None:
        """The first limits."""
        for uid, pod in self._volumes.pods.items():
            if not self._has_seat(uid):
                self._add_pod(uid, pod)

    def _outdate(self) -> None:
        self._stale_workloads.update(self._of_workloads)
        self._stale_pods.update(self._of_pods)

    # ── volumes ─────────────────────────────────────────────────────────────────────────────────────────────

    def _add_pod(self, uid: str, fact: PodFact) -> None:
        self._of_pods[uid] = fact
        self._pods_with.move(uid, (), claims_of(fact.namespace, fact.volumes))

    def _note(self, uid: str, fact: PodFact) -> None:
        noted = self._noted_with(fact.namespace, (fact.volumes,))
        if noted and fact.node is not None:
            self._noted[uid] = (fact.node, noted)

    def _noted_with(self, namespace: str, pods: Sequence[Sequence[PodVolume]]) -> tuple[HostPort, ...]:
        """What each pod of a set is noted with. ``pods``: the volumes of each of them, or of the template of all.

        Volumes that all have are noted by name. Of the others each pod counts as having as many as the one with most.
        """
        counted = [Counter(self._counted(namespace, volumes)) for volumes in pods]
        if not any(counted):
            return ()
        common = {volume for volume in counted[0] if volume[1]}.intersection(*counted[1:])
        own = Counter[str]()
        for volumes in counted:
            of_pod = Counter[str]()
            for volume, number in volumes.items():
                if volume not in common:
                    of_pod[volume[0]] += number
            own |= of_pod
        noted = [HostPort(0, ATTACHED, f"{driver}/{name}") for driver, name in sorted(common)]
        noted += [HostPort(number, ATTACHED, driver) for driver, number in sorted(own.items())]
        return tuple(noted)

    def _counted(self, namespace: str, volumes: Iterable[PodVolume]) -> Iterator[_Volume]:
        """The volumes of a pod that count; one that it has twice counts once."""
        seen = set[_Volume]()
        for volume in volumes:
            found = self._volumes.attached_as(namespace, volume)
            if found is not None and found[0] in self._drivers and found not in seen:
                yield found
                if found[1]:
                    seen.add(found)


def _has_volumes(fact: WorkloadFact | None) -> bool:
    return fact is not None and bool(fact.volumes)


def _volumes_of_sets(
    workload: Workload, fact: WorkloadFact | None, pods: Iterable[PodFact]
) -> Mapping[str, Sequence[Sequence[PodVolume]]]:
    """By pod set: the volumes of its template, else those of each of its pods."""
    if fact is not None and _has_volumes(fact):
        return {name: (volumes,) for name, volumes in fact.volumes.items()}
    name_of = support_of(workload.key).pod_set_name
    found: dict[str, list[Sequence[PodVolume]]] = {}
    for pod in pods:
        name = pod.seat[0] if pod.seat is not None else name_of(pod, fact)
        found.setdefault(name, []).append(pod.volumes)
    return found
