"""What users create in a sandbox: Jobs of both kinds, PodGroups, pods."""

from typing import Any

from tests.e2e.support.api_paths import Document
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox


def container(gpus: int | str = 1, **resources: str) -> Document:
    """One container that asks for GPUs; ``cpu="2"`` and the like for more."""
    limits = {**({GPU: str(gpus)} if gpus else {}), **resources}
    return {"name": "main", "image": "train", "resources": {"limits": limits}}


def pod_spec(sandbox: str, gpus: int | str = 1, **resources: str) -> Document:
    """What pods of a sandbox look like."""
    return {
        "nodeSelector": {SANDBOX: sandbox},
        "containers": [container(gpus, **resources)],
        "restartPolicy": "Never",
    }


def template(
    sandbox: str, gpus: int | str = 1, annotations: Document | None = None, **resources: str
) -> Document:
    """A pod template of a sandbox."""
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": pod_spec(sandbox, gpus, **resources),
    }


def volcano_job(
    sandbox: Sandbox,
    name: str,
    replicas: int,
    gpus: int | str = 1,
    *,
    annotations: Document | None = None,
    **spec: Any,
) -> Document:
    """A Volcano Job with one task, ``worker``; other fields of its spec as given."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": replicas,
            "queue": sandbox.queues[0],
            "tasks": [
                {
                    "name": "worker",
                    "replicas": replicas,
                    "template": template(sandbox.name, gpus, annotations),
                }
            ],
            **spec,
        },
    }


def batch_job(
    sandbox: Sandbox,
    name: str,
    pods: int,
    gpus: int | str = 1,
    *,
    annotations: Document | None = None,
    **spec: Any,
) -> Document:
    """A batch/v1 Job in the sandbox's first queue."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"muster.dev/queue-name": sandbox.queues[0]}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 6,
            "template": template(sandbox.name, gpus, annotations),
            **spec,
        },
    }


def pod(
    sandbox: Sandbox,
    name: str,
    gpus: int | str = 1,
    *,
    annotations: Document | None = None,
    labels: Document | None = None,
    **spec: Any,
) -> Document:
    """A pod of its own, or with ``group`` among its annotations a member of a PodGroup."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {**pod_spec(sandbox.name, gpus), **spec},
    }


def bare_pod(sandbox: Sandbox, name: str, gpus: int | str = 1, **more: Any) -> Document:
    """A pod that enters the sandbox's first queue by its label."""
    return pod(sandbox, name, gpus, labels={"muster.dev/queue-name": sandbox.queues[0]}, **more)


def grouped(sandbox: Sandbox, group: str, name: str, gpus: int | str = 1, **more: Any) -> Document:
    """A pod of a PodGroup."""
    return pod(sandbox, name, gpus, annotations={"scheduling.k8s.io/group-name": group}, **more)


def pod_group(sandbox: Sandbox, name: str, minimum: int, **spec: Any) -> Document:
    """A PodGroup in the sandbox's first queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, "queue": sandbox.queues[0], **spec},
    }


def template_of(document: Document) -> Document:
    """The pod template of a Job of either kind, or a pod as it is."""
    spec: Document = document["spec"]
    found: Document = spec["tasks"][0]["template"] if "tasks" in spec else spec.get("template", document)
    return found
