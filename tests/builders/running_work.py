"""Small running workloads, and the candidates that they are for preemption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.table import NodeTable
from admission.engine.preemption.candidates import Candidate, ChargesByShape, HeldAdmission, VictimCandidates
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey

NOW = 1_000_000


def workload(name: str, queue: str = "q", *, gpus: float = 1, pods: int = 1, **more: Any) -> Workload:
    """Pods of one shape that start together; ``more``: any other fields of the workload."""
    takes = Resources({GPU: round(gpus * 1000), "pods": 1})
    about = {"arrival": 10, "created": NOW - 10_000, "minimum": pods, "generation": "1", **more}
    return Workload(
        key=WorkloadKey(kind_names.JOB, name),
        namespace="team",
        name=name,
        queue=QueueName(queue),
        pod_sets=(PodSet(name="main", count=pods, takes=takes),),
        **about,
    )


@dataclass(frozen=True, kw_only=True)
class Running:
    """An admission of a workload: one seat on each of these nodes."""

    workload: Workload
    nodes: Sequence[str] = ("n0",)
    #: Seconds since it was admitted.
    since: int = 1000

    def admission(self, number: int) -> Admission:
        (pods,) = self.workload.pod_sets
        return Admission(
            id=AdmissionId(number),
            workload=self.workload.key,
            namespace="team",
            name=self.workload.name,
            queue=self.workload.queue,
            priority=self.workload.priority,
            seats=tuple(
                Seat(pod_set=pods.name, ordinal=ordinal, node=NodeName(node), takes=pods.takes)
                for ordinal, node in enumerate(self.nodes)
            ),
            opened_at=NOW - self.since,
        )


def running(name: str, queue: str = "q", *, on: str = "n0", since: int = 1000, **about: Any) -> Running:
    """A workload that runs on these nodes (separated by spaces), one pod on each."""
    nodes = on.split()
    return Running(workload=workload(name, queue, pods=len(nodes), **about), nodes=nodes, since=since)


def snapshot_of(works: Sequence[Running], nodes: NodeTable | None = None, **more: Any) -> Snapshot:
    """A world in which these run, with the admission numbers 1, 2, …"""
    admissions = [work.admission(number) for number, work in enumerate(works, 1)]
    empty = Snapshot(
        now=NOW,
        queues={},
        nodes=nodes or NodeTable.build(()),
        pending={},
        admissions={each.id: each for each in admissions},
        holders={work.workload.key: work.workload for work in works},
    )
    return replace(empty, **more)


def candidates_in(snapshot: Snapshot, tree: QueueTree) -> VictimCandidates:
    """The candidates among what runs."""
    shapes = ChargesByShape()
    held = {number: shapes.hold(admission) for number, admission in snapshot.admissions.items()}
    return victim_candidates(snapshot, tree, held)


def victim_candidates(
    snapshot: Snapshot, tree: QueueTree, held_admissions: Mapping[AdmissionId, HeldAdmission]
) -> VictimCandidates:
    """Candidates among all running workloads, from nothing. ``held_admissions``: every admission."""
    open_admissions = OpenAdmissions()
    for number, held in held_admissions.items():
        open_admissions.update(number, None, held.admission)
    return RunningWorkloads(tree, open_admissions, held_admissions).candidates(snapshot, Usage(tree))


def candidate_of(work: Running, tree: QueueTree) -> Candidate:
    """What runs, as the only candidate."""
    (candidate,) = candidates_in(snapshot_of([work]), tree).of_queue[work.workload.queue]
    return candidate


def tree_of(queues: Mapping[str, Queue], gpus: int) -> QueueTree:
    """These queues over so many GPUs."""
    tree = QueueTree.build(
        {QueueName(name): queue for name, queue in queues.items()}, Resources({GPU: gpus * 1000, "pods": 110})
    )
    assert not tree.problems
    return tree
