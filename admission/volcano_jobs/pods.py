"""Pods of a Volcano Job, each made for one seat: named, labelled and pinned.

``pod_manifest`` is the plain form. ``PodMold`` makes the same bytes for many pods of a task: everything that
does not depend on the pod is encoded once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from admission.volcano_jobs.companions import owner_reference
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins import plugins_of
from admission.volcano_jobs.volumes import mount_volumes
from queues.api import names
from queues.api.node_affinity import pinned
from queues.workload import AdmissionId, NodeName

#: Annotations that pods inherit from their Job: Volcano's, and who created it.
INHERITED: Final = (
    names.NUMA_TOPOLOGY_POLICY,
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.REVOCABLE_ZONE,
    names.JDB_MIN_AVAILABLE,
    names.JDB_MAX_UNAVAILABLE,
    names.USER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What an administrator decides about pods that Muster makes."""

    #: The stock scheduler's name.
    scheduler: str = names.DEFAULT_SCHEDULER
    #: Scheduler names that mean it.
    aliases: frozenset[str] = frozenset({names.VOLCANO_SCHEDULER})
    #: Priority class → its twin that never preempts; a class that is absent is used itself.
    twins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the pods of one admission have in common beside their Job."""

    admission: AdmissionId
    version: int = 0
    retry_count: int = 0
    rules: PodRules = PodRules()


def pod_manifest(job: JobSpec, task: TaskSpec, index: int, node: NodeName, stamp: Stamp) -> dict[str, Any]:
    """The pod ``<job>-<task>-<index>``, pinned to a node. Raises InvalidDocument for a plugin's bad flag."""
    partition = index // task.partition_size if task.partition_size else None
    return _manifest(job, task, str(index), node, stamp, None if partition is None else str(partition))


class PodMold:
    """Makes pods of one task as JSON. Raises InvalidDocument for a plugin's bad flag."""

    __slots__ = ("_form", "_partition_size")

    def __init__(self, job: JobSpec, task: TaskSpec, stamp: Stamp) -> None:
        marks = _marks(task.template, msgspec.json.encode((job.annotations, job.plugins, job.volumes)))
        manifest = _manifest(
            job,
            task,
            marks["index"],
            marks["node"],
            stamp,
            marks["partition"] if task.partition_size else None,
        )
        form = msgspec.json.encode(manifest).replace(b"%", b"%%")
        for name, mark in marks.items():
            form = form.replace(mark.encode(), b"%%(%b)b" % name.encode())
        self._form = form
        self._partition_size = task.partition_size

    def cast(self, index: int, node: NodeName, devices: str = "") -> bytes:
        """One pod. Node names need no escapes in JSON: the API server admits only DNS names.

        ``devices``: numbers of those that it has parts of.
        """
        number = b"%d" % index
        partition = b"%d" % (index // self._partition_size) if self._partition_size else b""
        body = self._form % {b"index": number, b"node": node.encode(), b"partition": partition}
        return _with_devices(body, devices) if devices else body


def _with_devices(body: bytes, devices: str) -> bytes:
    pod = msgspec.json.decode(body)
    pod["metadata"]["annotations"][names.DEVICES] = devices
    return msgspec.json.encode(pod)


def _marks(*given: bytes) -> dict[str, str]:
    """Texts that stand for what differs between pods and occur nowhere in what users wrote."""
    fence = "\ufdd0"
    while any(fence.encode() in text or _escaped(fence) in text.lower() for text in given):
        fence += "\ufdd1"
    return {name: f"{fence}{name}{fence}" for name in ("index", "node", "partition")}


def _escaped(text: str) -> bytes:
    return "".join(f"\\u{ord(character):04x}" for character in text).encode()


def _manifest(
    job: JobSpec, task: TaskSpec, index: str, node: str, stamp: Stamp, partition: str | None
) -> dict[str, Any]:
    template = msgspec.json.decode(task.template)
    spec: dict[str, Any] = dict(template.get("spec") or {})
    spec["containers"] = [dict(container) for container in spec.get("containers") or ()]
    if spec.get("initContainers"):
        spec["initContainers"] = [dict(container) for container in spec["initContainers"]]
    meta = template.get("metadata") or {}
    name = f"{job.name}-{task.name}-{index}"
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {**(meta.get("labels") or {}), **_labels(job, task, index, partition)},
            "annotations": {
                **_unsigned(meta.get("annotations") or {}),
                **_annotations(job, task, index, stamp),
            },
            "ownerReferences": [owner_reference(job)],
            # Nothing that succeeded runs twice: a pod stays until it is stored how it ended.
            "finalizers": [
                *(each for each in meta.get("finalizers") or () if each != names.FINALIZER),
                names.FINALIZER,
            ],
        },
        "spec": spec,
    }
    spec["schedulerName"] = scheduler_of(spec.get("schedulerName") or job.scheduler_name, stamp.rules)
    priority_class = spec.get("priorityClassName") or job.priority_class
    if priority_class:
        spec["priorityClassName"] = stamp.rules.twins.get(priority_class, priority_class)
    spec["affinity"] = pinned(spec.get("affinity"), [node])
    mount_volumes(pod, job)
    for plugin in plugins_of(job):
        plugin.dress(pod, job, task, index)
    return pod


def _unsigned(annotations: Mapping[str, str]) -> dict[str, str]:
    """A template's, without those that only Muster writes: what it writes itself, it also answers for."""
    return {key: text for key, text in annotations.items() if key not in names.OWN_NAMES}


def _labels(job: JobSpec, task: TaskSpec, index: str, partition: str | None) -> dict[str, str]:
    labels = {
        names.TASK_INDEX: index,
        names.JOB_NAME: job.name,
        names.TASK_SPEC: task.name,
        names.JOB_NAMESPACE: job.namespace,
        names.VOLCANO_QUEUE: job.queue,
        names.RELEASED: "true",
    }
    if partition is not None:
        labels[names.PARTITION_ID] = partition
    return labels


def _annotations(job: JobSpec, task: TaskSpec, index: str, stamp: Stamp) -> dict[str, str]:
    inherited = {key: job.annotations[key] for key in INHERITED if key in job.annotations}
    return {
        **inherited,
        names.TASK_INDEX: index,
        names.TASK_SPEC: task.name,
        names.GROUP_ANNOTATION: job.group_name,
        names.JOB_NAME: job.name,
        names.VOLCANO_QUEUE: job.queue,
        names.JOB_VERSION: str(stamp.version),
        names.TEMPLATE_UID: f"{job.name}-{task.name}",
        names.JOB_RETRY_COUNT: str(stamp.retry_count),
        names.ADMISSION_ID: str(stamp.admission),
        names.SEAT: f"{task.name}/{index}",
    }


def scheduler_of(written: str, rules: PodRules) -> str:
    """The scheduler that a name means; none at all means the stock one."""
    return rules.scheduler if not written or written in rules.aliases else written
