"""The cluster of one seed and the workloads in it, drawn: nodes, queues, and one document for each object.

Most workloads end by themselves after a moment, so that all that fit have been admitted at the end; some run until they
are evicted or deleted, and now and then one fits nowhere.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from queues.api import names
from tests.chaos.cluster.components import FAILING, RUN_SECONDS
from tests.chaos.history import Document
from tests.fakes.fake_objects import GPU

NAMESPACES: Final = ("team-a", "team-b")
PRIORITIES: Final = {"low": 0, "high": 1000}
RACK: Final = "topology.muster.dev/rack"
HOST: Final = "kubernetes.io/hostname"

__all__ = ["GPU", "NAMESPACES", "RUN_SECONDS", "Cluster", "Task", "Workload", "workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What there is before the replicas start."""

    nodes: tuple[str, ...]
    #: GPUs of each node.
    gpus: int
    queues: tuple[str, ...]
    #: What each queue may have, and what belongs to it; None: nothing is said.
    capability: tuple[int | None, ...]
    deserved: tuple[int | None, ...]

    @classmethod
    def drawn(cls, draw: random.Random) -> "Cluster":
        count = draw.randint(3, 5)
        gpus = draw.choice((4, 8))
        total = count * gpus
        return cls(
            nodes=tuple(f"node-{number}" for number in range(count)),
            gpus=gpus,
            queues=("team-a", "team-b", "shared"),
            capability=(draw.choice((None, total // 2)), None, draw.choice((None, total // 3))),
            deserved=(total // 3, draw.choice((None, total // 3)), None),
        )

    def documents(self) -> Iterator[Document]:
        """All of it."""
        for name in (*NAMESPACES, "default", "muster-system"):
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name, value in PRIORITIES.items():
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        yield {
            "apiVersion": names.MUSTER,
            "kind": "Topology",
            "metadata": {"name": "racks"},
            "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]},
        }
        for number, name in enumerate(self.nodes):
            yield self._node(name, f"rack-{number // 2}")
        yield _queue("root", {})
        for name, capability, deserved in zip(self.queues, self.capability, self.deserved, strict=True):
            spec: Document = {"parent": "root"}
            if capability is not None:
                spec["capability"] = {GPU: str(capability)}
            if deserved is not None:
                spec["deserved"] = {GPU: str(min(deserved, capability or deserved))}
            yield _queue(name, spec)

    def _node(self, name: str, rack: str) -> Document:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOST: name, RACK: rack}},
            "spec": {},
            "status": {
                "allocatable": {GPU: str(self.gpus), "cpu": "64", "memory": "256Gi", "pods": "50"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The objects of one workload, in the order in which they are made."""

    kind: str
    name: str
    documents: tuple[Document, ...]


def workload(draw: random.Random, number: int, cluster: Cluster) -> Workload:
    """One of any kind."""
    make = draw.choices((_batch_job, _volcano_job, _group, _pod), (4, 4, 2, 2))[0]
    return make(draw, number, cluster)


def _queue(name: str, spec: Document) -> Document:
    return {
        "apiVersion": names.SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def _size(draw: random.Random, cluster: Cluster) -> tuple[int, int]:
    """Pods, and GPUs of each."""
    if draw.random() < 0.06:
        return 2, cluster.gpus + 1  # fits nowhere
    return draw.randint(1, 4), draw.choice((1, 2, cluster.gpus // 2, cluster.gpus))


def _pod_annotations(draw: random.Random, *, may_fail: bool = False) -> Document:
    annotations = {}
    if draw.random() < 0.9:
        annotations[RUN_SECONDS] = f"{draw.uniform(0.1, 0.7):.2f}"
    if may_fail and draw.random() < 0.25:
        annotations[FAILING] = "0.3"
    if draw.random() < 0.15:
        annotations[names.REQUIRED_TOPOLOGY] = RACK
    return annotations


def _spec(gpus: int, priority: str) -> Document:
    resources = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus), "cpu": "1"}}
    return {
        "containers": [{"name": "main", "image": "train", "resources": resources}],
        "restartPolicy": "Never",
        "priorityClassName": priority,
    }


def _place(draw: random.Random, cluster: Cluster) -> tuple[str, str, str]:
    """Namespace, queue and priority class."""
    return draw.choice(NAMESPACES), draw.choice(cluster.queues), draw.choice(("low", "low", "high"))


def _batch_job(draw: random.Random, number: int, cluster: Cluster) -> Workload:
    name, (namespace, queue, priority) = f"job-{number}", _place(draw, cluster)
    pods, gpus = _size(draw, cluster)
    completions, mode = pods + draw.choice((0, 0, 2)), draw.choice(("Indexed", "NonIndexed"))
    task = Task(name="", replicas=pods, gpus=gpus, annotations=_pod_annotations(draw, may_fail=True))
    return job(f"{namespace}/{name}", queue, priority, task, completions=completions, completionMode=mode)


def _volcano_job(draw: random.Random, number: int, cluster: Cluster) -> Workload:
    name, (namespace, queue, priority) = f"vcjob-{number}", _place(draw, cluster)
    pods, gpus = _size(draw, cluster)
    tasks = [Task(name="worker", replicas=pods, gpus=gpus, annotations=_pod_annotations(draw))]
    if draw.random() < 0.4:
        tasks.append(Task(name="master", replicas=1, gpus=1, annotations=_pod_annotations(draw)))
    replicas = sum(task.replicas for task in tasks)
    minimum = draw.choice((replicas, replicas, max(1, replicas - 1)))
    more: Document = {}
    if draw.random() < 0.5:
        more["policies"] = [
            {"event": "PodFailed", "action": "RestartJob"},
            {"event": "PodEvicted", "action": "RestartJob"},
        ]
    if draw.random() < 0.3:
        more["plugins"] = {"svc": []}
    return volcano_job(f"{namespace}/{name}", queue, priority, tasks, minimum=minimum, **more)


def _group(draw: random.Random, number: int, cluster: Cluster) -> Workload:
    name, (namespace, queue, priority) = f"group-{number}", _place(draw, cluster)
    pods, gpus = _size(draw, cluster)
    minimum = draw.choice((pods, pods, max(1, pods - 1)))
    task = Task(name="", replicas=pods, gpus=gpus, annotations=_pod_annotations(draw))
    return group(f"{namespace}/{name}", queue, priority, task, minimum=minimum)


def foreign_pod(draw: random.Random, number: int, cluster: Cluster) -> Document:
    """A pod of other people's, which names no queue: it takes room on a node for a while."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"foreign-{number}",
            "namespace": "default",
            "annotations": {RUN_SECONDS: f"{draw.uniform(0.5, 2.0):.2f}"},
        },
        "spec": _spec(draw.choice((1, cluster.gpus // 2, cluster.gpus)), "low"),
    }


def _pod(draw: random.Random, number: int, cluster: Cluster) -> Workload:
    name, (namespace, queue, priority) = f"pod-{number}", _place(draw, cluster)
    annotations = _pod_annotations(draw)
    gpus = draw.choice((1, 2, cluster.gpus))
    task = Task(name="", replicas=1, gpus=gpus, annotations=annotations)
    return pod(f"{namespace}/{name}", queue, priority, task)


# ── workloads as they are asked for ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pods that are the same."""

    name: str
    replicas: int
    #: Of each.
    gpus: int
    annotations: Document


def job(path: str, queue: str, priority: str, pods: Task, **more: Any) -> Workload:
    """A batch Job, Indexed and with as many completions as pods unless ``more``, fields of its spec, says otherwise."""
    namespace, _, name = path.partition("/")
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.QUEUE_LABEL: queue}},
        "spec": {
            "parallelism": pods.replicas,
            "completions": pods.replicas,
            "completionMode": "Indexed",
            "backoffLimit": 10,
            # As the admission policies have it.
            "podReplacementPolicy": "Failed",
            **more,
            "template": {
                "metadata": {"annotations": dict(pods.annotations)},
                "spec": _spec(pods.gpus, priority),
            },
        },
    }
    return Workload(kind="Job", name=path, documents=(document,))


def volcano_job(
    path: str, queue: str, priority: str, tasks: Sequence[Task], *, minimum: int, **more: Any
) -> Workload:
    """A Volcano Job. ``path``: namespace and name; ``more``: other fields of its spec."""
    namespace, _, name = path.partition("/")
    document = {
        "apiVersion": names.BATCH_VOLCANO,
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "minAvailable": minimum,
            "queue": queue,
            "maxRetry": 10,
            "priorityClassName": priority,
            **more,
            "tasks": [
                {
                    "name": task.name,
                    "replicas": task.replicas,
                    "template": {
                        "metadata": {"annotations": dict(task.annotations)},
                        "spec": _spec(task.gpus, priority),
                    },
                }
                for task in tasks
            ],
        },
    }
    return Workload(kind="VolcanoJob", name=path, documents=(document,))


#: Annotations that a group has from its members.
_OF_GROUPS: Final = (names.PREEMPTABLE,)


def group(path: str, queue: str, priority: str, members: Task, *, minimum: int) -> Workload:
    """A PodGroup with its pods. ``path``: namespace and name."""
    namespace, _, name = path.partition("/")
    document = {
        "apiVersion": names.SCHEDULING_VOLCANO,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {
                key: members.annotations[key] for key in _OF_GROUPS if key in members.annotations
            },
        },
        "spec": {"minMember": minimum, "queue": queue},
    }
    annotations = {**members.annotations, names.GROUP_ANNOTATION: name}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{index}", "namespace": namespace, "annotations": dict(annotations)},
            "spec": _spec(members.gpus, priority),
        }
        for index in range(members.replicas)
    ]
    return Workload(kind="PodGroup", name=path, documents=(document, *pods))


def pod(path: str, queue: str, priority: str, task: Task) -> Workload:
    """A pod without a group. ``path``: namespace and name."""
    namespace, _, name = path.partition("/")
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.QUEUE_LABEL: queue},
            "annotations": dict(task.annotations),
        },
        "spec": _spec(task.gpus, priority),
    }
    return Workload(kind="Pod", name=path, documents=(document,))
