"""A world of two tenants: one whose work can run, and one whose objects are hostile."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from admission.kube.client.client import Client
from admission.kube.watch.informers import Informers
from queues.api import names
from tests.builders.hostile_objects import Document, Hostile, json_of

#: What only the other tenant asks for.
THEIR_GPU = "other.example/gpu"


def _theirs(name: str) -> Document:
    return {
        "name": name,
        "namespace": "theirs",
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }


def _template(gpus: int) -> Document:
    amounts = {THEIR_GPU: str(gpus)}
    return {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}


def _node(name: str) -> Hostile:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "1000", THEIR_GPU: "8"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"kubernetes.io/hostname": name, "rack": "r1"}
    return Hostile(
        "nodes", {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {}, "status": status}
    )


def _queue(name: str) -> Hostile:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    return Hostile("queues", {**head, "metadata": metadata, "spec": {"weight": 1}})


def _member(name: str) -> Hostile:
    metadata = {**_theirs(name), "annotations": {names.GROUP_ANNOTATION: "gang"}}
    spec = {**_template(1), "schedulingGates": [{"name": names.GATE}]}
    return Hostile("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


#: Nodes, queues, and the work of the tenant that does no harm: a Job, a Volcano Job and a PodGroup, which all fit.
OTHERS: Sequence[Hostile] = (
    _node("o0"),
    _node("o1"),
    _queue("root"),
    _queue("theirs"),
    _queue("hostile"),
    Hostile(
        "jobs",
        {
            "metadata": {**_theirs("job"), "labels": {names.QUEUE_LABEL: "theirs"}},
            "spec": {"suspend": True, "parallelism": 2, "completions": 2, "template": {"spec": _template(2)}},
        },
    ),
    Hostile(
        "volcano-jobs",
        {
            "metadata": _theirs("vcjob"),
            "spec": {
                "queue": "theirs",
                "minAvailable": 2,
                "tasks": [{"name": "w", "replicas": 2, "template": {"spec": _template(3)}}],
            },
        },
    ),
    Hostile("podgroups", {"metadata": _theirs("gang"), "spec": {"minMember": 2, "queue": "theirs"}}),
    _member("gang-0"),
    _member("gang-1"),
)
#: Pods of the other tenant that get in.
THEIR_PODS = 6


def told(objects: Iterable[Hostile]) -> Informers:
    """Informers that have been told these objects by a watch, one by one."""
    informers = Informers(cast(Client, None))
    for each in objects:
        tell(informers, each)
    return informers


def tell(informers: Informers, each: Hostile) -> None:
    """A watch shows one object."""
    informer = informers.by_name[each.informer]
    line = json_of({"type": "MODIFIED", "object": each.document})
    changes: list[Any] = []
    informer._follow(line, changes)
    informer._hand_over(changes)
