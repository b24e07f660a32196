"""Nodes with unhealthy devices: which pods that is about, and which gangs may be evicted for it.

A circuit breaker bounds on how many nodes gangs are evicted at one time: if the agents of all nodes call their devices
unhealthy, that is a fault of the agents. Nodes that failed first come first. The others are only reported. A node
counts while pods have its unhealthy devices, and if it failed not much earlier than the last one: a GPU that waits for
weeks to be replaced keeps no other gang on a device that fails.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from admission.facts.cluster import NodeFact, NodeRecoveryFact, QueueFact
from admission.facts.devices import DeviceFault
from admission.facts.pods import PodFact
from admission.node_recovery.policy import FaultPolicy, fault_policy
from queues.workload import NodeName, WorkloadKey

#: Seconds before the last fault of the cluster in which others count as of the same time.
_SAME_TIME: Final = 1800


class FaultyNodes:
    """Part of the world."""

    def __init__(self) -> None:
        #: Since when (seconds) nodes have an unhealthy device; 0: not known.
        self.since: dict[NodeName, int] = {}
        self._policy = FaultPolicy()
        #: Nodes with devices, healthy or not.
        self.with_devices: set[NodeName] = set()
        #: Faults of devices that pods have, by node and the pod's uid: an agent reports no pods of another node.
        self._of_pods: dict[NodeName, Mapping[str, DeviceFault]] = {}
        #: Nodes that are out of service: each counts as one on which gangs are evicted.
        self._out: set[NodeName] = set()
        #: Nodes from which gangs may be evicted.
        self._granted: frozenset[NodeName] = frozenset()
        self._recoveries: dict[NodeName, NodeRecoveryFact] = {}
        #: The time of the last ``tell_time``: a later time of a Device is not believed, clocks of nodes may be wrong.
        self._now = 0
        #: Gangs that recoveries evict, from which nodes and why.
        self._evicted: dict[WorkloadKey, dict[NodeName, str]] = {}

    def put_node(self, before: NodeFact | None, after: NodeFact | None) -> frozenset[NodeName]:
        """A node appeared, changed or went away; nodes for which the circuit breaker decides otherwise than before."""
        if before is not None:
            self.with_devices.discard(before.name)
            self.since.pop(before.name, None)
            self._out.discard(before.name)
            self._of_pods.pop(before.name, None)
        if after is not None:
            if any("/" in resource for resource in (*after.allocatable, *after.withheld)):
                self.with_devices.add(after.name)
            if after.faults:
                self.since[after.name] = min(fault.since for fault in after.faults)
            if after.faulty_pods:
                self._of_pods[after.name] = after.faulty_pods
            if after.is_recovered:
                self._out.add(after.name)
        return self._grant()

    def put_root(self, root: QueueFact | None) -> frozenset[NodeName]:
        """The queue root, which says what is done about faults; nodes for which the circuit breaker decides otherwise
        now."""
        self._policy = fault_policy(None if root is None else root.queue)
        return self._grant()

    def tell_time(self, now: int) -> frozenset[NodeName]:
        """It is this second; nodes for which the circuit breaker decides otherwise now."""
        before, self._now = self._now, now
        return self._grant() if any(since > before for since in self.since.values()) else frozenset()

    def _grant(self) -> frozenset[NodeName]:
        if not self.since and not self._granted:
            return frozenset()
        free = max(0, self._policy.most_out(len(self.with_devices)) - len(self._out))
        last = min(max(self.since.values(), default=0), self._now)
        ordered = sorted(
            (since, name)
            for name, since in self.since.items()
            if name not in self._out and (name in self._of_pods or since > last - _SAME_TIME)
        )
        granted = frozenset(name for _, name in ordered[:free]) | self._out & self.since.keys()
        changed = granted ^ self._granted
        self._granted = granted
        return changed

    def faults_of(self, pods: Iterable[PodFact]) -> dict[str, DeviceFault]:
        """Faults of the devices that these pods have, by the pod's uid, as far as gangs may be evicted for them."""
        if not self._of_pods:
            return {}
        return {
            pod.uid: self._of_pods[pod.node][pod.uid]
            for pod in pods
            if pod.node in self._granted and pod.uid in self._of_pods.get(pod.node, ())
        }

    def held_back(self) -> frozenset[NodeName]:
        """Nodes with pods on unhealthy devices that the circuit breaker keeps from being evicted."""
        return frozenset(self._of_pods.keys() - self._granted)

    def put_recovery(self, name: NodeName, fact: NodeRecoveryFact | None) -> set[WorkloadKey]:
        """What the recovery of a node asks for has changed; None if nothing any more.

        Returns the workloads that this is about.
        """
        before = self._recoveries.pop(name, None)
        if fact is not None:
            self._recoveries[name] = fact
        about = {key for each in (before, fact) if each is not None for key in each.evicted}
        for key in about:
            self._evicted.pop(key, None)
        for each in self._recoveries.values():
            for key in about & each.evicted.keys():
                self._evicted.setdefault(key, {})[each.node] = each.evicted[key]
        return about

    def closed(self, name: NodeName) -> str:
        """Why a node takes no gangs, in words; "": it does."""
        fact = self._recoveries.get(name)
        return "" if fact is None else fact.closed

    def why_evicted(self, key: WorkloadKey) -> Mapping[NodeName, str]:
        """Nodes that are being recovered and from which a gang is evicted, each with why, in words."""
        return self._evicted.get(key, {})
