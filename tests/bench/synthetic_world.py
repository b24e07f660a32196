"""Worlds made up in memory for measuring ``decide``, changed as the controller's world is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time

from admission.containment.decision_child import DecisionChild
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Claim, Seat
from queues.plan import Plan
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.resources import NOTHING, Resources
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey

GPU, CPU, MEMORY = "nvidia.com/gpu", "cpu", "memory"

NOW = 1_700_000_000
RACK = 16
#: What counts where nothing is said; and nobody evicted for anybody who does not starve.
DEFAULT = QueuePolicy()
KEEP = QueuePolicy(within_queue="never", reclaim="never")


def node_table(count: int) -> NodeTable:
    """Nodes with 8 GPUs, 16 to a rack, 16 racks to a block."""
    offers = Resources({GPU: 8000, CPU: 128_000, MEMORY: 2**40, "pods": 110})
    nodes = (
        Node(
            name=NodeName(f"n{number:05}"),
            allocatable=offers,
            labels={HOST: f"n{number:05}", "rack": f"r{number // RACK:04}", "block": f"b{number // 256:03}"},
        )
        for number in range(count)
    )
    return NodeTable.build(nodes, [("block", "rack", HOST)])


def pods(count: int, gpus: int = 1, *, rack: bool = False) -> PodSet:
    """So many pods of one shape."""
    takes = Resources({GPU: gpus * 1000, CPU: gpus * 8000, MEMORY: gpus * 2**34, "pods": 1})
    return PodSet(name="main", count=count, takes=takes, required_topology="rack" if rack else None)


def workload(
    number: int, queue: str, asks: PodSet, *, priority: int = 0, created: int = NOW - 600
) -> Workload:
    """A gang that starts whole."""
    return Workload(
        key=WorkloadKey(kind_names.JOB, f"00000000-0000-0000-0000-{number:012}"),
        namespace=f"team-{queue}",
        name=f"job-{number}",
        queue=QueueName(queue),
        priority=priority,
        arrival=number,
        created=created,
        minimum=asks.count,
        pod_sets=(asks,),
        generation="1",
    )


def queue(name: str, parent: str = "root", *, policy: QueuePolicy = DEFAULT, **limits: int) -> Queue:
    """A queue with limits in GPUs."""
    gpus = {what: {GPU: units * 1000} for what, units in limits.items()}
    return Queue(
        name=QueueName(name),
        parent=QueueName(parent),
        limits=Limits(
            guarantee=Resources(gpus.get("guarantee", {})),
            deserved=gpus.get("deserved", {}),
            capability=gpus.get("capability", {}),
        ),
        policy=policy,
    )


@dataclass
class SyntheticWorld:
    """A world in memory: everything that ``decide`` sees, changed as the controller's world is."""

    queues: Mapping[QueueName, Queue]
    nodes: NodeTable
    now: int = NOW
    pending: VersionedMap[WorkloadKey, Workload] = field(default_factory=VersionedMap)
    admissions: VersionedMap[AdmissionId, Admission] = field(default_factory=VersionedMap)
    holders: VersionedMap[WorkloadKey, Workload] = field(default_factory=VersionedMap)
    memo: Memo = field(default_factory=Memo)
    claims: dict[WorkloadKey, Claim] = field(default_factory=dict)
    ended: dict[AdmissionId, frozenset[int]] = field(default_factory=dict)
    #: The child process in which turns are decided, as with plug-ins; None: they are decided here.
    child: DecisionChild | None = None
    #: Seconds of the processor for the last turn, and for all; those of the child count as well.
    seconds: float = 0.0
    total: float = 0.0
    decisions: int = 0
    admitted: int = 0
    evicted: int = 0
    turns: int = 0
    _moved: dict[NodeName, Resources] = field(default_factory=dict)
    _last: int = 0

    def arrive(self, workloads: Iterable[Workload]) -> None:
        for each in workloads:
            self.pending.put(each.key, each)

    def turn(self) -> Plan:
        """Freeze and decide, timed; then apply, not timed."""
        began = self._processor_seconds()
        if self._moved:
            self.nodes, self._moved = self.nodes.with_used(self._moved), {}
        snapshot = Snapshot(
            now=self.now,
            queues=self.queues,
            nodes=self.nodes,
            pending=self.pending.freeze(),
            admissions=self.admissions.freeze(),
            holders=self.holders.freeze(),
            ended=self.ended,
            claims=self.claims,
        )
        if self.child is None:
            plan, self.memo = decide(snapshot, self.memo, NO_LIMIT)
        else:
            plan = self.child.decide(snapshot, NO_LIMIT).plan
        self.seconds = self._processor_seconds() - began
        self.total += self.seconds
        self.turns += 1
        self.admitted += len(plan.admits)
        self._apply(plan, snapshot)
        return plan

    def _processor_seconds(self) -> float:
        if self.child is None:
            return process_time()
        nanoseconds = Path(f"/proc/{self.child._process.pid}/schedstat").read_text().split()[0]
        return process_time() + int(nanoseconds) / 1e9

    def _apply(self, plan: Plan, snapshot: Snapshot) -> None:
        self.ended = {}
        for free in plan.frees:
            admission = snapshot.admissions[free.admission]
            self._post(admission.seats, -1)
            self.admissions.pop(free.admission)
            self.holders.pop(admission.workload)
        for evict in plan.evicts:
            self._take_back(snapshot.admissions[evict.admission])
        gone = {*plan.dropped}
        if gone or plan.claims:
            self.claims = {key: claim for key, claim in self.claims.items() if key not in gone}
            self.claims |= {claim.workload: claim for claim in plan.claims}
        for admit in plan.admits:
            self._last += 1
            id_ = AdmissionId(self._last)
            admission = replace(admit.opened(id_, self.now), started=True)
            self.admissions.put(id_, admission)
            self._post(admission.seats, 1)
            waiting = self.pending.get(admit.workload)
            assert waiting is not None
            self.holders.put(admit.workload, waiting)
            self.pending.pop(admit.workload)

    def _take_back(self, admission: Admission) -> None:
        """Its pods are gone by the next turn, and it waits again."""
        self.evicted += 1
        self.admissions.put(admission.id, replace(admission, state=AdmissionState.EVICTING))
        self.ended[admission.id] = frozenset(range(len(admission.seats)))
        workload = self.holders.get(admission.workload)
        assert workload is not None
        again = replace(workload, evictions=workload.evictions + 1, waiting_since=self.now)
        self.pending.put(again.key, again)

    def _post(self, seats: Iterable[Seat], sign: int) -> None:
        for seat in seats:
            takes = seat.takes if sign > 0 else NOTHING - seat.takes
            before = self._moved.get(seat.node)
            self._moved[seat.node] = takes if before is None else before + takes

    def end(self, id_: AdmissionId) -> None:
        """All pods of an admission are over, if it was not taken back before."""
        admission = self.admissions.get(id_)
        if admission is not None:
            self.ended[id_] = frozenset(range(len(admission.seats)))
