"""The defaults of Volcano's mutating webhook, as pure functions from document to document.

Those of Volcano Jobs are filled in when a Job is read, and are not stored: a list of tasks is one value to the API
server, so a stored default in it would be a change at each ``kubectl apply``, and a conflict between field managers.

Documents are plain JSON-like data, so unknown fields are kept. Values of a wrong type, and lists that are too long,
stay as they are: validation reports them.
"""

from collections.abc import Mapping
from typing import Any

from queues.api.names import DEFAULT_QUEUE, QUEUE_ANNOTATION, QUEUE_LABEL, ROOT_QUEUE, VOLCANO_SCHEDULER
from queues.api.reading.user_values import MOST_ENTRIES, MOST_POD_SETS
from queues.json_values import mapping_at, value_at

Document = dict[str, Any]

MAX_RETRY = 3
#: The name of a task that has none is this and its number.
TASK_NAME = "default"
#: The dnsPolicy of pods on their host's network.
HOST_DNS = "ClusterFirstWithHostNet"

#: Plugins that need pods to find one another by name: they imply the plugin svc.
NEED_SVC = ("tensorflow", "mpi", "pytorch", "ray")


def defaulted_job(document: Document, *, namespace_queue: str | None = None) -> Document:
    """A Volcano Job with its defaults. ``namespace_queue``: the default queue of the namespace; None if it has none."""
    if not isinstance(document.get("spec"), Mapping):
        return document
    spec = dict(document["spec"])
    spec["queue"] = _queue_of(document, spec, namespace_queue)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = VOLCANO_SCHEDULER
    if not spec.get("maxRetry"):
        spec["maxRetry"] = MAX_RETRY
    tasks = spec.get("tasks")
    if isinstance(tasks, list) and len(tasks) <= MOST_POD_SETS:
        spec["tasks"] = [_task(task, index) for index, task in enumerate(tasks)]
        if not spec.get("minAvailable"):
            minimums = [_count(task, "minAvailable") for task in spec["tasks"]]
            spec["minAvailable"] = sum(minimum for minimum in minimums if minimum is not None)
    plugins = spec.get("plugins")
    if isinstance(plugins, Mapping) and len(plugins) <= MOST_ENTRIES:
        spec["plugins"] = with_needed_plugins(plugins)
    return {**document, "spec": spec}


def defaulted_podgroup(document: Document, *, namespace_queue: str | None = None) -> Document:
    """A PodGroup with its default: the queue."""
    spec = document.get("spec")
    if spec is not None and not isinstance(spec, Mapping):
        return document
    spec = dict(spec or {})
    spec["queue"] = _queue_of(document, spec, namespace_queue)
    return {**document, "spec": spec}


def defaulted_queue(document: Document) -> Document:
    """A Queue with its defaults: weight, reclaimable, parent."""
    spec = document.get("spec")
    if spec is not None and not isinstance(spec, Mapping):
        return document
    spec = dict(spec or {})
    if spec.get("weight") is None:
        spec["weight"] = 1
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if not spec.get("parent") and value_at(document, "metadata", "name") != ROOT_QUEUE:
        spec["parent"] = ROOT_QUEUE
    return {**document, "spec": spec}


def queue_named(
    written: object,
    *,
    labels: Mapping[str, Any],
    annotations: Mapping[str, Any],
    inherited: str | None = None,
) -> Any:
    """The queue of a Volcano Job or a PodGroup. ``written``: its ``spec.queue``; ``inherited``: its namespace's queue.

    The first that is given of: Muster's label; ``spec.queue``, unless it is ``default``, which the API server fills
    in; Volcano's annotation; the namespace's queue; ``default``.
    """
    if label := labels.get(QUEUE_LABEL):
        return label
    if written not in (None, "", DEFAULT_QUEUE):
        return written
    return annotations.get(QUEUE_ANNOTATION) or inherited or DEFAULT_QUEUE


def namespace_queue(annotations: Mapping[str, str] | None) -> str | None:
    """The queue of objects that name none, from the annotations of their Namespace; None if there is none."""
    if not annotations:
        return None
    return annotations.get(QUEUE_LABEL) or annotations.get(QUEUE_ANNOTATION) or None


def _task(task: Any, index: int) -> Any:
    if not isinstance(task, Mapping):
        return task
    filled = dict(task)
    if not filled.get("name"):
        filled["name"] = default_task_name(index)
    if filled.get("minAvailable") is None and (minimum := _default_minimum(filled)) is not None:
        filled["minAvailable"] = minimum
    if not filled.get("maxRetry"):
        filled["maxRetry"] = MAX_RETRY
    spec = mapping_at(filled, "template", "spec")
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        filled["template"] = {**filled["template"], "spec": {**spec, "dnsPolicy": HOST_DNS}}
    return filled


def default_task_name(index: int) -> str:
    """The name of a task that has none."""
    return f"{TASK_NAME}{index}"


def default_minimum(replicas: int, min_partitions: int, partition_size: int) -> int:
    """The default minAvailable of a task: the pods of its minimum of partitions; without one, all its pods."""
    return min_partitions * partition_size or replicas


def _default_minimum(task: Mapping[str, Any]) -> int | None:
    partitions = task.get("partitionPolicy")
    minimum, size = (_count(partitions, field) or 0 for field in ("minPartitions", "partitionSize"))
    replicas = 0 if task.get("replicas") is None else _count(task, "replicas")
    return None if replicas is None else default_minimum(replicas, minimum, size)


def with_needed_plugins(plugins: Mapping[str, Any]) -> Document:
    """The plugins of a Job with those that they need."""
    filled = {name: [] if flags is None else flags for name, flags in plugins.items()}
    if any(name in filled for name in NEED_SVC):
        filled.setdefault("svc", [])
    if "mpi" in filled:
        filled.setdefault("ssh", [])
    return filled


def _count(mapping: Any, key: str) -> int | None:
    value = value_at(mapping, key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _queue_of(document: Document, spec: Document, inherited: str | None) -> Any:
    labels, annotations = (mapping_at(document, "metadata", field) for field in ("labels", "annotations"))
    return queue_named(spec.get("queue"), labels=labels, annotations=annotations, inherited=inherited)
