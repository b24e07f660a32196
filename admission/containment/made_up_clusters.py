"""Small made-up clusters, the same ones each time: what plug-ins are tried on where no turn of a site was saved."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState, Seat
from queues.kind_names import JOB
from queues.quota.queue import ROOT, Limits, Queue
from queues.resources import CPU, GPU, MEMORY, PODS, Resources
from queues.workload import AdmissionId, FlavorName, NodeName, PodSet, QueueName, Workload, WorkloadKey

NOW: Final = 1_800_000_000
_FLAVORS: Final = (FlavorName("fast"), FlavorName("slow"))
_RACK: Final = "rack"
_QUEUES: Final = tuple(QueueName(name) for name in ("team-a", "team-b", "team-c"))


class _Numbers:
    """Numbers as if at random, that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = seed, 0

    def below(self, bound: int) -> int:
        """From 0 to below the bound."""
        self._drawn += 1
        return int.from_bytes(sha256(f"{self._seed} {self._drawn}".encode()).digest()[:8]) % bound


def made_up_clusters(count: int) -> Iterator[Snapshot]:
    """So many snapshots: queues of one team each, some work that runs, and more that waits than fits."""
    for seed in range(count):
        yield _cluster(_Numbers(seed))


def _cluster(draw: _Numbers) -> Snapshot:
    nodes = [_node(number, draw) for number in range(4 + draw.below(8))]
    gpus = sum(node.allocatable.get(GPU) for node in nodes)
    queues = {ROOT: Queue(name=ROOT, parent=None)}
    for name in _QUEUES:
        deserved = {GPU: gpus // len(_QUEUES)} if draw.below(2) else {}
        flavors = {} if draw.below(3) else dict.fromkeys(_FLAVORS, Limits())
        queues[name] = Queue(name=name, limits=Limits(deserved=deserved), flavors=flavors)
    free = {node.name: node.allocatable for node in nodes}
    running: dict[AdmissionId, Admission] = {}
    holders: dict[WorkloadKey, Workload] = {}
    for number in range(2 * len(nodes)):
        workload = _workload(number, draw, pods=1)
        takes = workload.pod_sets[0].takes
        fits = [node for node in nodes if all(free[node.name].get(each) >= takes[each] for each in takes)]
        if fits:
            node = fits[draw.below(len(fits))]
            free[node.name] = free[node.name] - takes
            holders[workload.key] = workload
            seat = Seat(pod_set="main", ordinal=0, node=node.name, flavor=node.flavor, takes=takes)
            running[AdmissionId(number + 1)] = _admission(number + 1, workload, seat, draw)
    pending = [_workload(1000 + number, draw, pods=1 + draw.below(4)) for number in range(12)]
    taken = {node.name: node.allocatable - free[node.name] for node in nodes}
    return Snapshot(
        now=NOW,
        queues=queues,
        nodes=NodeTable.build(nodes, [[_RACK]]).with_used(taken),
        pending={workload.key: workload for workload in pending},
        admissions=running,
        holders=holders,
    )


def _node(number: int, draw: _Numbers) -> Node:
    flavor = _FLAVORS[draw.below(2)]
    amounts = {GPU: 1000 * (4 + 4 * draw.below(2)), CPU: 64_000, MEMORY: 2**38, PODS: 110}
    return Node(
        name=NodeName(f"node-{number}"),
        allocatable=Resources(amounts),
        labels={_RACK: f"rack-{draw.below(3)}", "accelerator": flavor},
        flavor=flavor,
    )


def _workload(number: int, draw: _Numbers, pods: int) -> Workload:
    takes = Resources(
        {GPU: 1000 * (1 + draw.below(4)), CPU: 1000, MEMORY: 2**30 * (1 + draw.below(16)), PODS: 1}
    )
    created = NOW - draw.below(86_400)
    return Workload(
        key=WorkloadKey(JOB, f"made-up-{number}"),
        namespace="made-up",
        name=f"work-{number}",
        queue=_QUEUES[draw.below(len(_QUEUES))],
        priority=100 * draw.below(3),
        arrival=number,
        created=created,
        minimum=pods,
        pod_sets=(PodSet(name="main", count=pods, minimum=pods, takes=takes),),
        user=f"user-{draw.below(3)}",
        run_time=(None, 600, 7200)[draw.below(3)],
    )


def _admission(number: int, workload: Workload, seat: Seat, draw: _Numbers) -> Admission:
    return Admission(
        id=AdmissionId(number),
        workload=workload.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        seats=(seat,),
        state=AdmissionState.OPEN,
        opened_at=NOW - 3600 - draw.below(86_400),
    )
