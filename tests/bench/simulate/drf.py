"""Dominant resource fairness on recorded applications: tasks of each tenant in a cluster that is too small.

A folder has ``drf_tenants.csv`` (tenant, tasks, and what one task takes of each resource) and
``drf_equal_0.6.csv`` (tenant, tasks_discrete: the expected answer). The cluster has a part of all requests, the same
for each resource and given by the name of that file; every tenant is a queue of weight 1, every task a workload
that waits in it. One turn of ``decide()`` shares the cluster out.
"""

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from time import perf_counter
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues.errors import InvalidDocument
from queues.quota.queue import ROOT, Queue
from queues.resources import MOST, Resources, total
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.bench.simulate.csv_reader import TableRow, named

RESOURCES: Final = ("cpu", "gpu", "mem_gib", "disk_gib", "rdma")
#: The tables have six decimals: millionths are exact.
_EXACT: Final = 10**6
#: Tasks of one application; each is a workload.
_MOST_TASKS: Final = 1_000_000
#: Name of the file with the expected answer, by the part that the cluster has.
_EXPECTED: Final = "drf_equal_{}.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A tenant with equal tasks."""

    name: str
    tasks: int
    takes: Resources
    #: Tasks that the recorded answer gives it.
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrfProblem:
    """Applications and the size of the cluster."""

    applications: tuple[Application, ...]
    #: Capacity of the cluster as a part of all requests.
    part: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Tasks that each application got."""

    applications: tuple[Application, ...]
    #: Tasks by application.
    given: dict[str, int]
    seconds: float

    def error(self) -> int:
        """The largest difference from the expected answer, in tasks."""
        return max((abs(self.given.get(app.name, 0) - app.expected) for app in self.applications), default=0)


def load(folder: Path) -> DrfProblem:
    """The problem in a folder. Raises InvalidDocument."""
    answer, part = _expected(folder)
    expected = {row["tenant"]: row.whole("tasks_discrete", _MOST_TASKS) for row in named(answer, "tenant")}
    tenants = folder / "drf_tenants.csv"
    applications = tuple(_application(row, expected) for row in named(tenants, "tenant"))
    unknown = sorted(expected.keys() - {app.name for app in applications})
    if unknown:
        raise InvalidDocument(where=str(answer), found=unknown[0], expected=f"only tenants of {tenants.name}")
    asked = total(app.takes * app.tasks for app in applications)
    most = max(asked.values(), default=0)
    if not 0 < most <= MOST:
        found = "an amount that is too large to count" if most else "no tenant that requests anything"
        raise InvalidDocument(where=str(tenants), found=found, expected="tasks that request something")
    return DrfProblem(applications=applications, part=part)


def _expected(folder: Path) -> tuple[Path, Decimal]:
    usual = folder / _EXPECTED.format("0.6")
    files = [usual] if usual.exists() else sorted(folder.glob(_EXPECTED.format("*")))
    parts = [_part(file) for file in files]
    if len(files) != 1 or parts[0] is None:
        raise InvalidDocument(
            where=str(folder),
            found=", ".join(file.name for file in files) or f"no {_EXPECTED.format('*')}",
            expected=f"one file such as {_EXPECTED.format('0.6')}: the expected answer for six tenths",
        )
    return files[0], parts[0]


def _part(file: Path) -> Decimal | None:
    head, _, tail = _EXPECTED.partition("{}")
    text = file.name.removeprefix(head).removesuffix(tail)
    return Decimal(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _application(row: TableRow, expected: dict[str, int]) -> Application:
    takes = Resources({name: int(row.number(name) * _EXACT) for name in RESOURCES})
    name = row["tenant"]
    if name == ROOT:
        raise InvalidDocument(
            where=row.where, found=repr(name), expected="another name: root is the queue above all tenants"
        )
    return Application(
        name=name, tasks=row.whole("tasks", _MOST_TASKS), takes=takes, expected=expected.get(name, 0)
    )


def share_out(problem: DrfProblem) -> Division:
    """One turn in which all tasks wait for an empty cluster."""
    applications = problem.applications
    asked = total(app.takes * app.tasks for app in applications)
    capacity = Resources({name: int(units * problem.part) for name, units in asked.items()})
    node = Node(name=NodeName("cluster"), allocatable=capacity)
    waiting = _waiting(applications)
    snapshot = Snapshot(
        now=0,
        queues={QueueName(app.name): Queue(name=QueueName(app.name)) for app in applications},
        nodes=NodeTable.build([node]),
        pending={workload.key: workload for workload in waiting},
        admissions={},
    )
    began = perf_counter()
    plan, _ = decide(snapshot, Memo(), NO_LIMIT)
    given = Counter(str(admit.queue) for admit in plan.admits)
    return Division(applications=applications, given=given, seconds=perf_counter() - began)


def _waiting(applications: tuple[Application, ...]) -> list[Workload]:
    waiting: list[Workload] = []
    for app in applications:
        pods = PodSet(name="task", count=1, takes=app.takes)
        for number in range(app.tasks):
            name = f"{app.name}-{number}"
            waiting.append(
                Workload(
                    key=WorkloadKey(WorkloadKind.POD, name),
                    namespace=app.name,
                    name=name,
                    queue=QueueName(app.name),
                    arrival=len(waiting) + 1,
                    minimum=1,
                    pod_sets=(pods,),
                )
            )
    return waiting
