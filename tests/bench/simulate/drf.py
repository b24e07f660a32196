"""Dominant resource fairness on recorded applications: tasks of each tenant in a cluster that is too small.

A folder has ``drf_tenants.csv`` (tenant, tasks, and what one task takes of each resource) and
``drf_equal_0.6.csv`` (tenant, tasks_discrete: the expected answer). The cluster has six tenths of all requests, the
same for each resource; every tenant is a queue of weight 1, every task a workload that waits in it. One turn of
``decide()`` shares the cluster out.
"""

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
from queues import kind_names
from queues.quota.queue import Queue
from queues.resources import Resources, total
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey
from tests.bench.simulate.csv_reader import lines

RESOURCES: Final = ("cpu", "gpu", "mem_gib", "disk_gib", "rdma")
#: The tables have six decimals: millionths are exact.
_EXACT: Final = 10**6
#: The cluster has this part of all requests; the file with the expected answer.
_PART: Final = Decimal("0.6")
_EXPECTED: Final = f"drf_equal_{_PART}.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A tenant with equal tasks."""

    name: str
    tasks: int
    takes: Resources
    #: Tasks that the recorded answer gives it.
    expected: int


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


def load(folder: Path) -> tuple[Application, ...]:
    """The applications in a folder."""
    expected = {row["tenant"]: row.whole("tasks_discrete") for row in lines(folder / _EXPECTED)}
    return tuple(
        Application(
            name=row["tenant"],
            tasks=row.whole("tasks"),
            takes=Resources({name: int(Decimal(row[name]) * _EXACT) for name in RESOURCES}),
            expected=expected.get(row["tenant"], 0),
        )
        for row in lines(folder / "drf_tenants.csv")
    )


def share_out(applications: tuple[Application, ...]) -> Division:
    """One turn in which all tasks wait for an empty cluster."""
    asked = total(app.takes * app.tasks for app in applications)
    capacity = Resources({name: int(units * _PART) for name, units in asked.items()})
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
                    key=WorkloadKey(kind_names.POD, name),
                    namespace=app.name,
                    name=name,
                    queue=QueueName(app.name),
                    arrival=len(waiting) + 1,
                    minimum=1,
                    pod_sets=(pods,),
                )
            )
    return waiting
