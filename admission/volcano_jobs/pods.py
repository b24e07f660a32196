"""Pods of a Volcano Job, each created for one seat: named, labelled and pinned.

Everything that does not depend on the pod is encoded once for all pods of a task.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import owner_reference
from admission.volcano_jobs.plugins import plugins_of
from admission.volcano_jobs.task_index import IndexPlaceholder
from admission.volcano_jobs.volumes import mount_volumes
from queues.api import names
from queues.api.flavor_tolerations import listed, missing
from queues.api.node_affinity import pinned
from queues.api.validation.defaults import HOST_DNS
from queues.workload import AdmissionId, NodeName, Toleration

#: Annotations that pods inherit from their Job: Volcano's, and the user who created the Job.
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
    """What an administrator decides about the pods that Muster creates."""

    #: The stock scheduler's name.
    scheduler: str = names.DEFAULT_SCHEDULER
    #: Scheduler names that stand for the stock scheduler.
    aliases: frozenset[str] = frozenset({names.VOLCANO_SCHEDULER})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What all pods of one admission have in common besides their Job."""

    admission: AdmissionId
    #: The Job's version and retry count when the pods are created.
    version: int = 0
    retry_count: int = 0
    rules: PodRules = PodRules()
    #: Of pods without a class: that of the cluster's default class.
    default_priority: int = 0
    #: They are marked so that cluster autoscalers do not end them.
    kept: bool = False
    #: What they get of the flavors of their seats, by task.
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Placeholders:
    """Stand in the manifest for what differs between the pods of a task."""

    index: IndexPlaceholder
    node: str
    #: Of the number of the pod's partition; None if the task has no partitions.
    partition: str | None


class PodTemplateRenderer:
    """Renders pods ``<job>-<task>-<index>`` of one task as JSON. Raises InvalidDocument for a plugin's bad flag."""

    __slots__ = ("_counts", "_format", "_partition_size")

    def __init__(self, job: JobSpec, task: TaskSpec, settings: PodSettings) -> None:
        written = msgspec.json.encode((job.annotations, job.plugins, job.volumes))
        fence = _fence(task.template, written)
        index, node, partition = IndexPlaceholder(fence), f"{fence}node{fence}", f"{fence}partition{fence}"
        differs = _Placeholders(index, node, partition if task.partition_size else None)
        text = msgspec.json.encode(_manifest(job, task, settings, differs)).replace(b"%", b"%%")
        pattern = re.compile(fence.encode() + rb"(\w+)" + fence.encode())
        self._format = pattern.sub(rb"%(\1)b", text)
        #: What is added to the index, by the name of each placeholder for it.
        self._counts = {name: int(name) for name in pattern.findall(text) if name.isdigit()}
        self._partition_size = task.partition_size

    def render(self, index: int, node: NodeName, devices: str = "") -> bytes:
        """One pod, pinned to a node. Node names need no escapes in JSON: the API server admits only DNS names.

        ``devices``: numbers of the devices that the pod gets a part of; "": none.
        """
        partition = b"%d" % (index // self._partition_size) if self._partition_size else b""
        values = {name: b"%d" % (index + count) for name, count in self._counts.items()}
        body = self._format % {**values, b"node": node.encode(), b"partition": partition}
        return _with_devices(body, devices) if devices else body


def _with_devices(body: bytes, devices: str) -> bytes:
    pod = msgspec.json.decode(body)
    pod["metadata"]["annotations"][names.DEVICES] = devices
    return msgspec.json.encode(pod)


def _fence(*written: bytes) -> str:
    """A text around placeholders for what differs between pods, which does not occur in what users have written."""
    fence = "\ufdd0"
    while any(fence.encode() in text or _escaped(fence) in text.lower() for text in written):
        fence += "\ufdd1"
    return fence


def _escaped(text: str) -> bytes:
    return "".join(f"\\u{ord(character):04x}" for character in text).encode()


def _manifest(job: JobSpec, task: TaskSpec, settings: PodSettings, differs: _Placeholders) -> dict[str, Any]:
    template = msgspec.json.decode(task.template)
    spec: dict[str, Any] = dict(template.get("spec") or {})
    # It would go past the scheduler, to another node than the seat's.
    spec.pop("nodeName", None)
    if gates := spec.get("schedulingGates"):
        # The pod has its seat; gates of others stay.
        spec["schedulingGates"] = [gate for gate in gates if gate.get("name") != names.GATE]
    spec["containers"] = [dict(container) for container in spec.get("containers") or ()]
    if spec.get("initContainers"):
        spec["initContainers"] = [dict(container) for container in spec["initContainers"]]
    meta = template.get("metadata") or {}
    name = f"{job.name}-{task.name}-{differs.index}"
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {**_inherited(meta.get("labels") or {}, job), **_labels(job, task, differs)},
            "annotations": {
                **(names.KEPT_FROM_AUTOSCALERS if settings.kept else {}),
                **_inherited(meta.get("annotations") or {}, job),
                **_annotations(job, task, settings, str(differs.index)),
            },
            "ownerReferences": [owner_reference(job)],
            # No seat that succeeded runs twice: the pod stays until its outcome is stored.
            "finalizers": [
                *(each for each in meta.get("finalizers") or () if each != names.FINALIZER),
                names.FINALIZER,
            ],
        },
        "spec": spec,
    }
    spec["schedulerName"] = scheduler_of(spec.get("schedulerName") or job.scheduler_name, settings.rules)
    priority_class = spec.get("priorityClassName") or job.priority_class
    if priority_class:
        spec["priorityClassName"] = priority_class
    if priority_class or settings.default_priority:
        pod["metadata"]["labels"][names.NEVER_PREEMPTS] = ""
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = HOST_DNS
    if spec.get("terminationGracePeriodSeconds") == 0:
        # The API server drops such a pod at once, also while its containers run: the next one would run next to them.
        spec["terminationGracePeriodSeconds"] = 1
    spec["affinity"] = pinned(spec.get("affinity"), [differs.node])
    if tolerated := missing(spec.get("tolerations") or (), settings.tolerations.get(task.name, ())):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerated]
        pod["metadata"]["annotations"][names.FLAVOR_TOLERATIONS] = listed(tolerated)
    mount_volumes(pod, job)
    for plugin in plugins_of(job):
        plugin.configure_pod(pod, task, differs.index)
    return pod


