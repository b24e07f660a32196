"""Nodes with unhealthy devices: which pods that is about, and which gangs may be evicted for it.

A circuit breaker bounds on how many nodes gangs are evicted at one time: if the agents of all nodes call their devices
unhealthy, that is a fault of the agents. Nodes that failed first come first. The others are only told. A node counts
while pods have its unhealthy devices, and if it failed not much earlier than the last one: a GPU that waits for weeks
to be replaced keeps no other gang on a device that fails.
"""

from collections.abc import Iterable
from typing import Final

from admission.facts.cluster import NodeFact, NodeRecoveryFact, QueueFact
from admission.facts.devices import DeviceFault
from admission.facts.pods import PodFact
from admission.node_recovery.circuit_breaker import most_out
from admission.node_recovery.fault_policy import fault_policy
from admission.node_recovery.policy import FaultPolicy
from queues.workload import NodeName, WorkloadKey

#: Seconds before the last fault of the cluster in which others count as of the same time.
_SAME_TIME: Final = 1800


class FaultyNodes:
    """Part of the world."""

    def __init__(self) -> None:
        #: Since when (seconds) nodes have an unhealthy device; 0: not told.
        self.since: dict[NodeName, int] = {}
        #: Nodes with pods that have unhealthy devices.
        self._with_pods: set[NodeName] = set()
        self._policy = FaultPolicy()
        #: Nodes with devices, healthy or not.
        self.with_devices: set[NodeName] = set()
        #: Faults of devices that pods have, by the pod's uid.
        self._of_pods: dict[str, DeviceFault] = {}
        #: Nodes from which gangs may be evicted.
        self._granted: frozenset[NodeName] = frozenset()
        self._recoveries: dict[NodeName, NodeRecoveryFact] = {}
        #: Gangs that recoveries evict, and why.
        self._evicted: dict[WorkloadKey, str] = {}

    def put_node(self, before: NodeFact | None, after: NodeFact | None) -> frozenset[NodeName]:
        """A node appeared, changed or went away; nodes for which the circuit breaker decides otherwise than before."""
        if before is not None:
            self.with_devices.discard(before.name)
            self.since.pop(before.name, None)
            self._with_pods.discard(before.name)
            for uid in before.faulty_pods:
                self._of_pods.pop(uid, None)
        if after is not None:
            if any("/" in resource for resource in (*after.allocatable, *after.withheld)):
                self.with_devices.add(after.name)
            if after.faults:
                self.since[after.name] = min(fault.since for fault in after.faults)
            if after.faulty_pods:
                self._with_pods.add(after.name)
            self._of_pods.update(after.faulty_pods)
        return self._grant()

    def put_root(self, root: QueueFact | None) -> frozenset[NodeName]:
        """The queue root, which says what is done about faults; nodes for which the circuit breaker decides otherwise
        now."""
        self._policy = fault_policy(None if root is None else root.queue)
        return self._grant()

    def _grant(self) -> frozenset[NodeName]:
        if not self.since and not self._granted:
            return frozenset()
        most = most_out(self._policy, len(self.with_devices))
        last = max(self.since.values(), default=0)
        ordered = sorted(
            (since, name)
            for name, since in self.since.items()
            if name in self._with_pods or since > last - _SAME_TIME
        )
        granted = frozenset(name for _, name in ordered[:most])
        changed = granted ^ self._granted
        self._granted = granted
        return changed

    def faults_of(self, pods: Iterable[PodFact]) -> dict[str, DeviceFault]:
        """Faults of the devices that these pods have, by the pod's uid, as far as gangs may be evicted for them."""
        if not self._of_pods:
            return {}
        return {
            pod.uid: self._of_pods[pod.uid]
            for pod in pods
            if pod.uid in self._of_pods and pod.node in self._granted
        }

    def held_back(self) -> frozenset[NodeName]:
        """Nodes with pods on unhealthy devices that the circuit breaker lets nobody evict."""
        return frozenset(self._with_pods - self._granted)

    def put_recovery(self, name: NodeName, fact: NodeRecoveryFact | None) -> set[WorkloadKey]:
        """What the recovery of a node asks for has changed; None: nothing any more. Workloads that this is about."""
        before = self._recoveries.pop(name, None)
        if fact is not None:
            self._recoveries[name] = fact
        about = {key for each in (before, fact) if each is not None for key in each.evicted}
        for key in about:
            self._evicted.pop(key, None)
        for each in self._recoveries.values():
            self._evicted.update(each.evicted)
        return about

    def closed(self, name: NodeName) -> str:
        """Why a node takes no gangs, in words; "": it does."""
        fact = self._recoveries.get(name)
        return "" if fact is None else fact.closed

    def why_evicted(self, key: WorkloadKey) -> str:
        """Why a gang is evicted from a node that is being recovered, in words; "": it is not."""
        return self._evicted.get(key, "")
