"""Jobs and PodGroups as translation sees them, in a line each."""

from typing import Any

import msgspec

from admission.decode.topology_requests import Tiers
from admission.facts.workloads import WorkloadFact
from admission.workloads.context import Context, in_context
from admission.workloads.kinds.batch_job import WireJob, job_fact
from admission.workloads.kinds.pod_group import WirePodGroup, pod_group_fact
from admission.workloads.kinds.volcano_job import WireVolcanoJob, volcano_job_fact
from queues.resources import Resources

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 2}}}
TEMPLATE = {"metadata": {}, "spec": {"containers": [CONTAINER]}}
TAKES = Resources({"cpu": 1000, "nvidia.com/gpu": 2000, "pods": 1})


def a_job(
    meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any
) -> WorkloadFact:
    document = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7", **(meta or {})},
        "spec": {"parallelism": 4, "template": TEMPLATE, **spec},
        "status": status or {},
    }
    return job_fact(msgspec.json.decode(msgspec.json.encode(document), type=WireJob))


def a_volcano_job(
    *tasks: dict[str, Any],
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> WorkloadFact:
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "ns", "uid": "u", "generation": 1, **(meta or {})},
        "spec": {"tasks": list(tasks), **spec},
        "status": status or {},
    }
    raw = msgspec.json.encode(document)
    return volcano_job_fact(msgspec.json.decode(raw, type=WireVolcanoJob), raw)


def task(name: str = "w", replicas: int = 4, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": TEMPLATE, **fields}


def a_group(meta: dict[str, Any] | None = None, **spec: Any) -> WorkloadFact:
    document = {"metadata": {"name": "g", "namespace": "ns", "uid": "u", **(meta or {})}, "spec": spec}
    return pod_group_fact(msgspec.json.decode(msgspec.json.encode(document), type=WirePodGroup))


LEVELS = Context(tiers=Tiers(("block", "rack", "kubernetes.io/hostname")))


def told(fact: WorkloadFact, context: Context = LEVELS) -> WorkloadFact:
    found = in_context(fact, context)
    assert isinstance(found, WorkloadFact)
    return found
