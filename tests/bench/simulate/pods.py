"""Single pods on shared devices: the part of a cluster's GPUs that is left when no more pods can be placed.

The protocol of the FGD paper (Weng et al., USENIX ATC'23) on its trace, Alibaba's cluster-trace-gpu-v2023: an
empty cluster; all pods of the list, shuffled, then pods drawn from it with replacement, until 130 % of the
GPUs are asked for; each is placed for good, or dropped. The result is the part of the GPUs that is left.

Every pod is a workload that arrives alone and gets one turn of ``decide()``, which learns typical
requests from the pods that arrived before, and from this one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.demand import Demand
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Admission
from queues.quota.queue import Queue
from queues.resources import CPU, GPU, MEMORY, PODS, WHOLE, Resources, device
from queues.workload import (
    AdmissionId,
    DeviceShare,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.bench.simulate.csv_reader import MODEL, TableRow, lines, nodes_with

_MIB: Final = 1 << 20
#: Requested GPUs as a part of all GPUs.
_LOAD_PERCENT: Final = 130
_QUEUE: Final = QueueName("pods")
_START: Final = 1_800_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Nodes, and the list of pods."""

    nodes: NodeTable
    #: Sorted by name.
    pods: tuple[PodSet, ...]
    #: Thousandths of a GPU that all nodes have.
    capacity: int


@dataclass(slots=True, kw_only=True)
class PodsOutcome:
    """Pods that arrived and were placed."""

    arrived: int = 0
    placed: int = 0
    #: Thousandths of a GPU.
    capacity: int
    asked: int = 0
    allocated: int = 0
    seconds: float = 0.0

    def left_percent(self) -> float:
        """The part of the GPUs that is left."""
        return 100 * (1 - self.allocated / self.capacity)


def load(pods: Path, nodes: Path) -> Trace:
    """A list of pods and one of nodes."""
    offered = [_node(row) for row in lines(nodes)]
    asked = sorted(((row["name"], _pod(row)) for row in lines(pods)), key=lambda each: each[0])
    capacity = sum(node.allocatable.get(GPU) for node in offered)
    return Trace(nodes=NodeTable.build(offered), pods=tuple(pod for _, pod in asked), capacity=capacity)


def arrivals(trace: Trace, seed: int) -> Iterator[PodSet]:
    """All pods shuffled, then draws from them, until 130 % of the GPUs are requested."""
    random = Random(seed)
    first = list(trace.pods)
    random.shuffle(first)
    asked = 0
    for pod in first:
        asked += pod.takes.get(GPU)
        yield pod
    if not asked:
        return
    while True:
        pod = trace.pods[random.randrange(len(trace.pods))]
        asked += pod.takes.get(GPU)
        if asked * 100 > trace.capacity * _LOAD_PERCENT:
            return
        yield pod


def run(trace: Trace, seed: int) -> PodsOutcome:
    """Simulate the arrivals of one seed."""
    began = perf_counter()
    outcome = PodsOutcome(capacity=trace.capacity)
    learned, memo, table = Demand(), Memo(), trace.nodes
    queues: Mapping[QueueName, Queue] = {_QUEUE: Queue(name=_QUEUE)}
    admissions: dict[AdmissionId, Admission] = {}
    for number, pod in enumerate(arrivals(trace, seed), start=1):
        learned.count(pod, 1)
        workload = _workload(pod, number)
        snapshot = Snapshot(
            now=_START + number,
            queues=queues,
            nodes=table,
            pending={workload.key: workload},
            admissions=admissions,
            typical=learned.typical(),
        )
        plan, memo = decide(snapshot, memo)
        outcome.arrived += 1
        outcome.asked += pod.takes.get(GPU)
        for admit in plan.admits:
            outcome.placed += 1
            outcome.allocated += pod.takes.get(GPU)
            table = table.with_used({seat.node: seat.takes for seat in admit.seats})
    outcome.seconds = perf_counter() - began
    return outcome


def _workload(pod: PodSet, number: int) -> Workload:
    return Workload(
        key=WorkloadKey(kind_names.POD, str(number)),
        namespace="pods",
        name=f"{pod.name}-{number}",
        queue=_QUEUE,
        arrival=number,
        created=_START + number,
        minimum=1,
        pod_sets=(replace(pod, name="main"),),
        generation="1",
    )


def _node(row: TableRow) -> Node:
    gpus = row.offered("gpu")
    takes = {
        CPU: row.offered("cpu_milli"),
        MEMORY: row.offered("memory_mib") * _MIB,
        GPU: gpus * WHOLE,
        PODS: 1000,
        **{device(GPU, index): WHOLE for index in range(gpus)},
    }
    return Node(name=NodeName(row["sn"]), allocatable=Resources(takes), labels={MODEL: row["model"]})


def _pod(row: TableRow) -> PodSet:
    gpus, milli = row.whole("num_gpu"), row.whole("gpu_milli")
    takes = {
        CPU: row.whole("cpu_milli"),
        MEMORY: row.whole("memory_mib") * _MIB,
        GPU: gpus * milli,
        PODS: 1,
    }
    return PodSet(
        name=row["name"],
        count=1,
        takes=Resources(takes),
        nodes=nodes_with(row["gpu_spec"]),
        share=DeviceShare(devices=gpus, milli=milli) if gpus and milli < WHOLE else None,
    )
