"""One round: a fresh control plane with its nodes, Muster or nobody, one load, and what it took."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from deploy.local.cluster import LocalCluster
from deploy.local.components import COMPONENTS, ClusterOptions
from deploy.local.nodes import NodeShape
from deploy.local.stack import Replica, Stack
from tests.bench import processes
from tests.bench.documents import NAMESPACE, Form, documents
from tests.bench.load import Request
from tests.bench.readers import asking
from tests.waiting import until

#: Nothing is throttled on the client side (the defaults of ClusterOptions); nodes are silent, for their leases
#: alone are 100 writes per second.
_OPTIONS: dict[str, Any] = {"node_lease_seconds": 0, "node_grace_seconds": 86_400}


class LoadFailed(Exception):
    """The load generator gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of a benchmark."""

    nodes: int = 1000
    gangs: int = 500
    #: Pods per gang, each with one GPU; nodes have eight.
    size: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a round was like."""

    form: str
    pods: int
    seconds: float
    submitting_seconds: float
    latencies: list[float]
    load_cpu_seconds: float
    #: CPU seconds by component, Muster and Postgres included, until the last pod was bound …
    cpu_until_bound: dict[str, float]
    #: … and until everything was idle again: statuses told, pods running.
    cpu_seconds: dict[str, float]
    #: Of the leader's process; 0 without it.
    memory_mb: float
    #: Of the read API, by status; "0": none came.
    answers: dict[str, int] = field(default_factory=dict)

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A control plane with its nodes, before a load."""

    cluster: LocalCluster
    #: None: no admission.
    product: Stack | None
    muster: Replica | None
    nodes: list[str]
    #: Of each component, Muster and Postgres included.
    pids: dict[str, int]


@contextmanager
def scene(nodes: int, *, admitted: bool = True, audit: str = "") -> Iterator[Scene]:
    """A fresh control plane with nodes of 8 GPUs and the namespace of the load, with Muster if ``admitted``."""
    options = ClusterOptions(audit=audit, **_OPTIONS)
    with ExitStack() as stack:
        muster: Replica | None = None
        pids: dict[str, int] = {}
        if admitted:
            product = stack.enter_context(Stack(options=options, log_level="info"))
            cluster = product.cluster
        else:
            product, cluster = None, stack.enter_context(LocalCluster(options=options))
        names = cluster.add_nodes(nodes, NodeShape(gpus=8))
        with cluster.client() as api:
            api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        if product is not None:
            product.install()
            _wait_until_owners_are_watched(cluster)
            muster = product.start_muster(kubeconfig=product.pod_kubeconfig())
            assert product.postgres.pid is not None
            pids = {"muster": muster.process.pid, "postgres": product.postgres.pid}
        pids |= {name: cluster.running[name].pid for name in COMPONENTS}
        processes.wait_until_idle(pids.values())
        yield Scene(cluster=cluster, product=product, muster=muster, nodes=names, pids=pids)


def _wait_until_owners_are_watched(cluster: LocalCluster) -> None:
    """Wait until the garbage collector watches Volcano Jobs, as on any cluster that is a minute old.

    It looks for new kinds every 30 seconds, and before that asks the API server for the owner of each pod, again and
    again. Only when it watches an object, it ends a deletion in the foreground.
    """
    job = documents(Form.VOLCANO_JOB, 0, 1, ())[0]
    path = f"{Form.VOLCANO_JOB.collection}/{job['metadata']['name']}"
    with cluster.client() as api:
        api.create(Form.VOLCANO_JOB.collection, job)
        foreground = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        api.request("DELETE", path, foreground)
        until(
            lambda: not api.get(Form.VOLCANO_JOB.collection)["items"],
            "the garbage collector to watch Volcano Jobs",
        )


def play(form: Form, shape: Shape, *, one_at_a_time: bool = False, readers: int = 0) -> Figures:
    """Play one round on a control plane of its own. ``readers``: clients that ask the read API meanwhile."""
    with scene(shape.nodes, admitted=form.admitted) as on:
        request = Request(
            kubeconfig=str(on.cluster.kubeconfig),
            form=form.value,
            gangs=shape.gangs,
            size=shape.size,
            nodes=on.nodes,
            one_at_a_time=one_at_a_time,
        )
        answers = Counter[str]()
        with ExitStack() as beside:
            if on.product is not None and on.muster is not None and readers:
                answers = beside.enter_context(asking(on.product, on.muster, readers))
            before = cpu_seconds(on.pids)
            seen = run_load("tests.bench.load", asdict(request))
            until_bound = cpu_seconds(on.pids)
        processes.wait_until_idle(on.pids.values())
        until_idle = cpu_seconds(on.pids)
        return Figures(
            form=form.value,
            pods=shape.gangs * shape.size,
            seconds=seen["seconds"],
            submitting_seconds=seen["submitting_seconds"],
            latencies=seen["latencies"],
            load_cpu_seconds=seen["cpu_seconds"],
            cpu_until_bound={name: until_bound[name] - before[name] for name in on.pids},
            cpu_seconds={name: until_idle[name] - before[name] for name in on.pids},
            memory_mb=processes.peak_memory_mb(on.muster.process.pid) if on.muster is not None else 0.0,
            answers=dict(answers),
        )


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds of each component so far."""
    return {name: processes.cpu_seconds([pid]) for name, pid in pids.items()}


def run_load(module: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a load generator as a process of its own, and return what it saw. Raises LoadFailed."""
    done = subprocess.run(
        [sys.executable, "-m", module], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LoadFailed(done.stderr[-2000:])
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
