"""A recorded case: nodes in racks, tenants with quotas, and gangs that arrive.

A case is a folder with ``nodes.csv`` (name, gpus, cpu_milli, mem_mib, rack, gpu_model), ``queues.csv`` (tenant,
quota_gpus), ``jobs.csv`` (id, tenant, submit_s, duration_s, members, gpus_per_member, cpu_per_member,
mem_per_member, gpu_model_constraint, priority) and ``case.json`` (ckpt_s, rack_required).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admission.engine.topology import HOST, Node, NodeTable
from admission.simulate.tables import Row, document, rows
from queues.queue import Limits, Queue, QueuePolicy
from queues.resources import CPU, GPU, MEMORY, PODS, Resources
from queues.workload import (
    EVERYWHERE,
    NodeFilter,
    NodeName,
    PodSet,
    QueueName,
    Requirement,
    Workload,
    WorkloadKey,
    WorkloadKind,
)

#: The second at which every case begins (seconds since the epoch).
START: Final = 1_800_000_000
RACK: Final = "topology.muster.dev/rack"
MODEL: Final = "nvidia.com/gpu.product"
_PODS_PER_NODE: Final = 110
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of ``jobs.csv``. The engine sees the workload only."""

    id: str
    workload: Workload
    #: Seconds after the start of the case.
    submitted: int
    #: Seconds it runs if nobody disturbs it.
    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a simulation starts from."""

    name: str
    nodes: NodeTable
    queues: Mapping[QueueName, Queue]
    #: By time of submission.
    jobs: tuple[Job, ...]
    #: Seconds between two checkpoints of a job.
    checkpoint: int


def load(folder: Path) -> Case:
    """The case in a folder. Raises InvalidDocument."""
    about = document(folder / "case.json")
    nodes = [_node(row) for row in rows(folder / "nodes.csv")]
    table = NodeTable.build(nodes, [[RACK, HOST]])
    checkpoint = int(about.get("ckpt_s", 1800))
    racks = _rack_gpus(table) if about.get("rack_required", True) else 0
    ordered = sorted(rows(folder / "jobs.csv"), key=lambda row: row.whole("submit_s"))
    jobs = tuple(_job(row, number, checkpoint, racks) for number, row in enumerate(ordered, start=1))
    queues = {queue.name: queue for queue in map(_queue, rows(folder / "queues.csv"))}
    return Case(
        name=str(about.get("name", folder.name)), nodes=table, queues=queues, jobs=jobs, checkpoint=checkpoint
    )


def _node(row: Row) -> Node:
    labels = {HOST: row["name"], RACK: row["rack"], MODEL: row["gpu_model"]}
    takes = {
        CPU: row.offered("cpu_milli"),
        MEMORY: row.offered("mem_mib") * _MIB,
        GPU: row.offered("gpus") * 1000,
        PODS: _PODS_PER_NODE,
    }
    return Node(name=NodeName(row["name"]), allocatable=Resources(takes), labels=labels)


def _rack_gpus(table: NodeTable) -> int:
    """GPUs of the largest rack."""
    (rack, *_), _ = table.layout.chain(RACK) or ((), 0)
    return int(rack.sums(table.allocatable[table.resources.index(GPU)]).max(initial=0)) // 1000


def _queue(row: Row) -> Queue:
    """A tenant: what it deserves in GPUs is its quota, and of everything else the same part."""
    quota = row.offered("quota_gpus")
    fades = row.whole("usage_half_life_s") if row.get("usage_half_life_s") else None
    return Queue(
        name=QueueName(row["tenant"]),
        weight=max(quota, 1),
        limits=Limits(deserved={GPU: quota * 1000}),
        policy=QueuePolicy(usage_half_life=fades),
    )


def _job(row: Row, number: int, checkpoint: int, rack_gpus: int) -> Job:
    members, gpus = row.whole("members"), row.whole("gpus_per_member")
    takes = {
        CPU: row.whole("cpu_per_member"),
        MEMORY: row.whole("mem_per_member") * _MIB,
        GPU: gpus * 1000,
        PODS: 1,
    }
    gang = members > 1 and rack_gpus > 0
    pods = PodSet(
        name="worker",
        count=members,
        takes=Resources(takes),
        nodes=_filter(row.get("gpu_model_constraint", "")),
        required_topology=RACK if gang and members * gpus <= rack_gpus else None,
        preferred_topology=RACK if gang and members * gpus > rack_gpus else None,
    )
    submitted = row.whole("submit_s")
    workload = Workload(
        key=WorkloadKey(WorkloadKind.JOB, row["id"]),
        namespace=row["tenant"],
        name=row["id"],
        queue=QueueName(row["tenant"]),
        priority=int(row.get("priority", "") or 0),
        arrival=number,
        created=START + submitted,
        waiting_since=START + submitted,
        minimum=members,
        pod_sets=(pods,),
        generation="1",
        user=row.get("user", ""),
        checkpoint_interval=checkpoint,
    )
    return Job(id=row["id"], workload=workload, submitted=submitted, duration=row.whole("duration_s"))


def _filter(models: str) -> NodeFilter:
    if not models:
        return EVERYWHERE
    return NodeFilter(affinity=((Requirement(MODEL, "In", tuple(models.split("|"))),),))
