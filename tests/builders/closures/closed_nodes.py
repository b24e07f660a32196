"""Small worlds with nodes that Reservations and NodeDrains close."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from admission.engine.nodes.table import NodeTable
from admission.engine.snapshot import Snapshot
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import ROOT, Queue
from queues.resources import Resources, total
from queues.workload import FlavorName, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_node, a_snapshot, a_workload, an_admission, seats_on

GPU = "nvidia.com/gpu"
START = 100_000
TEAM, OTHERS = QueueName("team"), QueueName("others")
QUEUES = {name: Queue(name=name, parent=ROOT) for name in (TEAM, OTHERS)}


def gpus(count: int) -> Resources:
    return Resources({GPU: count * 1000})


def workload(name: str, queue: QueueName = OTHERS, pods: int = 1, each: int = 8, **fields: Any) -> Workload:
    sets = PodSet(name="main", count=pods, minimum=pods, takes=gpus(each))
    return a_workload(name, sets, namespace="ns", queue=queue, created=0, generation="1", **fields)


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
    admissions = []
    for node, works in (running or {}).items():
        for work in works:
            at = names.index(node)
            seats = seats_on(" ".join(names[at : at + work.minimum]), work.pod_sets[0])
            number = len(admissions) + 1
            admissions.append(an_admission(number, work, *seats, opened_at=START - 10_000, generation="1"))
    held = [seat for admission in admissions for seat in admission.seats]
    table = NodeTable.build(
        [
            a_node(
                name,
                gpus(8),
                used=total(seat.takes for seat in held if seat.node == name),
                labels={"rack": (racks or {}).get(name, "r0")},
                flavor=FlavorName((flavors or {}).get(name, "")),
            )
            for name in names
        ],
        [("rack",)],
    )
    return a_snapshot(
        *pending,
        queues=queues.values(),
        nodes=table,
        admissions=admissions,
        now=now,
        holders={work.key: work for works in (running or {}).values() for work in works},
        closures=closures,
    )
