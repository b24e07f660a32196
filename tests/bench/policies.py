"""What the admission policies cost the API server for each pod, by the difference of its processor time.

Two control planes of nothing but etcd and an API server, one with the policies of an installation, are asked to create
the same pods, by a dry run: all of the request is worked out, and nothing is left behind.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from admission.kube.install.install import Installation, policies
from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.components import COMPONENTS
from queues.api.api_resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Document, path_of
from queues.api.names import (
    ADMISSION_ID,
    BATCH_VOLCANO,
    FINALIZER,
    JOB_NAME,
    QUEUE_LABEL,
    RELEASED,
    SEAT,
    USER,
)
from tests.bench import processes
from tests.bench.documents import NAMESPACE, pod_spec
from tests.bench.mark import Mark
from tests.waiting import until

#: Milliseconds of the API server for a pod, in each pair.
Costs = Mapping[str, list[float]]

#: What it may cost, and what is aimed at.
_BOUNDS: Final = {"a pod that Muster makes": (0.3, 0.15), "a pod outside all queues": (0.1, 0.05)}
_INSTALLATION: Final = Installation()
_PODS: Final = PODS.path(NAMESPACE) + "?dryRun=All"
_AT_A_TIME: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiServer:
    process: int
    #: Of those who make pods, by the kind of pod.
    clients: Mapping[str, LocalClient]

    def milliseconds(self, kind: str) -> float:
        """For some pods."""
        before = processes.cpu_seconds([self.process])
        for _ in range(_AT_A_TIME):
            self.clients[kind].create(_PODS, _MADE[kind][1])
        return (processes.cpu_seconds([self.process]) - before) * 1000


def play(pods: int, pairs: int) -> Costs:
    """Milliseconds that the policies add, by the kind of pod. ``pods``: of each kind, in each half of a pair."""
    added: dict[str, list[float]] = {kind: [] for kind in _BOUNDS}
    with _api_server([]) as plain, _api_server(policies(_INSTALLATION)) as guarded:
        for _ in range(pairs):
            for kind, costs in added.items():
                # In turn: the machine may have other work to do.
                turns = [
                    guarded.milliseconds(kind) - plain.milliseconds(kind) for _ in range(pods // _AT_A_TIME)
                ]
                costs.append(sum(turns) / pods)
    return added


def marks(added: Costs) -> list[Mark]:
    """The medians of the pairs, with what they may be."""
    return [
        Mark(
            name=f"policies: the API server's work for {kind}, more",
            reached=median(added[kind]),
            unit="ms",
            must=must,
            aim=aim,
            upwards=False,
        )
        for kind, (must, aim) in _BOUNDS.items()
    ]


def table(added: Costs) -> str:
    """What each pair has cost."""
    return "\n".join(
        f"{kind:<26}" + " ".join(f"{each:6.3f}" for each in costs) for kind, costs in added.items()
    )


def _pod(owner: str, **metadata: Any) -> Document:
    version, kind = owner.split(" ")
    owners = [{"apiVersion": version, "kind": kind, "uid": "1", "name": "a", "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a-worker-0", "ownerReferences": owners, **metadata},
        "spec": pod_spec({"nvidia.com/gpu": "1"}),
    }


#: By the kind of pod: who makes it, and one of them.
_MADE: Final = {
    "a pod that Muster makes": (
        _INSTALLATION.identity,
        _pod(
            f"{BATCH_VOLCANO} Job",
            labels={QUEUE_LABEL: "default", RELEASED: "true", JOB_NAME: "a"},
            annotations={ADMISSION_ID: "1", SEAT: "worker/0", USER: "alice"},
            finalizers=[FINALIZER],
        ),
    ),
    "a pod outside all queues": (
        "system:serviceaccount:kube-system:replicaset-controller",
        _pod("apps/v1 ReplicaSet"),
    ),
}


@contextmanager
def _api_server(in_force: list[Document]) -> Iterator[_ApiServer]:
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster())
        for name in COMPONENTS[2:]:
            cluster.running.pop(name).stop()
        with cluster.client() as admin:
            admin.create(NAMESPACES.path(), NAMESPACES.document(NAMESPACE))
            admin.create(SERVICE_ACCOUNTS.path(NAMESPACE), {"metadata": {"name": "default"}})
            for document in in_force:
                admin.create(path_of(document).rpartition("/")[0], document)
            if in_force:
                queued = {"metadata": {"name": "a", "labels": {QUEUE_LABEL: "a"}}, "spec": pod_spec({})}
                until(lambda: RELEASED in json.dumps(admin.create(_PODS, queued)), "policies to be in force")
        clients = {
            kind: stack.enter_context(LocalClient(cluster.kubeconfig_for(user, ("system:masters",))))
            for kind, (user, _) in _MADE.items()
        }
        process = cluster.running["kube-apiserver"].pid
        processes.wait_until_idle([process], share=0.1)
        yield _ApiServer(process=process, clients=clients)
