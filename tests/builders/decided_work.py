"""Workloads, admissions and worlds as a decision sees them: a test says only what its promise depends on."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.kind_names import KindName
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey


def gpu_pods(count: int = 1, gpus: float = 1, name: str = "main", **fields: Any) -> PodSet:
    """Pods of so many GPUs each."""
    takes = Resources({GPU: round(gpus * 1000), "pods": 1})
    return PodSet(**{"name": name, "count": count, "takes": takes, **fields})


def a_workload(
    uid: str, *sets: PodSet, kind: KindName = kind_names.JOB, queue: str = "q", **fields: Any
) -> Workload:
    """Pods that all start together, in namespace team, with the uid as its name."""
    minimum = sum(pods.count for pods in sets)
    given = {"namespace": "team", "name": uid, "arrival": 1, "minimum": minimum, **fields}
    return Workload(key=WorkloadKey(kind, uid), queue=QueueName(queue), pod_sets=sets, **given)


def seats_on(nodes: str, pods: PodSet, first: int = 0) -> tuple[Seat, ...]:
    """One seat of these pods on each node named (``"n1 n1 n2"``)."""
    return tuple(
        Seat(pod_set=pods.name, ordinal=ordinal, node=NodeName(node), takes=pods.takes)
        for ordinal, node in enumerate(nodes.split(), first)
    )


def an_admission(number: int, workload: Workload, *seats: Seat, **fields: Any) -> Admission:
    """What the workload holds; it has started."""
    given = {
        "namespace": workload.namespace,
        "name": workload.name,
        "queue": workload.queue,
        "priority": workload.priority,
        "opened_at": 1,
        "started": True,
        **fields,
    }
    return Admission(id=AdmissionId(number), workload=workload.key, seats=seats, **given)


def a_node(name: str, amounts: Mapping[str, int], **fields: Any) -> Node:
    """A node with these amounts, in the units of its resources; it is its own host, whatever other labels it has."""
    labels = {HOST: name, **fields.pop("labels", {})}
    return Node(name=NodeName(name), allocatable=Resources(amounts), labels=labels, **fields)


def gpu_node(name: str, gpus: float = 8, **fields: Any) -> Node:
    """A node with so many GPUs."""
    return a_node(name, {GPU: round(gpus * 1000), "pods": 110}, **fields)


def a_snapshot(
    *pending: Workload,
    queues: Iterable[Queue],
    nodes: NodeTable | Iterable[Node],
    admissions: Iterable[Admission] = (),
    **fields: Any,
) -> Snapshot:
    """A world in which these workloads wait."""
    return Snapshot(
        queues={queue.name: queue for queue in queues},
        nodes=nodes if isinstance(nodes, NodeTable) else NodeTable.build(nodes),
        pending={workload.key: workload for workload in pending},
        admissions={admission.id: admission for admission in admissions},
        **fields,
    )


def plan_of(snapshot: Snapshot) -> Plan:
    """What a turn decides that knows nothing of those before it."""
    return decide(snapshot, Memo())[0]


def admitted(plan: Plan) -> set[str]:
    """Names of the workloads that get seats."""
    return {admit.name for admit in plan.admits}


def waiting(plan: Plan) -> dict[str, ReasonCode]:
    """Why workloads wait, by uid."""
    return {key.uid: reason.code for key, reason in plan.reasons.items()}


def turn_after(snapshot: Snapshot, plan: Plan, *jobs: Workload, **changes: Any) -> Snapshot:
    """The next turn, with the pods running and further workloads."""
    later = snapshot.after(plan)
    return replace(later, pending={**later.pending, **{each.key: each for each in jobs}}, **changes)
