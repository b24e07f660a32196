"""What the recovery of nodes is decided on, put together from the world and from what Nodes and Jobs say."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.kube.node_recovery.marked_nodes import MarkedNodes
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.node_recovery.retry_pauses import RetryPauses
from admission.node_recovery.black_hole import BlackHoleDetector
from admission.node_recovery.step import known_state, reports_known_devices
from admission.node_recovery.view import GangOnNode, NodeView, TaintOwner
from admission.workloads.seats import is_live
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.resources import Resources
from queues.workload import NodeName, WorkloadKey

#: Numbers of the devices that pods have, as is reported, by the pod's uid. Empty: nothing reports it.
Holders = Mapping[str, frozenset[int]]

#: Views that are kept of nodes with nothing to look at: there is one for each node of the cluster.
_KEPT: Final = 20_000


class NodeViews:
    """Views of all nodes with devices."""

    def __init__(
        self, world: World, marks: MarkedNodes, jobs: RecoveryJobs, detector: BlackHoleDetector
    ) -> None:
        self._world = world
        self.marks = marks
        self._jobs = jobs
        self._detector = detector
        self._quiet: dict[NodeName, NodeView] = {}
        #: Why the API server refused the Job of a node the last time.
        self.refused: dict[NodeName, str] = {}
        #: Nodes whose view is unknown for now, because it could not be made.
        self.put_off = RetryPauses("recovery of a node")

    def interesting(self, holes: Iterable[NodeName], namespaces: frozenset[str]) -> set[NodeName]:
        """Nodes with something to look at. ``namespaces``: those that recovery Jobs are made in."""
        inventory = self._world.node_inventory
        found = {*inventory.faulty.since, *self.marks.all(), *holes, *self._jobs.nodes(namespaces)}
        return {name for name in found if name in inventory.nodes}

    def all(
        self, interesting: set[NodeName], namespaces: frozenset[str], now: int
    ) -> dict[NodeName, NodeView]:
        """The view of each node with devices, by name."""
        if len(self._quiet) > _KEPT:
            self._quiet.clear()
        views: dict[NodeName, NodeView] = {}
        for name, fact in self._world.node_inventory.nodes.items():
            if name in interesting:
                views[name] = self._contained_view(name, namespaces, now)
            elif name in self._world.node_inventory.faulty.with_devices:
                in_use = fact.ready and not fact.unschedulable
                views[name] = (
                    self._quiet.setdefault(name, NodeView(name=name)) if in_use else self._bare_view(name)
                )
        return views

    def _contained_view(self, name: NodeName, namespaces: frozenset[str], now: int) -> NodeView:
        """The view of a node, or a stand-in: other nodes do not wait for one whose view cannot be made."""
        if not self.put_off.holds(name, now):
            try:
                view = self._view(name, namespaces, now)
                known_state(view, now)  # the circuit breaker reads it for all nodes at one time
                return view
            except Exception as error:
                self.put_off.failed(name, error, now)
        return self._stand_in(name)

    def _stand_in(self, name: NodeName) -> NodeView:
        """Nothing is done for the node, and if it may be out of service the circuit breaker counts it."""
        marks = self.marks.of(name)
        is_out = bool(marks.annotation) or marks.taint is not TaintOwner.ABSENT
        return replace(self._bare_view(name), taint=TaintOwner.PERSON if is_out else TaintOwner.ABSENT)

    def _bare_view(self, name: NodeName) -> NodeView:
        """What the circuit breaker counts a node by, where there is nothing to look at."""
        fact = self._world.node_inventory.nodes[name]
        return NodeView(name=name, ready=fact.ready, cordoned=fact.unschedulable)

    def _view(self, name: NodeName, namespaces: frozenset[str], now: int) -> NodeView:
        world, marks = self._world, self.marks.of(name)
        reported = world.devices.reported(name)
        holders = {} if reported is None else reported.holders
        return replace(
            self._bare_view(name),
            faults=tuple(
                fault._replace(since=fault.since or now) for fault in world.node_inventory.nodes[name].faults
            ),
            black_hole=self._detector.black_hole(name, now),
            is_reported=reports_known_devices(marks.annotation, () if reported is None else reported.devices),
            taint=marks.taint,
            annotation=marks.annotation,
            gangs=tuple(self._gangs(name, holders)),
            foreign_pods=len(self._foreign_pods(name, holders, namespaces)),
            jobs=self._jobs.of(name, namespaces),
            refused=self.refused.get(name, ""),
        )

    def _gangs(self, name: NodeName, holders: Holders) -> list[GangOnNode]:
        seated = sorted(self._world.admission_index.seated_on(name))
        found = [self._gang(key, name, holders) for key in seated]
        return [gang for gang in found if gang is not None]

    def _gang(self, key: WorkloadKey, name: NodeName, holders: Holders) -> GangOnNode | None:
        """A gang that holds devices of the node. None if it holds none."""
        world = self._world
        pods = [pod for pod in world.pod_index.of(key) if pod.node == name]
        has_uncounted = any(pod.claims_uncounted or pod.uid in holders for pod in pods)
        admissions = [
            each
            for each in world.admission_index.of(key)
            if any(
                seat.node == name and (has_uncounted or _takes_devices(seat.takes)) for seat in each.holding()
            )
        ]
        if not admissions:
            return None
        devices = [holders.get(pod.uid) for pod in pods]
        known = None if not devices or None in devices else frozenset().union(*filter(None, devices))
        return GangOnNode(
            key=key,
            devices=known,
            leaving=all(each.state is AdmissionState.EVICTING for each in admissions),
        )

    def _foreign_pods(self, name: NodeName, holders: Holders, namespaces: frozenset[str]) -> set[str]:
        """Uids of pods that have devices, or may have, and hold no seat. Those of recovery Jobs are in the templates'
        namespaces.

        By their requests, and by what is reported: a pod may have devices that its requests do not show.
        """
        world = self._world
        found = {
            uid
            for uid, takes in world.node_inventory.foreign_on(name)
            if _takes_devices(takes) or ((pod := world.pods.get(uid)) is not None and pod.claims_uncounted)
        }
        seated = world.admission_index.seated_on(name)
        found |= {uid for uid in holders if world.pod_index.owner_of(uid) not in seated}
        return {
            uid for uid in found if self._is_there(uid, name) and world.pods[uid].namespace not in namespaces
        }

    def _is_there(self, uid: str, name: NodeName) -> bool:
        """Whether a pod is on the node and has not ended: what the agent reports of pods may be older."""
        pod = self._world.pods.get(uid)
        return pod is not None and pod.node == name and is_live(pod)


def _takes_devices(takes: Resources) -> bool:
    """Whether an extended resource is among these amounts."""
    return any("/" in resource for resource in takes)
