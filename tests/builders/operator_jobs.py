"""Objects of operators' kinds, and the facts that follow from them."""

from typing import Any

import msgspec

from admission.facts.workloads import Child, WorkloadFact
from admission.workloads.kinds import OPERATOR_KINDS, known_kinds, support_of
from admission.workloads.kinds.members import member_text
from queues import kind_names
from queues.kind_names import KindName
from queues.workload import WorkloadKey

Document = dict[str, Any]


def template() -> Document:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}


def replicated(name: str, jobs: int = 1, **job: Any) -> Document:
    return {"name": name, "replicas": jobs, "template": {"spec": {"template": template(), **job}}}


def roles(**counts: int) -> Document:
    return {role: {"replicas": count, "template": template()} for role, count in counts.items()}


RAY = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [
        {"groupName": "small", "replicas": 3, "template": template()},
        {"groupName": "tpu", "replicas": 2, "numOfHosts": 4, "template": template()},
    ],
}


SPARK = {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}
#: A spec of each kind with its pods by pod set, and the place of its first template.
SPECS: dict[KindName, tuple[Document, dict[str, int], str]] = {
    KindName("jobset"): (
        {"replicatedJobs": [replicated("driver"), replicated("workers", 2, parallelism=4, completions=3)]},
        {"driver": 1, "workers": 6},
        "/spec/replicatedJobs/0/template/spec/template",
    ),
    KindName("mpijob"): (
        {"mpiReplicaSpecs": roles(Launcher=1, Worker=4)},
        {"launcher": 1, "worker": 4},
        "/spec/mpiReplicaSpecs/Launcher/template",
    ),
    KindName("pytorchjob"): (
        {"pytorchReplicaSpecs": roles(Master=1, Worker=3)},
        {"master": 1, "worker": 3},
        "/spec/pytorchReplicaSpecs/Master/template",
    ),
    KindName("tfjob"): (
        {"tfReplicaSpecs": {**roles(PS=2), "Chief": {"template": template()}}},
        {"ps": 2, "chief": 1},
        "/spec/tfReplicaSpecs/PS/template",
    ),
    KindName("xgboostjob"): (
        {"xgbReplicaSpecs": roles(Master=1, Worker=2)},
        {"master": 1, "worker": 2},
        "/spec/xgbReplicaSpecs/Master/template",
    ),
    KindName("paddlejob"): (
        {"paddleReplicaSpecs": roles(Worker=2)},
        {"worker": 2},
        "/spec/paddleReplicaSpecs/Worker/template",
    ),
    KindName("jaxjob"): (
        {"jaxReplicaSpecs": roles(Worker=4)},
        {"worker": 4},
        "/spec/jaxReplicaSpecs/Worker/template",
    ),
    KindName("raycluster"): (RAY, {"head": 1, "small": 3, "tpu": 8}, "/spec/headGroupSpec/template"),
    KindName("rayjob"): (
        {"rayClusterSpec": RAY, "submitterPodTemplate": template(), "shutdownAfterJobFinishes": True},
        {"head": 1, "small": 3, "tpu": 8, "submitter": 1},
        "/spec/rayClusterSpec/headGroupSpec/template",
    ),
    KindName("sparkapplication"): (
        {"driver": SPARK, "executor": {**SPARK, "instances": 3}, "type": "Scala"},
        {"driver": 1, "executor": 3},
        "/spec/driver",
    ),
}


def fact(
    kind: KindName,
    spec: Document | None = None,
    status: Any = None,
    *,
    suspended: bool | None = None,
    **metadata: Any,
) -> WorkloadFact:
    """An object in queue ``team``; ``spec`` None: the one of ``SPECS``."""
    [description] = [each for each in OPERATOR_KINDS if each.kind == kind]
    written = msgspec.json.decode(msgspec.json.encode(SPECS[kind][0] if spec is None else spec))
    if suspended is not None:
        holder = written
        for field in description.suspend[1:-1]:
            holder = holder.setdefault(field, {})
        holder[description.suspend[-1]] = suspended
    given = {
        "name": "train",
        "namespace": "ns",
        "uid": "u",
        "generation": 7,
        "labels": {"muster.dev/queue-name": "team"},
        **metadata,
    }
    reader = support_of(WorkloadKey(kind, "u")).reader
    assert reader is not None
    raw = msgspec.json.encode({"metadata": given, "spec": written, "status": status or {}})
    found = reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
    assert isinstance(found, WorkloadFact)
    return found


def child(
    parent: WorkloadFact,
    pod_set: str,
    name: str,
    *,
    status: Document | None = None,
    metadata: Document | None = None,
    **spec: Any,
) -> WorkloadFact | Child | None:
    """What Muster reads of a Job that an operator made for a pod set of a workload that Muster resumed."""
    reader = known_kinds().by_kind[kind_names.JOB].reader
    assert reader is not None
    marks = {"annotations": {"muster.dev/member-of": member_text(parent.key, parent.name, pod_set)}}
    owner = {"apiVersion": "x/v1", "kind": "Owner", "name": "o", "uid": "o", "controller": True}
    given = {"name": name, "namespace": parent.namespace, "uid": name, "ownerReferences": [owner]}
    document = {
        "metadata": {**given, **(metadata or {})},
        "spec": {"template": {"metadata": marks, **template()}, **spec},
        "status": status or {},
    }
    raw = msgspec.json.encode(document)
    return reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))


def child_cluster(parent: WorkloadFact, spec: Document, **metadata: Any) -> WorkloadFact | Child | None:
    """What Muster reads of a RayCluster that KubeRay made for a RayJob."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": parent.name, "uid": parent.key.uid}
    given = {"name": "x", "namespace": parent.namespace, "uid": "x", **metadata}
    given["ownerReferences"] = [{**owner, "controller": True}]
    reader = support_of(WorkloadKey(KindName("raycluster"), "x")).reader
    assert reader is not None
    raw = msgspec.json.encode({"metadata": given, "spec": spec})
    return reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
