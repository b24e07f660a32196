"""Volcano Jobs: no pods exist while they wait; Muster makes the pods (``admission.volcano_jobs``). Pure."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from admission.decode.affinity import affinity_size, is_of_possible_size
from admission.decode.fields import one, seconds
from admission.decode.interruption import conduct_of
from admission.decode.pod_templates import by_pod_set, pod_set_of
from admission.decode.template_trials import template_digest
from admission.decode.topology_requests import tier_of
from admission.decode.volcano_jobs import job_of
from admission.decode.workload_facts import of_possible_size, queue_said, said_by_metadata, shared_request
from admission.facts.volcano_jobs import JobSpec, NetworkTopologySpec, ShownState, TaskSpec
from admission.facts.volumes import PodVolume
from admission.facts.workloads import GroupRequest, WorkloadFact
from admission.volcano_jobs.volumes import claim_name
from admission.wire import Int32, WireMetadata, WireOwnerReference, WireStruct
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.kinds.support import Holding, KindSupport, ObjectReader, StatusForm, controlled_by
from admission.workloads.seats import SeatMap
from queues import kind_names
from queues.api import names
from queues.api.api_resources import VOLCANO_JOBS
from queues.api.reading.user_values import LARGEST_AFFINITY, UserValues
from queues.api.validation.job_rules import dependency_violations
from queues.errors import InvalidDocument
from queues.workload import Partition, PodSet

_ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


class WireVolcanoJobSpec(WireStruct):
    """The part of a spec that counts even if the rest cannot be read (``decode.volcano_jobs`` has all of it)."""

    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopologySpec | None = None


class WireVolcanoJobState(WireStruct):
    """The phase of a Volcano Job, and since when it has it."""

    phase: str | None = None
    last_transition_time: str | None = None


class WireVolcanoJobStatus(WireStruct):
    """The status of a Volcano Job."""

    state: WireVolcanoJobState | None = None
    version: Int32 | None = None
    retry_count: Int32 | None = None


class WireVolcanoJob(WireStruct):
    """A Volcano Job."""

    metadata: WireMetadata
    spec: WireVolcanoJobSpec = msgspec.field(default_factory=WireVolcanoJobSpec)
    status: WireVolcanoJobStatus | None = None


def volcano_job_fact(job: WireVolcanoJob, raw: bytes | msgspec.Raw) -> WorkloadFact:
    """A Volcano Job, with all that its pods are made from."""
    meta, values = job.metadata, UserValues()
    document = _DOCUMENT.decode(raw)
    fact = _object_fact(job, values)
    try:
        spec = job_of(meta, document.spec)
    except InvalidDocument as error:
        values.note(str(error))
        return replace(fact, obstacle=values.obstacle)
    fact = replace(fact, job=spec)
    if len(document.spec) > LARGEST_AFFINITY:
        affinity = sum(affinity_size(task.template) for task in spec.tasks)
        if not is_of_possible_size(affinity, values, "spec.tasks[].template.spec"):
            return replace(fact, obstacle=values.obstacle)
    fact = replace(
        _with_tasks(fact, spec, meta, values),
        minimum=spec.minimum,
        # All of the spec: pods are made from it, so a change of any part must be reported.
        generation=blake2b(memoryview(document.spec), digest_size=8).hexdigest(),
        obstacle=values.obstacle,
    )
    return of_possible_size(fact, "spec.tasks")


def _object_fact(job: WireVolcanoJob, values: UserValues) -> WorkloadFact:
    """What the object says next to its tasks."""
    meta = job.metadata
    status = job.status or WireVolcanoJobStatus()
    state = status.state or WireVolcanoJobState()
    phase = state.phase or ""
    return WorkloadFact(
        **said_by_metadata(kind_names.VOLCANO_JOB, meta),
        queue=queue_said(job.spec.queue, meta, values),
        priority_class=values.name("spec.priorityClassName", job.spec.priority_class_name) or "",
        minimum=0,
        phase=phase,
        shown=one(
            ShownState(
                max(0, status.version or 0),
                max(0, status.retry_count or 0),
                seconds(state.last_transition_time),
            )
        ),
        group=shared_request(GroupRequest(network_tier=tier_of(job.spec.network_topology, values))),
        generation=str(meta.generation),
        finished=phase in _ENDED,
        failed=phase in ("Failed", "Terminated"),
        conduct=conduct_of(meta.annotations, meta.labels),
    )


def _with_tasks(fact: WorkloadFact, spec: JobSpec, meta: WireMetadata, values: UserValues) -> WorkloadFact:
    """The same with what its tasks ask: a pod set of each."""
    sets = [
        pod_set_of(
            task.name,
            max(task.replicas, 0),
            task.template,
            f"spec.tasks[{position}].template",
            meta.namespace,
        )
        for position, task in enumerate(spec.tasks)
    ]
    _note_contradiction(spec, values)
    for found in sets:
        values.adopt(found.obstacle)
    pod_sets = (
        replace(found.pods, minimum=least, partitions=_partitions(task) or found.pods.partitions)
        for found, least, task in zip(sets, _task_minimums(spec), spec.tasks, strict=True)
    )
    job_volumes = tuple(_job_volume(spec, position) for position in range(len(spec.volumes)))
    with_volumes = [found._replace(volumes=(*found.volumes, *job_volumes)) for found in sets]
    partition_tiers = {
        task.name: tier
        for task in spec.tasks
        if task.partition_size > 0 and (tier := tier_of(task.partition_topology, values)) is not None
    }
    ignored = [sentence for found in sets for sentence in found.ignored]
    images = (found.image for found in sets if found.image)
    classes = (found.priority_class for found in sets if found.priority_class)
    return replace(
        fact,
        pod_sets=tuple(pod_sets),
        conduct=conduct_of(meta.annotations, meta.labels, spec.running_estimate, next(images, ""), ignored),
        templates=() if fact.finished else one(tuple(template_digest(task.template) for task in spec.tasks)),
        **by_pod_set(with_volumes),
        priority_class=fact.priority_class or next(classes, ""),
        group=shared_request(replace(fact.group, partition_tiers=partition_tiers)),
    )


def _job_volume(spec: JobSpec, position: int) -> PodVolume:
    """A volume of the Job, which each pod mounts. Its claim is made with the first pods, unless it names one."""
    volume = spec.volumes[position]
    named = (volume.volume_claim or {}).get("storageClassName")
    return PodVolume(
        claim=claim_name(spec, position, volume),
        is_made=not volume.volume_claim_name,
        storage_class=named if isinstance(named, str) else None,
    )


def _partitions(task: TaskSpec) -> tuple[Partition, ...]:
    """The partitionPolicy of a task. Partitions without a topology of their own start whole, on whatever nodes."""
    if task.partition_size < 1:
        return ()
    minimum = max(0, task.min_partitions)
    return (Partition(size=task.partition_size, level="", required=False, minimum=minimum),)


def _task_minimums(spec: JobSpec) -> list[int]:
    """Volcano's gang plugin looks at task minimums only while the gang is at least their sum."""
    minimums = [max(task.minimum, 0) for task in spec.tasks]
    return minimums if spec.minimum >= sum(minimums) else [0] * len(minimums)


