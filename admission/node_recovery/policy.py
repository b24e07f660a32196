"""What an administrator wants to happen to nodes with faults: ``policy.health`` of the Queue root."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from queues.quota.queue import RECOVER, NodeRecoveryRules, Queue
from queues.workload import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackHoleRule:
    """When a node counts as one that kills the pods of whatever gang it gets. Times in seconds."""

    #: So many different gangs have a pod that failed early, without any pod on the node that did not.
    gangs: int = 3
    #: A pod failed early if it failed within this time after its start.
    within: int = 120
    #: Failures of this time count.
    window: int = 1800
    #: After this time the node gets one gang again, on trial. It doubles each time that the trial fails.
    retry_after: int = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPolicy:
    """What follows from a fault. Times in seconds."""

    #: Whether Muster closes nodes with a fault. Gangs on faulty devices are evicted by the policies of their own
    #: queues, whatever is said here.
    recovers: bool = False
    #: Circuit breaker: Muster closes no further node while so many are out of service. None for a tenth of all nodes
    #: with devices, and one at least.
    max_nodes_out: int | None = None
    #: Gangs of the node that are not on faulty devices may go on for so long. 0: they go at once.
    drain_timeout: int = 3600
    #: CronJob (``namespace/name``) that repair Jobs are made from. If None, the node waits until its agent reports
    #: its devices as healthy, for instance because other software repairs it.
    job: str | None = None
    #: CronJob that test Jobs are made from. If None, what the agent reports is enough.
    verify_job: str | None = None
    #: If None, nothing is concluded from pods that fail.
    black_hole: BlackHoleRule | None = BlackHoleRule()

    def most_out(self, nodes: int) -> int:
        """The most nodes, of so many with devices, that may be out of service."""
        return max(1, nodes // 10) if self.max_nodes_out is None else self.max_nodes_out

    def granted(
        self,
        nodes: int,
        faulty: Iterable[tuple[int, NodeName]],
        out: Set[NodeName],
        absent: Set[NodeName] = frozenset(),
    ) -> frozenset[NodeName]:
        """The circuit breaker: the nodes, of so many with devices, on which something may be done about their faults.

        These are the ones that are ``out`` of service already, and those that failed first as long as no more are out
        than may be. ``faulty``: when each failed. ``absent``: nodes that count as out too, and need no second place.
        """
        most, granted, taken = self.most_out(nodes), set(out), {*out, *absent}
        for _, name in sorted(faulty):
            if len(taken) + (name not in taken) <= most:
                granted.add(name)
                taken.add(name)
        return frozenset(granted)


def fault_policy(root: Queue | None) -> FaultPolicy:
    """The policy for all nodes. ``root``: None if there is no queue root."""
    rules = NodeRecoveryRules() if root is None else root.node_recovery
    gangs = rules.black_hole_gangs
    return FaultPolicy(
        recovers=root is not None and root.policy.on_fault == RECOVER,
        max_nodes_out=rules.max_nodes_out,
        drain_timeout=FaultPolicy().drain_timeout if rules.drain_timeout is None else rules.drain_timeout,
        job=rules.job,
        verify_job=rules.verify_job,
        black_hole=None if gangs == 0 else BlackHoleRule() if gangs is None else BlackHoleRule(gangs=gangs),
    )
