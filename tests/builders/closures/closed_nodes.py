"""Small worlds with nodes that Reservations and NodeDrains close."""

from collections.abc import Mapping
from dataclasses import replace

from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, Seat
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import ROOT, Queue
from queues.resources import Resources, total
from queues.workload import (
    NO_FLAVOR,
    AdmissionId,
    FlavorName,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadKind,
)

GPU = "nvidia.com/gpu"
START = 100_000
TEAM, OTHERS = QueueName("team"), QueueName("others")
QUEUES = {name: Queue(name=name, parent=ROOT) for name in (TEAM, OTHERS)}


def gpus(count: int) -> Resources:
    return Resources({GPU: count * 1000})


def workload(
    name: str, queue: QueueName = OTHERS, pods: int = 1, run_time: int | None = None, each: int = 8
) -> Workload:
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, name),
        namespace="ns",
        name=name,
        queue=queue,
        priority=0,
        arrival=1,
        created=0,
        minimum=pods,
        pod_sets=(PodSet(name="main", count=pods, minimum=pods, takes=gpus(each)),),
        generation="1",
        run_time=run_time,
    )


def reservation(**changes: object) -> NodeClosure:
    closure = NodeClosure(
        kind=ClosureKind.RESERVATION,
        name="night",
        lead_from=START - 3600,
        clear_at=START - 120,
        start=START,
        end=START + 7200,
        queue=TEAM,
        amounts=gpus(16),
    )
    return replace(closure, **changes)  # type: ignore[arg-type]


def drain(*nodes: str, **changes: object) -> NodeClosure:
    closure = NodeClosure(
        kind=ClosureKind.DRAIN,
        name="fix",
        lead_from=START - 3600,
        clear_at=START,
        start=START,
        end=None,
        nodes=tuple(NodeName(name) for name in nodes),
    )
    return replace(closure, **changes)  # type: ignore[arg-type]


def world(
    now: int,
    *closures: NodeClosure,
    running: dict[str, tuple[Workload, ...]] | None = None,
    pending: tuple[Workload, ...] = (),
    nodes: int = 4,
    racks: dict[str, str] | None = None,
    flavors: dict[str, str] | None = None,
    queues: Mapping[QueueName, Queue] = QUEUES,
) -> Snapshot:
    """Nodes n0, n1 … with eight GPUs. ``running``: work by its first node; a gang of two has the next one as well."""
    names = [f"n{number}" for number in range(nodes)]
    seats: dict[Workload, tuple[Seat, ...]] = {}
    for node, works in (running or {}).items():
        for work in works:
            at = names.index(node)
            seats[work] = tuple(
                Seat(
                    pod_set="main",
                    ordinal=ordinal,
                    node=NodeName(names[at + ordinal]),
                    flavor=NO_FLAVOR,
                    takes=work.pod_sets[0].takes,
                )
                for ordinal in range(work.minimum)
            )
    admissions = {
        AdmissionId(number): Admission(
            id=AdmissionId(number),
            workload=work.key,
            namespace="ns",
            name=work.name,
            queue=work.queue,
            priority=0,
            seats=held,
            opened_at=START - 10_000,
            generation="1",
            started=True,
        )
        for number, (work, held) in enumerate(seats.items(), 1)
    }
    table = NodeTable.build(
        [
            Node(
                name=NodeName(name),
                allocatable=gpus(8),
                used=total(seat.takes for held in seats.values() for seat in held if seat.node == name),
                labels={"rack": (racks or {}).get(name, "r0")},
                flavor=FlavorName((flavors or {}).get(name, "")),
            )
            for name in names
        ],
        [("rack",)],
    )
    return Snapshot(
        now=now,
        queues=queues,
        nodes=table,
        pending={work.key: work for work in pending},
        admissions=admissions,
        holders={work.key: work for work in seats},
        closures=closures,
    )
