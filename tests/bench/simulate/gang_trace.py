"""A recorded case: nodes in racks, tenants with quotas, and gangs that arrive.

A case is a folder with ``nodes.csv`` (name, gpus, cpu_milli, mem_mib, rack, gpu_model), ``queues.csv`` (tenant,
quota_gpus), ``jobs.csv`` (id, tenant, submit_s, duration_s, members, gpus_per_member, cpu_per_member,
mem_per_member, gpu_model_constraint, priority) and ``case.json`` (ckpt_s, rack_required). The order of lines
does not matter: jobs of the same second arrive by name, ``j2`` before ``j10``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from queues import kind_names
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.resources import CPU, GPU, MEMORY, PODS, Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey
from tests.bench.simulate.csv_reader import MODEL, TableRow, lines, nodes_with

#: The second at which every case begins (seconds since the epoch).
START: Final = 1_800_000_000
RACK: Final = "topology.muster.dev/rack"
_PODS_PER_NODE: Final = 110
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One line of ``jobs.csv``. The engine sees the workload only."""

    workload: Workload
    #: Seconds after the start of the case.
    submitted: int
    #: Seconds of work, without interruptions.
    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The input of a simulation."""

    name: str
    nodes: NodeTable
    queues: Mapping[QueueName, Queue]
    #: By time of submission.
    jobs: tuple[TraceJob, ...]
    #: Seconds between two checkpoints of a job.
    checkpoint: int
    #: Labels of namespaces: queues may state which namespaces use them.
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def load(folder: Path, seed: int | None = None) -> Case:
    """The case in a folder. ``seed`` shuffles its lines, which must not matter."""

    def shuffled(file: str) -> list[TableRow]:
        found = lines(folder / file)
        if seed is not None:
            Random(seed).shuffle(found)
        return found

    about = json.loads((folder / "case.json").read_text(encoding="utf-8-sig"))
    checkpoint = int(about.get("ckpt_s", 1800))
    table = NodeTable.build([_node(row) for row in shuffled("nodes.csv")], [[RACK, HOST]])
    ordered = sorted(shuffled("jobs.csv"), key=_arrival_order)
    racks = _rack_gpus(table) if about.get("rack_required", True) else 0
    return Case(
        name=about.get("name", folder.name),
        nodes=table,
        queues={queue.name: queue for queue in map(_queue, shuffled("queues.csv"))},
        jobs=tuple(_job(row, number, checkpoint, racks) for number, row in enumerate(ordered, start=1)),
        checkpoint=checkpoint,
    )


def _arrival_order(row: TableRow) -> tuple[int, list[tuple[bool, int, str]], str]:
    """Sort key of jobs: by time; in the same second by name, numbers in a name by their value."""
    parts = re.findall(r"(\d+)|(\D+)", row["id"])
    by_value = [(not digits, int(digits or 0), text) for digits, text in parts]
    return row.whole("submit_s"), by_value, row["id"]


def _node(row: TableRow) -> Node:
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


def _queue(row: TableRow) -> Queue:
    """The queue of a tenant: it deserves its quota of GPUs, and by its weight the same part of other resources."""
    quota = row.offered("quota_gpus")
    half_life = row.whole("usage_half_life_s") if row.get("usage_half_life_s") else None
    return Queue(
        name=QueueName(row["tenant"]),
        weight=max(quota, 1),
        limits=Limits(deserved={GPU: quota * 1000}),
        policy=QueuePolicy(usage_half_life=half_life),
    )


def _job(row: TableRow, number: int, checkpoint: int, rack_gpus: int) -> TraceJob:
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
        nodes=nodes_with(row.get("gpu_model_constraint", "")),
        required_topology=RACK if gang and members * gpus <= rack_gpus else None,
        preferred_topology=RACK if gang and members * gpus > rack_gpus else None,
    )
    submitted = row.whole("submit_s")
    workload = Workload(
        key=WorkloadKey(kind_names.JOB, row["id"]),
        namespace=row["tenant"],
        name=row["id"],
        queue=QueueName(row["tenant"]),
        priority=int(row.get("priority") or 0),
        arrival=number,
        created=START + submitted,
        waiting_since=START + submitted,
        minimum=members,
        pod_sets=(pods,),
        generation="1",
        user=row.get("user", ""),
        checkpoint_interval=checkpoint,
    )
    return TraceJob(workload=workload, submitted=submitted, duration=row.whole("duration_s"))
