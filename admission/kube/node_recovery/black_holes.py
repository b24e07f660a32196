"""Feeds the detector of nodes that kill pods with what the world shows, and says which nodes take no gangs."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from admission.engine.nodes.levels import HOST
from admission.facts.pods import PodPhase
from admission.node_recovery.black_hole import BlackHoleDetector, PodRun, Submitter
from admission.node_recovery.policy import FaultPolicy
from admission.world.learned.seen_times import EndedPod, has_devices, takes_devices
from admission.world.world import World
from queues.admissions import Admission
from queues.quota.queue import Queue, path_below_root
from queues.workload import NodeFilter, NodeName, QueueName, Requirement


class BlackHoles:
    """Nodes that kill the pods of any gang that they get, for one term."""

    def __init__(self, world: World, detector: BlackHoleDetector) -> None:
        self._world = world
        self._detector = detector
        self._queues: Mapping[QueueName, Queue] = {}

    def look(self, now: int, policy: FaultPolicy) -> dict[NodeName, str]:
        """Take in how pods fared since the last call; nodes that take no gangs now, with the reason in words.

        If the policy has no rule, nothing is concluded, and what was found is forgotten.
        """
        detector, rule, ended = self._detector, policy.black_hole, self._world.ended_pods.take()
        if rule is None:
            detector.forget_all()
            return {}
        detector.rule = rule
        if ended or detector.suspected():
            self._queues = self._world.queue_facts.counted()
            detector.submitters = self._submitters()
        detector.open_to_others()
        self._tell_what_ended(ended, now)
        for node in sorted(detector.suspected()):
            if node not in self._world.node_inventory.nodes:
                detector.forget(node)
                continue
            self._tell_what_runs(node, now)
            self._note_trial(node, now)
        detector.open_beyond(policy.most_out(len(self._world.node_inventory.faulty.with_devices)), now)
        closed = [node for node in sorted(detector.suspected()) if not detector.takes_gangs(node, now)]
        detector.expire(now)
        return {node: self._why_closed(node, now) for node in closed}

    def _why_closed(self, node: NodeName, now: int) -> str:
        found = self._detector.black_hole(node, now)
        return "closed to gangs: " + (str(found) if found else "a gang is tried there")

    def _submitters(self) -> frozenset[Submitter]:
        """Submitters of gangs that wait or run; of many, those of two tenants and two users."""
        known: set[Submitter] = set()
        for fact in self._world.facts.values():
            if not fact.finished and fact.queue is not None:
                known.add(self._submitter(fact.queue, fact.conduct.user))
            if len({one.tenant for one in known}) > 1 and len({one.user for one in known}) > 1:
                break
        return frozenset(known)

    def _submitter(self, queue: QueueName, user: str) -> Submitter:
        above = path_below_root(queue, self._queues.get)
        return Submitter(above[-1] if above else queue, user)

    def _chose_it(self, ended: EndedPod) -> bool:
        """True if the pod named its node: by its name, or by labels that no other node with devices has."""
        if any(requirement.field or requirement.key == HOST for requirement in _required(ended.nodes)):
            return True
        if not (ended.nodes.selector or ended.nodes.affinity):
            return False
        layout = self._world.node_inventory.table().layout
        chosen = {layout.names[column] for column in np.flatnonzero(layout.chosen(ended.nodes))}
        return not (chosen & self._world.node_inventory.faulty.with_devices) - {ended.node}

    def _tell_what_ended(self, found: Iterable[EndedPod], now: int) -> None:
        for ended in found:
            owner = self._world.pod_index.owner_of(ended.uid)
            if owner is not None and not (ended.failed and self._chose_it(ended)):
                self._detector.saw(
                    PodRun(
                        node=ended.node,
                        gang=owner,
                        submitter=self._submitter(ended.queue, ended.user),
                        admission=ended.admission,
                        started=ended.bound_at or now,
                        until=now,
                        failed=ended.failed,
                    )
                )

    def _tell_what_runs(self, node: NodeName, now: int) -> None:
        """Pods with devices that have run there for long enough show that the node does not kill them."""
        for key in self._world.admission_index.seated_on(node):
            for pod in self._world.pod_index.of(key):
                ran = now - pod.bound_at
                runs = pod.node == node and pod.phase is PodPhase.RUNNING and has_devices(pod)
                held = self._world.admission_index.admission_of(pod)
                if runs and held is not None and pod.bound_at and ran > self._detector.rule.within:
                    run = PodRun(
                        node=node,
                        gang=key,
                        submitter=self._submitter(held.queue, held.user),
                        admission=held.id,
                        started=pod.bound_at,
                        until=now,
                        failed=False,
                    )
                    self._detector.saw(run)

    def _note_trial(self, node: NodeName, now: int) -> None:
        """The first gang with devices that comes after the node was opened again is its trial."""
        since = self._detector.trial_from(node, now)
        if since is None:
            return
        for key in sorted(self._world.admission_index.seated_on(node)):
            admissions = self._world.admission_index.of(key)
            if any(each.opened_at >= since and _has_devices_of(each, node) for each in admissions):
                self._detector.seated(node, key, now)
                return


def _required(nodes: NodeFilter) -> Iterator[Requirement]:
    """What a filter requires of nodes by names or labels, in any of its terms."""
    yield from (Requirement(key, "In", (value,)) for key, value in nodes.selector)
    for term in nodes.affinity:
        yield from (requirement for requirement in term if requirement.operator == "In")


def _has_devices_of(admission: Admission, node: NodeName) -> bool:
    return any(seat.node == node and takes_devices(seat.takes) for seat in admission.holding())
