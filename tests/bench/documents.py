"""What is submitted: gangs of equal one-GPU pods, as each kind of object."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

NAMESPACE = "bench"
GPU = "nvidia.com/gpu"
#: Part of a pod's name that says whose it is: what comes before its first "-".
GANG = "g{:05d}"

Document = dict[str, Any]


class Form(Enum):
    """How a gang is submitted."""

    PODS = "pods"
    #: Each already tied to its node, as Muster does it.
    PINNED_PODS = "pinned pods"
    VOLCANO_JOB = "Volcano Job"
    #: An Indexed batch/v1 Job that names no queue.
    JOB = "Job"
    QUEUED_JOB = "queued Job"

    @property
    def admitted(self) -> bool:
        """Whether Muster has a say in it."""
        return self in (Form.VOLCANO_JOB, Form.QUEUED_JOB)

    @property
    def collection(self) -> str:
        """Path that it is posted to."""
        match self:
            case Form.VOLCANO_JOB:
                return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
            case Form.JOB | Form.QUEUED_JOB:
                return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
            case _:
                return f"/api/v1/namespaces/{NAMESPACE}/pods"


def gang_of(pod: str) -> int:
    """The number of the gang that a pod belongs to, by its name."""
    return int(pod[1 : pod.index("-")])


def documents(
    form: Form, gang: int, size: int, nodes: Sequence[str], metadata: Document | None = None
) -> list[Document]:
    """All objects of one gang, to be posted to ``form.collection``. ``metadata``: of a Job's pods."""
    name = GANG.format(gang)
    template = {"metadata": metadata or {}, "spec": _template()}
    match form:
        case Form.PODS:
            return [_pod(f"{name}-worker-{index}", _template()) for index in range(size)]
        case Form.PINNED_PODS:
            return [
                _pod(f"{name}-worker-{index}", _pinned(nodes[gang % len(nodes)])) for index in range(size)
            ]
        case Form.VOLCANO_JOB:
            return [volcano_job(name, size, template)]
        case Form.JOB:
            return [_job(name, size, {}, template)]
        case Form.QUEUED_JOB:
            return [_job(name, size, {"muster.dev/queue-name": "default"}, template)]


def running(seconds: float) -> Document:
    """Metadata of pods that KWOK ends so long after their start."""
    return {"annotations": {"kwok.muster.dev/complete-after": f"{round(seconds * 1000)}ms"}}


def pod_spec(limits: Mapping[str, str]) -> Document:
    """A pod of one container."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": dict(limits)}}
    return {"restartPolicy": "Never", "containers": [container]}


def _template() -> Document:
    return pod_spec({GPU: "1"})


def _pinned(node: str) -> Document:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**_template(), "affinity": {"nodeAffinity": required}}


def _pod(name: str, spec: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def volcano_job(name: str, size: int, template: Document) -> Document:
    """A gang of one task. ``template``: of its pods."""
    task = {"name": "worker", "replicas": size, "template": template}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": size, "queue": "default", "schedulerName": "volcano", "tasks": [task]},
    }


def _job(name: str, size: int, labels: dict[str, str], template: Document) -> Document:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            "template": template,
        },
    }
