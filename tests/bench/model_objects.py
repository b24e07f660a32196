"""The cluster of the restart benchmark as documents: nodes, queues, Jobs that wait, run or have ended, and pods."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from queues.api.api_resources import CSI_NODES, JOBS, NODES, PODS, QUEUES, VOLUME_CLAIMS, VOLUMES

Document = dict[str, Any]

#: Queues that have used up their quota: what waits in them goes on waiting.
FULL_QUEUES: Final = 19
#: Paused at first: what waits in it needs one GPU each, and there is room for all of it.
PAUSED: Final = "burst"
NAMESPACES: Final = 50
PODS_OF_A_RUNNING_JOB: Final = 2
#: kube-controller-manager deletes ended pods beyond this number.
ENDED_PODS: Final = 12_500
_CREATED: Final = "2026-01-01T00:00:00Z"
_DRIVER: Final = "disk.example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSize:
    """How many objects there are."""

    nodes: int = 10_000
    pending: int = 100_000
    finished: int = 100_000
    running: int = 20_000
    #: Of the pending Jobs, those in the paused queue.
    burst: int = 35_000
    #: Finished Jobs that are deleted at one moment.
    departures: int = 20_000
    #: PersistentVolumeClaims, each with its volume. No Job of the other phases has any.
    claims: int = 50_000


def documents(size: ClusterSize) -> Iterator[tuple[str, Document]]:
    """All objects, each with the path of its collection."""
    for number in range(size.nodes):
        yield NODES.path(), _node(number)
        yield CSI_NODES.path(), _csi_node(number)
    for number in range(size.claims):
        yield VOLUME_CLAIMS.path(), _claim(number)
        yield VOLUMES.path(), _volume(number)
    yield QUEUES.path(), queue("root")
    for number in range(FULL_QUEUES):
        used = sum(_queue_of(job) == f"full-{number}" for job in range(size.running)) * PODS_OF_A_RUNNING_JOB
        yield QUEUES.path(), queue(f"full-{number}", parent="root", capability=used)
    yield QUEUES.path(), queue(PAUSED, parent="root", paused=True)
    for number in range(size.finished):
        yield JOBS.path(), _job(f"finished-{number:06d}", number, "ended")
    for number in range(min(ENDED_PODS, size.finished)):
        yield PODS.path(), _pod(f"finished-{number:06d}", number, 0, size, "Succeeded")
    for number in range(size.running):
        yield JOBS.path(), _job(f"running-{number:06d}", number, "runs")
        for index in range(PODS_OF_A_RUNNING_JOB):
            yield PODS.path(), _pod(f"running-{number:06d}", number, index, size, "Running")
    for number in range(size.pending):
        paused = number < size.burst
        yield JOBS.path(), _job(f"pending-{number:06d}", number, "waits", PAUSED if paused else None)


def queue(name: str, **fields: Any) -> Document:
    """A Queue. ``capability``: GPUs; None: no limit."""
    spec: Document = {"weight": 1}
    if "parent" in fields:
        spec["parent"] = fields["parent"]
    if fields.get("capability") is not None:
        spec["capability"] = {"nvidia.com/gpu": str(fields["capability"])}
    if "paused" in fields:
        spec["policy"] = {"paused": fields["paused"]}
    meta = {"name": name, "uid": f"queue-{name}", "generation": 1, "creationTimestamp": _CREATED}
    return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": meta, "spec": spec}


def _queue_of(number: int) -> str:
    return f"full-{number % FULL_QUEUES}"


def _uid(name: str) -> str:
    return f"{name}-0000-4000-8000-000000000000"


def _node(number: int) -> Document:
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "rack": f"r{number // 20}", "block": f"b{number // 400}"}
    return {
        "metadata": {"name": name, "uid": _uid(name), "labels": labels, "creationTimestamp": _CREATED},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _csi_node(number: int) -> Document:
    name = f"node-{number:05d}"
    drivers = [{"name": _DRIVER, "nodeID": f"i-{number:017x}", "allocatable": {"count": 25}}]
    return {"metadata": {"name": name, "uid": _uid(f"csi-{name}")}, "spec": {"drivers": drivers}}


def _claim(number: int) -> Document:
    """A claim as it is once a driver has made its volume."""
    return {
        "metadata": {
            "name": f"data-{number:06d}",
            "namespace": f"team-{number % NAMESPACES}",
            "uid": _uid(f"claim-{number:06d}"),
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/selected-node": f"node-{number % 1000:05d}",
                "volume.kubernetes.io/storage-provisioner": _DRIVER,
            },
            "creationTimestamp": _CREATED,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "100Gi"}},
            "storageClassName": "disks",
            "volumeMode": "Filesystem",
            "volumeName": f"pvc-{number:06d}",
        },
        "status": {"phase": "Bound"},
    }


def _volume(number: int) -> Document:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"zone-{number % 3}"]}
    return {
        "metadata": {"name": f"pvc-{number:06d}", "uid": _uid(f"volume-{number:06d}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "claimRef": {"name": f"data-{number:06d}", "namespace": f"team-{number % NAMESPACES}"},
            "csi": {"driver": _DRIVER, "volumeHandle": f"vol-{number:017x}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            "storageClassName": "disks",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound"},
    }


def job_that_mounts(claim: str) -> Document:
    """A Job that waits, with a claim."""
    job = _job("mounting", 0, "waits")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    job["spec"]["template"]["spec"]["volumes"] = [volume]
    return job


def _container() -> Document:
    limits = {"nvidia.com/gpu": "1"}
    return {
        "name": "main",
        "image": "registry.example.com/train:1",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "4", "memory": "32Gi", **limits}, "limits": limits},
    }


def waiting_job(name: str, queue_name: str, pods: int) -> Document:
    """A Job that waits in a queue, in a namespace of the queue's name."""
    job = _job(name, 0, "waits", queue_name)
    job["metadata"]["namespace"] = queue_name
    job["metadata"]["annotations"] = {"muster.dev/user": f"user of {queue_name}"}
    job["spec"] |= {"parallelism": pods, "completions": pods}
    return job