def _inherited(written: Mapping[str, str], job: JobSpec) -> dict[str, str]:
    """Labels or annotations of a template, without those that only Muster may write: users cannot forge them.

    A queue that is named there is the Job's: pods wait in no other.
    """
    return {
        key: job.queue if key in (names.QUEUE_LABEL, names.QUEUE_ANNOTATION) else text
        for key, text in written.items()
        if key not in names.OWN_NAMES
    }


def _labels(job: JobSpec, task: TaskSpec, differs: _Placeholders) -> dict[str, str]:
    labels = {
        names.TASK_INDEX: str(differs.index),
        names.JOB_NAME: job.name,
        names.TASK_SPEC: task.name,
        names.JOB_NAMESPACE: job.namespace,
        names.VOLCANO_QUEUE: job.queue,
        names.RELEASED: "true",
    }
    if differs.partition is not None:
        labels[names.PARTITION_ID] = differs.partition
    return labels


def _annotations(job: JobSpec, task: TaskSpec, settings: PodSettings, index: str) -> dict[str, str]:
    inherited = {key: job.annotations[key] for key in INHERITED if key in job.annotations}
    return {
        **inherited,
        names.TASK_INDEX: index,
        names.TASK_SPEC: task.name,
        names.GROUP_ANNOTATION: job.group_name,
        names.JOB_NAME: job.name,
        names.VOLCANO_QUEUE: job.queue,
        names.JOB_VERSION: str(settings.version),
        names.TEMPLATE_UID: f"{job.name}-{task.name}",
        names.JOB_RETRY_COUNT: str(settings.retry_count),
        names.ADMISSION_ID: str(settings.admission),
        names.SEAT: f"{task.name}/{index}",
    }


def scheduler_of(written: str, rules: PodRules) -> str:
    """The scheduler that a name stands for; "" stands for the stock scheduler."""
    return rules.scheduler if not written or written in rules.aliases else written
