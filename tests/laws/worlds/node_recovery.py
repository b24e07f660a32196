"""A node that becomes faulty and healthy again, and which carries out what recovery asks for.

Nothing of ``admission.node_recovery`` is used to play it but its values.
"""

from dataclasses import dataclass, field

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.jobs import JobName, RecoveryJob
from admission.node_recovery.step import GangOnNode, NodeTurn, NodeView
from queues import kind_names
from queues.quota.queue import NodeRecoveryRules
from queues.workload import NodeName, WorkloadKey

NODE = NodeName("n1")
#: What a person calls a fault, and no Job ends.
MARK = "MarkedByPerson"
REPAIR, TEST = "ops/recover-gpu", "ops/test-gpu"
RULES = NodeRecoveryRules(recovers=True, job=REPAIR, verify_job=TEST)


@dataclass
class PlayedNode:
    """A node as the API server has it, what is on it, and a clock."""

    now: int = 1_800_000_000
    rules: NodeRecoveryRules = RULES
    faults: dict[int, DeviceFault] = field(default_factory=dict)
    kills_pods: str = ""
    is_reported: bool = True
    ready: bool = True
    taint: str | None = None
    annotation: str = ""
    gangs: list[GangOnNode] = field(default_factory=list)
    leaving: set[WorkloadKey] = field(default_factory=set)
    foreign_pods: int = 0
    held_back: str = ""
    jobs: dict[JobName, RecoveryJob] = field(default_factory=dict)

    def view(self) -> NodeView:
        """What recovery sees of it."""
        return NodeView(
            name=NODE,
            faults=tuple(fault for _, fault in sorted(self.faults.items())),
            kills_pods=self.kills_pods,
            reported=frozenset({"GPU-0", "GPU-1"} if self.is_reported else ()),
            ready=self.ready,
            taint=self.taint,
            annotation=self.annotation,
            gangs=tuple(self.gangs),
            foreign_pods=self.foreign_pods,
            held_back=self.held_back,
            jobs=dict(self.jobs),
        )

    def becomes_faulty(self, index: int, reason: str) -> None:
        """A device gets a fault, beside those that it has."""
        needs_person = reason == MARK
        added = FaultCondition(type=reason, reason=reason, since=self.now, needs_person=needs_person)
        before = self.faults[index].conditions if index in self.faults else ()
        by_type = {condition.type: condition for condition in (added, *before)}
        conditions = tuple(condition for _, condition in sorted(by_type.items()))
        self.faults[index] = DeviceFault(
            device=f"GPU-{index}",
            number=index,
            reason=conditions[0].reason,
            message="",
            since=min(condition.since for condition in conditions),
            conditions=conditions,
        )

    def reports(self, is_reported: bool) -> None:
        """The node's Device object is there, or is gone with all faults."""
        self.is_reported = is_reported
        if not is_reported:
            self.faults.clear()

    def gang_comes(self, devices: frozenset[int] | None) -> None:
        """A gang is seated on the node."""
        key = WorkloadKey(kind_names.JOB, f"gang-{len(self.gangs)}-{self.now}")
        self.gangs.append(GangOnNode(key, devices))

    def evicted_are_gone(self) -> None:
        """Gangs that had to leave have left."""
        self.gangs = [gang for gang in self.gangs if gang.key not in self.leaving]

    def jobs_end(self, succeeded: bool, heals: bool) -> None:
        """Jobs that run end in this way."""
        for name, job in self.jobs.items():
            if job.succeeded is None:
                self.jobs[name] = job._replace(succeeded=succeeded)
                if heals:
                    self.faults.clear()

    def carry_out(self, turn: NodeTurn, done: int = 10) -> None:
        """Do what a step asks for, in its order; ``done``: a crash after so many of the things that are to be done."""
        for part, has in (
            (self._evict, turn.evicted),
            (self._delete_job, turn.deletes),
            (self._write, turn.writes),
            (self._create_job, turn.creates),
        ):
            if has and done > 0:
                done -= 1
                part(turn)

    def _evict(self, turn: NodeTurn) -> None:
        self.leaving |= turn.evicted.keys()

    def _delete_job(self, turn: NodeTurn) -> None:
        assert turn.deletes is not None
        self.jobs.pop(turn.deletes, None)

    def _write(self, turn: NodeTurn) -> None:
        self.annotation = turn.state.annotation()
        if self.taint in (None, "muster"):
            self.taint = "muster" if turn.state.phase.is_out else None

    def _create_job(self, turn: NodeTurn) -> None:
        assert turn.creates is not None
        self.jobs.setdefault(turn.creates.job, RecoveryJob(self.now))