def _job(name: str, number: int, state: str, queue_name: str | None = None) -> Document:
    pods = 1 if queue_name == PAUSED else PODS_OF_A_RUNNING_JOB
    labels = {"muster.dev/queue-name": queue_name or _queue_of(number)}
    template_labels = {**labels, "muster.dev/released": "true" if state != "waits" else "false"}
    conditions = {"ended": [{"type": "Complete", "status": "True"}], "waits": [], "runs": []}[state]
    if state == "waits":
        conditions = [{"type": "Suspended", "status": "True"}]
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % NAMESPACES}",
            "uid": _uid(name),
            "generation": 1,
            "labels": labels,
            "annotations": {"muster.dev/user": f"user-{number % 200}"},
            "creationTimestamp": _CREATED,
        },
        "spec": {
            "suspend": state == "waits",
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 6,
            "template": {
                "metadata": {"labels": template_labels},
                "spec": {"restartPolicy": "Never", "containers": [_container()]},
            },
        },
        "status": {
            "conditions": conditions,
            **({"succeeded": pods} if state == "ended" else {}),
            **({"active": pods, "ready": pods} if state == "runs" else {}),
        },
    }


def _pod(job: str, number: int, index: int, size: ClusterSize, phase: str) -> Document:
    name = f"{job}-{index}abcd"
    place = (number * PODS_OF_A_RUNNING_JOB + index) % size.nodes
    state = {"running": {"startedAt": _CREATED}}
    if phase == "Succeeded":
        state = {"terminated": {"exitCode": 0, "finishedAt": _CREATED}}  # type: ignore[dict-item]
    labels = {
        "muster.dev/queue-name": _queue_of(number),
        "muster.dev/released": "true",
        "batch.kubernetes.io/job-name": job,
        "batch.kubernetes.io/controller-uid": _uid(job),
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "name": job, "uid": _uid(job)}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % NAMESPACES}",
            "uid": _uid(name),
            "labels": labels,
            # Of a ledger that is lost: such pods are adopted.
            "annotations": {
                "muster.dev/user": f"user-{number % 200}",
                "muster.dev/admission-id": str(10**9 + number),
                "muster.dev/seat": f"main/{index}",
            },
            "ownerReferences": [owner],
            "creationTimestamp": _CREATED,
        },
        "spec": {"nodeName": f"node-{place:05d}", "containers": [_container()]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    }


def encoded(document: Document, version: int) -> bytes:
    """A document with this resource version, as the API server sends it."""
    document["metadata"]["resourceVersion"] = str(version)
    return json.dumps(document, separators=(",", ":")).encode()
