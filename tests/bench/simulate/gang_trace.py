"""A recorded case: nodes in racks, tenants with quotas, and gangs that arrive.

A case is a folder with ``nodes.csv`` (name, gpus, cpu_milli, mem_mib, rack, gpu_model), ``queues.csv`` (tenant,
quota_gpus), ``jobs.csv`` (id, tenant, submit_s, duration_s, members, gpus_per_member, cpu_per_member,
mem_per_member, gpu_model_constraint, priority) and ``case.json`` (ckpt_s, rack_required). The order of lines
does not matter: jobs of the same second arrive by name, ``j2`` before ``j10``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from queues.errors import InvalidDocument
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.resources import CPU, GPU, MEMORY, MOST_ON_NODE, PODS, Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.bench.simulate.csv_reader import LARGEST, MODEL, TableRow, document, named, nodes_with

#: The second at which every case begins (seconds since the epoch).
START: Final = 1_800_000_000
RACK: Final = "topology.muster.dev/rack"
_PODS_PER_NODE: Final = 110
_MIB: Final = 1 << 20
#: Pods of one gang: more take minutes per turn, and no recorded job has more.
_MOST_MEMBERS: Final = 100_000


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
    """The case in a folder. Raises InvalidDocument. ``seed`` shuffles its lines, which must not matter."""

    def lines(file: str, column: str) -> list[TableRow]:
        found = named(folder / file, column)
        if seed is not None:
            Random(seed).shuffle(found)
        return found

    about = document(folder / "case.json")
    checkpoint = _field(about, "ckpt_s", 1800, folder)
    in_racks = _field(about, "rack_required", True, folder)
    table = NodeTable.build([_node(row) for row in lines("nodes.csv", "name")], [[RACK, HOST]])
    if not len(table):
        raise InvalidDocument(where=str(folder / "nodes.csv"), found="no nodes", expected="some")
    queues = {queue.name: queue for queue in map(_queue, lines("queues.csv", "tenant"))}
    ordered = sorted(lines("jobs.csv", "id"), key=_arrival_order)
    racks = _rack_gpus(table) if in_racks else 0
    jobs = tuple(_job(row, number, checkpoint, racks) for number, row in enumerate(ordered, start=1))
    for job, row in zip(jobs, ordered, strict=True):
        if job.workload.queue not in queues:
            raise InvalidDocument(
                where=f"{row.where}, column tenant", found=repr(row["tenant"]), expected="one of queues.csv"
            )
    return Case(
        name=_field(about, "name", folder.name, folder),
        nodes=table,
        queues=queues,
        jobs=jobs,
        checkpoint=checkpoint,
    )


def _field(about: Mapping[str, Any], name: str, default: Any, folder: Path) -> Any:
    """A field of ``case.json``; it has the type of its default: text, a positive whole number, or true or false."""
    value = about.get(name, default)
    whole = isinstance(value, float) and value.is_integer()
    value = int(value) if whole else value
    if type(value) is not type(default) or (type(value) is int and not 0 < value <= LARGEST):
        words = {str: "text", bool: "true or false", int: f"a whole number from 1 to {LARGEST}"}
        where = f"{folder / 'case.json'}, {name}"
        raise InvalidDocument(where=where, found=repr(about[name])[:80], expected=words[type(default)])
    return value


def _arrival_order(row: TableRow) -> tuple[int, list[tuple[bool, int, str]], str]:
    """Sort key of jobs: by time; in the same second by name, numbers in a name by their value."""
    parts = re.findall(r"(\d+)|(\D+)", row["id"])
    by_value = [(not digits, int(digits or 0), text) for digits, text in parts]
    return row.whole("submit_s"), by_value, row["id"]


def _node(row: TableRow) -> Node:
    labels = {HOST: row["name"], RACK: row["rack"], MODEL: row["gpu_model"]}
    takes = {
        CPU: row.offered("cpu_milli"),
        MEMORY: row.offered("mem_mib", MOST_ON_NODE // _MIB) * _MIB,
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
    if row["tenant"] == ROOT:
        raise InvalidDocument(
            where=f"{row.where}, column tenant",
            found=repr(ROOT),
            expected="another name: root is the queue above all tenants",
        )
    return Queue(
        name=QueueName(row["tenant"]),
        weight=max(quota, 1),
        limits=Limits(deserved={GPU: quota * 1000}),
        policy=QueuePolicy(usage_half_life=half_life),
    )


def _job(row: TableRow, number: int, checkpoint: int, rack_gpus: int) -> TraceJob:
    members, gpus = row.whole("members", _MOST_MEMBERS), row.whole("gpus_per_member")
    if not members:
        raise InvalidDocument(where=f"{row.where}, column members", found="0", expected="at least 1")
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
        key=WorkloadKey(WorkloadKind.JOB, row["id"]),
        namespace=row["tenant"],
        name=row["id"],
        queue=QueueName(row["tenant"]),
        priority=row.signed("priority"),
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
