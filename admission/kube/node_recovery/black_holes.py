"""Feeds the detector of nodes that kill pods with what the world shows, and tells which nodes take no gangs."""

from admission.facts.pods import PodPhase
from admission.node_recovery.black_hole import BlackHoleDetector, PodRun
from admission.world.world import World
from queues.workload import NodeName


class BlackHoles:
    """Nodes that kill the pods of whatever gang they get, for one term."""

    def __init__(self, world: World, detector: BlackHoleDetector) -> None:
        self._world = world
        self._detector = detector
        #: Since when (seconds) a node that killed pods may get a gang again.
        self._open_since: dict[NodeName, int] = {}

    def look(self, now: int) -> dict[NodeName, str]:
        """Take in how pods fared since the last call; nodes that take no gangs now, with the reason in words."""
        detector, world = self._detector, self._world
        for ended in world.ended_pods.take():
            owner = world.pod_index.owner_of(ended.uid)
            if owner is not None:
                detector.saw(
                    PodRun(
                        node=ended.node,
                        gang=owner,
                        admission=ended.admission,
                        started=ended.bound_at or now,
                        until=now,
                        failed=ended.failed,
                    )
                )
        closed: dict[NodeName, str] = {}
        for node in sorted(detector.suspected()):
            if node not in world.node_inventory.nodes:
                detector.forget(node)
                continue
            self._tell_what_runs(node, now)
            found = detector.black_hole(node, now)
            if detector.takes_gangs(node, now):
                self._note_trial(node, now)
            else:
                self._open_since.pop(node, None)
                closed[node] = "closed to gangs: " + (str(found) if found else "a gang is tried there")
        detector.expire(now)
        return closed

    def _tell_what_runs(self, node: NodeName, now: int) -> None:
        """Pods that have run there for long enough show that the node does not kill them."""
        for key in self._world.admission_index.seated_on(node):
            for pod in self._world.pod_index.of(key):
                ran = now - pod.bound_at
                runs = pod.node == node and pod.phase is PodPhase.RUNNING and pod.admission is not None
                if runs and pod.admission is not None and pod.bound_at and ran > self._detector.rule.within:
                    run = PodRun(
                        node=node,
                        gang=key,
                        admission=pod.admission,
                        started=pod.bound_at,
                        until=now,
                        failed=False,
                    )
                    self._detector.saw(run)

    def _note_trial(self, node: NodeName, now: int) -> None:
        """The first gang that comes after the node was opened again is its trial."""
        since = self._open_since.setdefault(node, now)
        for key in sorted(self._world.admission_index.seated_on(node)):
            if any(each.opened_at >= since for each in self._world.admission_index.of(key)):
                self._detector.seated(node, key, now)
                return
