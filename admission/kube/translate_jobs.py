"""Objects → facts: batch/v1 Jobs, Volcano Jobs and PodGroups. Pure; what cannot be used says why."""

from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from admission.facts import SubGroup, WorkloadFact
from admission.jobs.job import JobSpec, TaskSpec, read_job
from admission.jobs.plugins import unsupported_plugins
from admission.kube.conduct import conduct_of
from admission.kube.fields import INVALID_SPEC, condition, explained, number, one, seconds, without_pin
from admission.kube.objects import Bare, Job, Metadata, PodGroup, VolcanoJob
from admission.kube.placing import partitions_of_tasks, subgroups_of, tier_of
from admission.kube.templates import Obstacle, directed_by, pod_set_of
from queues.errors import InvalidDocument
from queues.spec import names
from queues.spec.defaults import queue_named
from queues.workload import NodeFilter, PodSet, QueueName, WorkloadKey, WorkloadKind

#: The only pod set of a batch/v1 Job.
MAIN: Final = "main"
_UNSAID: Final = ""
_ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
#: Of one workload; more pods than any cluster of today runs, and each costs a seat here.
MOST_PODS: Final = 100_000


def job_fact(job: Job) -> WorkloadFact:
    """A batch/v1 Job; without a queue of its own (and of its namespace) it is not managed.

    Indexed with completions == parallelism: ordinals are completion indexes. Otherwise the pod set has as
    many interchangeable seats as pods may still run at the same time.
    """
    meta, spec, status = job.metadata, job.spec, job.status
    annotations = meta.annotations or {}
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    indexed = spec.completion_mode == "Indexed" and spec.completions == parallelism
    done: frozenset[int] = frozenset()
    if indexed:
        count = parallelism
        done = indexes(status.completed_indexes, below=count) | indexes(status.failed_indexes, below=count)
    else:
        count = _at_once(job, parallelism)
    gang, obstacle = _gang(annotations.get(names.GROUP_MIN_MEMBER), parallelism)
    pods, priority_class, problem = pod_set_of(MAIN, count, bytes(spec.template), "spec.template")
    directed = directed_by(bytes(spec.template))
    if directed is not None:
        pods = replace(pods, nodes=one(without_pin(pods.nodes)))
    queue = (
        (meta.labels or {}).get(names.QUEUE_LABEL)
        or annotations.get(names.QUEUE_ANNOTATION)
        or (meta.labels or {}).get(names.QUEUE_ANNOTATION)
    )
    fact = WorkloadFact(
        key=WorkloadKey(WorkloadKind.JOB, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        queue=QueueName(queue) if queue else None,
        created=seconds(meta.creation_timestamp),
        # Who is done counts as present in the gang.
        minimum=min(gang, count),
        pod_sets=(replace(pods, done=done),),
        priority_class=priority_class,
        generation=_digest(parallelism, spec.completions, spec.completion_mode, gang, pods.takes, pods),
        resource_version=meta.resource_version,
        finished=any(
            found is not None and found.status == "True"
            for found in (condition(status.conditions, kind) for kind in ("Complete", "Failed"))
        ),
        deleting=meta.deletion_timestamp is not None,
        suspended=bool(spec.suspend),
        parallelism=parallelism,
        active=status.active or 0,
        obstacle=obstacle or problem,
        indexed=indexed,
        directed=directed,
        conduct=conduct_of(meta.annotations, meta.labels, spec.active_deadline_seconds),
    )
    return _of_possible_size(fact, "spec.parallelism")


def volcano_job_fact(job: VolcanoJob, raw: bytes) -> WorkloadFact:
    """A Volcano Job with its document, from which its pods are made."""
    meta = job.metadata
    phase = (job.status and job.status.state and job.status.state.phase) or ""
    fact = WorkloadFact(
        key=WorkloadKey(WorkloadKind.VOLCANO_JOB, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        queue=_queue(job.spec.queue, meta),
        priority_class=job.spec.priority_class_name or "",
        created=seconds(meta.creation_timestamp),
        minimum=0,
        phase=phase,
        network_tier=tier_of(job.spec.network_topology),
        generation=str(meta.generation),
        resource_version=meta.resource_version,
        finished=phase in _ENDED,
        deleting=meta.deletion_timestamp is not None,
        conduct=conduct_of(meta.annotations, meta.labels),
        document=_without_managed_fields(raw),
    )
    try:
        spec = read_job(fact.document)
        parts = partitions_of_tasks(fact.document)
    except InvalidDocument as error:
        return replace(fact, obstacle=(INVALID_SPEC, str(error)))
    sets = [
        pod_set_of(task.name, max(task.replicas, 0), task.template, f"spec.tasks[{position}].template")
        for position, task in enumerate(spec.tasks)
    ]
    minimums = _task_minimums(spec)
    pod_sets = tuple(
        replace(found[0], minimum=least, partitions=found[0].partitions if part is None else (part,))
        for found, least, (part, _) in zip(sets, minimums, parts, strict=True)
    )
    problem = next((found[2] for found in sets if found[2] is not None), None)
    fact = replace(
        fact,
        minimum=spec.minimum,
        pod_sets=pod_sets,
        priority_class=fact.priority_class or next((found[1] for found in sets if found[1]), ""),
        # All of the spec: pods are made from it, so a change of any part must be told.
        generation=_digest_of_spec(fact.document),
        obstacle=_contradiction(spec) or problem,
        unsupported=(*spec.unsupported, *unsupported_plugins(spec)),
        partition_tiers={
            pods.name: tier for pods, (_, tier) in zip(pod_sets, parts, strict=True) if tier is not None
        },
    )
    return _of_possible_size(fact, "spec.tasks")


def pod_group_fact(group: PodGroup) -> WorkloadFact:
    """A PodGroup; its pods tell what it takes."""
    meta, spec = group.metadata, group.spec
    minimum = spec.min_member or 0
    owned = any(
        reference.kind == "Job" and reference.api_version.startswith("batch.volcano.sh/")
        for reference in meta.owner_references or ()
    )
    task_minimums = spec.min_task_member or {}
    obstacle: Obstacle = None
    if minimum < 0:
        obstacle = (INVALID_SPEC, f"spec.minMember: found {minimum}, expected 0 or more")
    subgroups: tuple[SubGroup, ...] = ()
    try:
        subgroups = subgroups_of(spec.sub_group_policy)
    except msgspec.DecodeError as error:
        obstacle = (INVALID_SPEC, f"spec.subGroupPolicy: {explained(error)}")
    return WorkloadFact(
        key=WorkloadKey(WorkloadKind.POD_GROUP, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        queue=_queue(spec.queue, meta),
        priority_class=spec.priority_class_name or "",
        created=seconds(meta.creation_timestamp),
        minimum=max(minimum, 0),
        # Volcano's gang plugin looks at task minimums only while the gang is at least their sum.
        task_minimums=task_minimums if minimum >= sum(task_minimums.values()) else {},
        phase=(group.status and group.status.phase) or "",
        network_tier=tier_of(spec.network_topology),
        subgroups=subgroups,
        generation=_digest(minimum, sorted(task_minimums.items()), spec.network_topology, subgroups),
        resource_version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        obstacle=obstacle,
        owned_by_job=owned,
        conduct=conduct_of(meta.annotations, meta.labels),
    )


def _of_possible_size(fact: WorkloadFact, where: str) -> WorkloadFact:
    """The fact, without its pods if they are too many to be considered at all."""
    pods = sum(each.count for each in fact.pod_sets)
    if pods <= MOST_PODS:
        return fact
    message = f"{where}: found {pods} pods, expected at most {MOST_PODS}"
    none = tuple(replace(each, count=0, minimum=0, done=frozenset()) for each in fact.pod_sets)
    return replace(fact, minimum=0, pod_sets=none, obstacle=fact.obstacle or (INVALID_SPEC, message))


def unreadable_fact(kind: WorkloadKind, bare: Bare, error: msgspec.DecodeError) -> WorkloadFact:
    """A workload whose document does not have the form of its kind."""
    meta = bare.metadata
    return WorkloadFact(
        key=WorkloadKey(kind, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        queue=_queue(None, meta),
        created=seconds(meta.creation_timestamp),
        minimum=0,
        generation=str(meta.generation),
        resource_version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        obstacle=(INVALID_SPEC, explained(error)),
    )


def indexes(text: str | None, *, below: int) -> frozenset[int]:
    """Completion indexes of a Job's status: ``0-3,7``. What cannot be read is left out."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        start, end = number(first), number(last or first)
        if start is not None and end is not None:
            found.update(range(start, min(end + 1, below)))
    return frozenset(found)


def _at_once(job: Job, parallelism: int) -> int:
    """Pods that may still run at the same time."""
    succeeded = job.status.succeeded or 0
    if job.spec.completions is not None:
        return max(0, min(parallelism, job.spec.completions - succeeded))
    # A work queue: after the first success no pod is made any more.
    return min(parallelism, job.status.active or 0) if succeeded else parallelism


def _gang(text: str | None, parallelism: int) -> tuple[int, Obstacle]:
    if text is None:
        return parallelism, None
    expected = f"a number from 1 to spec.parallelism ({parallelism})"
    least = number(text)
    if least is None or not 0 < least <= parallelism:
        where = f"metadata.annotations[{names.GROUP_MIN_MEMBER}]"
        return parallelism, (INVALID_SPEC, f"{where}: found {text!r}, expected {expected}")
    return least, None


def _queue(written: str | None, meta: Metadata) -> QueueName | None:
    named = queue_named(
        written, labels=meta.labels or {}, annotations=meta.annotations or {}, inherited=_UNSAID
    )
    said = named != names.DEFAULT_QUEUE or (meta.labels or {}).get(names.QUEUE_LABEL)
    return QueueName(named) if said else None


def _task_minimums(spec: JobSpec) -> list[int]:
    """Volcano's gang plugin looks at task minimums only while the gang is at least their sum."""
    minimums = [max(task.minimum, 0) for task in spec.tasks]
    return minimums if spec.minimum >= sum(minimums) else [0] * len(minimums)


def _contradiction(spec: JobSpec) -> Obstacle:
    """What Volcano's webhook would have refused about counts and names, if it has not."""
    if not spec.tasks:
        return INVALID_SPEC, "spec.tasks: found none, expected at least one"
    seen: set[str] = set()
    for position, task in enumerate(spec.tasks):
        if message := _task_contradiction(task, seen):
            return INVALID_SPEC, f"spec.tasks[{position}]{message}"
        seen.add(task.name)
    if not 0 <= spec.minimum <= spec.replicas:
        message = f"found {spec.minimum}, expected at most the {spec.replicas} replicas of all tasks"
        return INVALID_SPEC, f"spec.minAvailable: {message}"
    return None


def _task_contradiction(task: TaskSpec, seen: set[str]) -> str | None:
    if task.name in seen:
        return f".name: found {task.name} a second time, expected different names"
    if task.replicas < 0:
        return f".replicas: found {task.replicas}, expected 0 or more"
    if not 0 <= task.minimum <= task.replicas:
        return f".minAvailable: found {task.minimum}, expected 0 to {task.replicas} (replicas)"
    return None


class _Document(msgspec.Struct, rename="camel"):
    """A whole object whose parts stay as they were written."""

    metadata: dict[str, msgspec.Raw]
    api_version: msgspec.Raw = msgspec.Raw(b'"batch.volcano.sh/v1alpha1"')
    kind: msgspec.Raw = msgspec.Raw(b'"Job"')
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_DOCUMENT: Final = msgspec.json.Decoder(_Document)


def _without_managed_fields(raw: bytes) -> bytes:
    try:
        document = _DOCUMENT.decode(raw)
    except msgspec.DecodeError:
        return raw
    document.metadata.pop("managedFields", None)
    return msgspec.json.encode(document)


def _digest_of_spec(document: bytes) -> str:
    return blake2b(memoryview(_DOCUMENT.decode(document).spec), digest_size=8).hexdigest()


def _digest(*asked: object) -> str:
    text = repr([_plain(part) for part in asked])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(part: object) -> object:
    if not isinstance(part, PodSet):
        return part
    shape = (part.name, part.minimum, part.required_topology, part.preferred_topology)
    nodes: NodeFilter = part.nodes
    close = (part.prefers, part.ports, part.partitions, part.together, part.balanced)
    more = (close,) if any(close) else ()
    return (*shape, part.count if part.name != MAIN else 0, sorted(part.takes.items()), nodes, *more)
