"""Objects → facts: batch/v1 Jobs and PodGroups. Pure; what cannot be used says why."""

from dataclasses import replace

import msgspec

from admission.decode.fields import INVALID_SPEC, condition, explained, number, one, seconds, without_pin
from admission.decode.interruption import conduct_of
from admission.decode.pod_templates import Obstacle, directed_by, pod_set_of
from admission.decode.topology_requests import subgroups_of, tier_of
from admission.decode.workload_facts import MAIN, digest, of_possible_size, queue_said
from admission.facts import SubGroup, WorkloadFact
from admission.objects import WireJob, WirePodGroup
from queues.api import names
from queues.workload import QueueName, WorkloadKey, WorkloadKind


def job_fact(job: WireJob) -> WorkloadFact:
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
        generation=digest(parallelism, spec.completions, spec.completion_mode, gang, pods.takes, pods),
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
    return of_possible_size(fact, "spec.parallelism")


def pod_group_fact(group: WirePodGroup) -> WorkloadFact:
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
        queue=queue_said(spec.queue, meta),
        priority_class=spec.priority_class_name or "",
        created=seconds(meta.creation_timestamp),
        minimum=max(minimum, 0),
        # Volcano's gang plugin looks at task minimums only while the gang is at least their sum.
        task_minimums=task_minimums if minimum >= sum(task_minimums.values()) else {},
        phase=(group.status and group.status.phase) or "",
        network_tier=tier_of(spec.network_topology),
        subgroups=subgroups,
        generation=digest(minimum, sorted(task_minimums.items()), spec.network_topology, subgroups),
        resource_version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        obstacle=obstacle,
        owned_by_job=owned,
        conduct=conduct_of(meta.annotations, meta.labels),
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


def _at_once(job: WireJob, parallelism: int) -> int:
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