def _note_contradiction(spec: JobSpec, values: UserValues) -> None:
    """Note what Volcano's webhook would have refused about counts and names, if it has not."""
    if not spec.tasks:
        values.refuse("spec.tasks", "none", "at least one")
    seen: set[str] = set()
    for position, task in enumerate(spec.tasks):
        where = f"spec.tasks[{position}]"
        values.task(f"{where}.name", task.name)
        if task.name in seen:
            values.refuse(f"{where}.name", f"{task.name} a second time", "different names")
        elif task.replicas < 0:
            values.refuse(f"{where}.replicas", str(task.replicas), "0 or more")
        elif not 0 <= task.minimum <= task.replicas:
            values.refuse(f"{where}.minAvailable", str(task.minimum), f"0 to {task.replicas} (replicas)")
        seen.add(task.name)
    for violation in dependency_violations({task.name: task.depends_on for task in spec.tasks}):
        values.note(violation.message)
    if not 0 <= spec.minimum <= spec.replicas:
        expected = f"at most the {spec.replicas} replicas of all tasks"
        values.refuse("spec.minAvailable", str(spec.minimum), expected)


class _Document(msgspec.Struct):
    """An object whose spec is read by itself."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


_DOCUMENT: Final = msgspec.json.Decoder(_Document)


def _pod_sets(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> tuple[PodSet, ...]:
    # Pods that are done count as present in the gang, so the minimum stays.
    done: dict[str, set[int]] = {}
    for name, ordinal in inputs.outcomes:
        done.setdefault(name, set()).add(ordinal)
    return tuple(
        replace(pods, done=frozenset(done[pods.name])) if pods.name in done else pods
        for pods in (inputs.fact.pod_sets if inputs.fact is not None else ())
    )


def _marked(metadata: WireMetadata, reference: WireOwnerReference) -> bool:
    """Muster, and Volcano before it, names pods after Job, task and index, and says so on them."""
    said = {**(metadata.labels or {}), **(metadata.annotations or {})}
    name = f"{reference.name}-{said.get(names.TASK_SPEC)}-{said.get(names.TASK_INDEX)}"
    return metadata.name == name and said.get(names.JOB_NAME) == reference.name


VOLCANO_JOB = KindSupport(
    kind=kind_names.VOLCANO_JOB,
    resource=VOLCANO_JOBS,
    reader=ObjectReader(informer="volcano-jobs", wire=WireVolcanoJob, fact=volcano_job_fact),
    holding=Holding.NO_PODS,
    status=StatusForm.VOLCANO_JOB,
    controller_of=controlled_by(kind_names.VOLCANO_JOB, VOLCANO_JOBS, _marked),
    is_by_ordinal=lambda fact: True,
    pod_sets=_pod_sets,
    pod_set_name=lambda pod, fact: pod.task,
)
