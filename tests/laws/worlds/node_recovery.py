"""A small cluster whose nodes become faulty and healthy again, and which carries out what recovery asks for.

Nothing of ``admission.node_recovery`` is used to play it but its values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.step import NodeTurn
from admission.node_recovery.view import (
    BlackHole,
    GangOnNode,
    JobProgress,
    NodeView,
    RecoveryJob,
    TaintOwner,
)
from queues.workload import NodeName, WorkloadKey, WorkloadKind

NODES = tuple(NodeName(name) for name in ("n1", "n2", "n3", "n4"))
#: What a person calls a fault, and no Job ends.
MARK = "MarkedByPerson"
RECOVER, VERIFY = "ops/recover-gpu", "ops/test-gpu"
POLICY = FaultPolicy(recovers=True, max_nodes_out=2, drain_timeout=600, job=RECOVER, verify_job=VERIFY)


@dataclass
class PlayedNode:
    """A node as the API server has it, and what is on it."""

    name: NodeName
    faults: dict[int, DeviceFault] = field(default_factory=dict)
    black_hole: BlackHole | None = None
    is_reported: bool = True
    ready: bool = True
    cordoned: bool = False
    taint: TaintOwner = TaintOwner.ABSENT
    annotation: str = ""
    gangs: list[GangOnNode] = field(default_factory=list)
    foreign_pods: int = 0
    jobs: dict[str, RecoveryJob] = field(default_factory=dict)

    def view(self) -> NodeView:
        """What recovery sees of it."""
        return NodeView(
            name=self.name,
            faults=tuple(fault for _, fault in sorted(self.faults.items())),
            black_hole=self.black_hole,
            is_reported=self.is_reported,
            ready=self.ready,
            cordoned=self.cordoned,
            taint=self.taint,
            annotation=self.annotation,
            gangs=tuple(self.gangs),
            foreign_pods=self.foreign_pods,
            jobs=dict(self.jobs),
        )


class PlayedCluster:
    """Some nodes, and a clock."""

    def __init__(self, policy: FaultPolicy = POLICY) -> None:
        self.now = 1_800_000_000
        self.policy = policy
        self.nodes = {name: PlayedNode(name) for name in NODES}
        self._gangs = 0

    def views(self) -> Mapping[NodeName, NodeView]:
        """What recovery sees."""
        return {name: node.view() for name, node in self.nodes.items()}

    def passes(self, seconds: int) -> None:
        """Time goes on."""
        self.now += seconds

    def becomes_faulty(self, name: NodeName, index: int, reason: str) -> None:
        """A device gets a fault, beside those that it has."""
        faults, needs_person = self.nodes[name].faults, reason == MARK
        added = FaultCondition(type=reason, reason=reason, since=self.now, needs_person=needs_person)
        before = faults[index].conditions if index in faults else ()
        conditions = sorted(
            {each.type: each for each in (added, *before)}.values(), key=lambda each: each.type
        )
        worst = conditions[0]
        faults[index] = DeviceFault(
            device=f"GPU-{name}-{index}",
            number=index,
            reason=worst.reason,
            message="",
            since=min(each.since for each in conditions),
            conditions=tuple(conditions),
        )

    def is_reported(self, name: NodeName, reports: bool) -> None:
        """The node's Device object is there, or is gone with all faults."""
        node = self.nodes[name]
        node.is_reported = reports
        if not reports:
            node.faults.clear()

    def begins_to_kill_pods(self, name: NodeName) -> None:
        """Gangs fail on the node."""
        self.nodes[name].black_hole = BlackHole(since=self.now, gangs=3)

    def gang_comes(self, name: NodeName, devices: frozenset[int] | None) -> None:
        """A gang is seated on the node."""
        self._gangs += 1
        key = WorkloadKey(WorkloadKind.JOB, f"gang-{self._gangs}")
        self.nodes[name].gangs.append(GangOnNode(key=key, devices=devices))

    def job_ends(self, name: NodeName, job: str, progress: JobProgress) -> None:
        """A Job ends in this way."""
        node = self.nodes[name]
        node.jobs[job] = replace(node.jobs[job], progress=progress)

    def carry_out(self, name: NodeName, turn: NodeTurn, done: int | None = None) -> None:
        """Do what a step asks for, in its order; ``done``: a crash after so many of the things that are to be done."""
        left = 10 if done is None else done
        for part, has in (
            (self._evict, turn.evicted),
            (self._write, turn.writes),
            (self._try_gang, turn.tries_gang),
            (lambda *_: None, turn.event),
            (self._create_job, turn.creates),
            (self._delete_jobs, turn.deletes),
        ):
            if has and left > 0:
                left -= 1
                part(self.nodes[name], turn)

    def _evict(self, node: PlayedNode, turn: NodeTurn) -> None:
        node.gangs = [replace(gang, leaving=gang.leaving or gang.key in turn.evicted) for gang in node.gangs]

    def _write(self, node: PlayedNode, turn: NodeTurn) -> None:
        node.annotation = turn.state.annotation()
        if node.taint is not TaintOwner.PERSON:
            node.taint = TaintOwner.MUSTER if turn.state.phase.is_out else TaintOwner.ABSENT

    def _try_gang(self, node: PlayedNode, turn: NodeTurn) -> None:
        node.black_hole = None

    def _create_job(self, node: PlayedNode, turn: NodeTurn) -> None:
        create = turn.creates
        assert create is not None
        made = RecoveryJob(namespace=create.template.partition("/")[0], name=create.name, created=self.now)
        node.jobs.setdefault(create.name, made)

    def _delete_jobs(self, node: PlayedNode, turn: NodeTurn) -> None:
        for job in turn.deletes:
            node.jobs.pop(job.name, None)
