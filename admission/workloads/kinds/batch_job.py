"""batch/v1 Jobs: suspended while they wait; the job controller makes their pods. Pure.

An Indexed Job with as many completions as its parallelism has a seat per completion index. Pods of other Jobs are
interchangeable: whichever pod comes takes any vacant seat.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import msgspec

from admission.decode.fields import condition, is_true, one, seconds
from admission.decode.ignored_values import ignored_in_job
from admission.decode.interruption import conduct_of
from admission.decode.pod_templates import (
    TemplatePods,
    annotation_in,
    by_pod_set,
    directed_by,
    existing_paths,
    pod_set_of,
)
from admission.decode.template_trials import template_digest
from admission.decode.workload_facts import (
    MAIN,
    counted_generation,
    digest,
    of_possible_size,
    said_by_metadata,
)
from admission.facts.devices import PodResourceClaim
from admission.facts.pods import Conduct
from admission.facts.workloads import (
    ADMITTED,
    NO_CONDITION,
    ChildJob,
    IndexRanges,
    JobCounts,
    JobRevision,
    WorkloadFact,
)
from admission.wire import Int32, Int64, WireCondition, WireMetadata, WireOwnerReference, WireStruct
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.job_counts import index_ranges, indexes_in, pods_at_a_time, union, within
from admission.workloads.kinds.members import Membership, is_controlled, membership
from admission.workloads.kinds.support import (
    Holding,
    KindSupport,
    ObjectReader,
    StatusForm,
    controlled_by,
    is_made_by,
)
from admission.workloads.pod_sets import numbered
from admission.workloads.seats import SeatMap
from queues import kind_names
from queues.admissions import AdmissionState
from queues.api import names
from queues.api.api_resources import JOBS, ApiResource
from queues.api.reading.user_values import MOST_PODS, UserValues, number, shortened
from queues.text_format import excerpt
from queues.workload import PodSet

#: What an annotation says that means yes or no; None: neither, or it is not there.
_TRUTHS: Final[Mapping[str | None, bool]] = {"true": True, "false": False}

#: Phase of a Job whose completions are reached and whose status has no start time: the API server refuses that
#: such a Job is complete, and its controller gives no start time to a Job that is suspended.
UNSTARTED: Final = "Unstarted"
#: Type of the condition on which the controller of a Job deletes its pods, makes no more, and has it fail.
FAILURE_TARGET: Final = "FailureTarget"
#: Phase of a Job with that condition that has not failed yet. The same holds for its start time.
FAILING: Final = "Failing"


class WireSelector(WireStruct):
    """What a Job selects its pods by, besides the labels that are made for it."""

    match_expressions: tuple[msgspec.Raw, ...] | None = None


class WireJobSpec(WireStruct):
    """The spec of a batch/v1 Job; the template is decoded where it is needed."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    active_deadline_seconds: Int64 | None = None
    manual_selector: bool | None = None
    selector: WireSelector | None = None
    managed_by: str | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class WireUncounted(WireStruct):
    """Pods (by uid) that have ended and that the controller is about to count."""

    succeeded: tuple[str, ...] | None = None


class WireJobStatus(WireStruct):
    """The status of a Job of batch/v1."""

    active: Int32 | None = None
    succeeded: Int32 | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    uncounted_terminated_pods: WireUncounted | None = None
    start_time: str | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireJob(WireStruct):
    """A Job of batch/v1."""

    metadata: WireMetadata
    spec: WireJobSpec = msgspec.field(default_factory=WireJobSpec)
    status: WireJobStatus = msgspec.field(default_factory=WireJobStatus)


def job_fact(job: WireJob) -> WorkloadFact:
    """A batch/v1 Job; without a queue of its own (and of its namespace) it is not managed.

    Indexed with completions == parallelism: ordinals are completion indexes. Otherwise the pod set has as
    many interchangeable seats as pods may still run at the same time.
    """
    meta, spec, status = job.metadata, job.spec, job.status
    annotations = meta.annotations or {}
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    indexed = spec.completion_mode == "Indexed" and spec.completions == parallelism
    counts, values = _counts(job, parallelism), UserValues()
    count, done = pods_at_a_time(counts, status.active or 0), frozenset[int]()
    if indexed:
        count, done = parallelism, _done(counts)
    queue = values.queue("queue", _queue_named(meta))
    stated = annotations.get(names.GROUP_MIN_MEMBER)
    gang = _gang(stated, parallelism, values)
    template = bytes(spec.template)
    said = pod_set_of(MAIN, count, template, "spec.template", meta.namespace)
    values.adopt(said.obstacle)
    _note_problems(spec, values)
    counted = (parallelism, spec.completions, gang)
    generation, alone = _counted(spec.completion_mode, said.pods, said.claims, counted)
    finished = any(is_true(status.conditions, kind) for kind in ("Complete", "Failed"))
    fact = WorkloadFact(
        **said_by_metadata(kind_names.JOB, meta),
        queue=one(queue),
        # Members that are done count as present in the gang.
        minimum=min(gang, count),
        pod_sets=(replace(said.pods, done=done),) if done else alone,
        templates=() if finished else one((template_digest(template),)),
        counts=counts,
        **by_pod_set([said]),
        priority_class=said.priority_class,
        # A Job may be scaled while it holds seats; what its pods ask may not change under them.
        generation=generation,
        phase="" if finished else _phase(status),
        finished=finished,
        failed=is_true(status.conditions, "Failed"),
        told=told_by_condition(status.conditions),
        suspended=bool(spec.suspend),
        may_grow=_TRUTHS.get(annotations.get(names.MAY_GROW)),
        whole_by_default=stated is None and parallelism > 1 and not said.has_service,
        suspended_at=_suspended_at(status.conditions),
        parallelism=parallelism,
        active=status.active or 0,
        obstacle=values.obstacle,
        indexed=indexed,
        directed=directed_by(template),
        revision=one(JobRevision(meta.generation, existing_paths(template))),
        conduct=_conduct(job, said),
    )
    return of_possible_size(fact, "spec.parallelism")


def _conduct(job: WireJob, said: TemplatePods) -> Conduct:
    meta, ignored = job.metadata, (*said.ignored, *ignored_in_job(job.metadata.annotations))
    return conduct_of(meta.annotations, meta.labels, job.spec.active_deadline_seconds, said.image, ignored)


def _queue_named(meta: WireMetadata) -> str | None:
    labels, annotations = meta.labels or {}, meta.annotations or {}
    return (
        labels.get(names.QUEUE_LABEL)
        or annotations.get(names.QUEUE_ANNOTATION)
        or labels.get(names.QUEUE_ANNOTATION)
        or None
    )


def told_by_condition(conditions: tuple[WireCondition, ...] | None) -> tuple[str, str]:
    """Status and reason of Muster's condition on an object."""
    found = condition(conditions, ADMITTED)
    return NO_CONDITION if found is None else one((shortened(found.status), shortened(found.reason or "")))


def _phase(status: WireJobStatus) -> str:
    if is_true(status.conditions, FAILURE_TARGET):
        return FAILING
    unstarted = status.start_time is None and is_true(status.conditions, "SuccessCriteriaMet")
    return UNSTARTED if unstarted else ""


def _suspended_at(conditions: tuple[WireCondition, ...] | None) -> int:
    found = condition(conditions, "Suspended")
    return seconds(found.last_transition_time) if found is not None and found.status == "True" else 0


@lru_cache(maxsize=4096)
def _counted(
    mode: str | None, pods: PodSet, claims: tuple[PodResourceClaim, ...], counts: tuple[int, int | None, int]
) -> tuple[str, tuple[PodSet]]:
    """The generation, and the pod set as the only one. Most Jobs repeat one of a few, and share it."""
    asked = (mode, pods.takes, pods, *((claims,) if claims else ()))
    generation = counted_generation(digest(*asked), digest(*counts))
    return generation, (pods,)


def _counts(job: WireJob, parallelism: int) -> JobCounts:
    spec, status = job.spec, job.status
    counting = (status.uncounted_terminated_pods or WireUncounted()).succeeded or ()
    over: IndexRanges | None = None
    if spec.completion_mode == "Indexed":
        completed, failed = (
            index_ranges(said, below=spec.completions or 0)
            for said in (status.completed_indexes, status.failed_indexes)
        )
        over = union(completed, failed) if completed and failed else completed or failed
    return one(
        JobCounts(
            parallelism=parallelism,
            completions=spec.completions,
            succeeded=(status.succeeded or 0) + len(counting),
            counting=frozenset(counting),
            over=over,
            ends=any(is_true(status.conditions, kind) for kind in (FAILURE_TARGET, "SuccessCriteriaMet")),
        )
    )


def _done(counts: JobCounts) -> frozenset[int]:
    """Ordinals of an Indexed Job with a seat for each index that need no seat any more."""
    if counts.ends:
        return frozenset(range(min(counts.parallelism, MOST_PODS)))
    return indexes_in(within(counts.over or (), MOST_PODS))


def as_counted(fact: WorkloadFact, counts: JobCounts, active: int, *, by_index: bool) -> WorkloadFact:
    """A Job with these counts in place of those of its status. ``active``: pods that run.

    ``by_index``: each pod has the seat of its completion index, as far as the Job allows; else it takes any.
    """
    if not by_index or not fact.indexed:
        count = pods_at_a_time(counts, active)
        pod_sets = tuple(replace(pods, count=count, done=frozenset()) for pods in fact.pod_sets)
        minimum = min(fact.minimum, count)
        return replace(fact, counts=counts, pod_sets=pod_sets, minimum=minimum, indexed=False)
    done = _done(counts)
    pod_sets = tuple(one(replace(pods, done=done)) for pods in fact.pod_sets)
    return replace(fact, counts=counts, pod_sets=pod_sets)


def _gang(text: str | None, parallelism: int, values: UserValues) -> int:
    if text is None:
        return parallelism
    least = number(text)
    if least is None or not 0 < least <= parallelism:
        expected = f"a number from 1 to spec.parallelism ({parallelism})"
        values.refuse(f"metadata.annotations[{names.GROUP_MIN_MEMBER}]", excerpt(text), expected)
        return parallelism
    return least


def _note_problems(spec: WireJobSpec, values: UserValues) -> None:
    """Note why pods of a Job may not be known, or never be made.

    The label that marks a Job's pods is left out where users select them by labels of their own. A Job that also
    selects its pods by the absence of a label loses each pod on which another client writes that label. The job
    controller leaves Jobs alone that name another one.
    """
    if spec.manual_selector:
        expected = "none: a Job's pods are known by the job controller's label"
        values.refuse("spec.manualSelector", "true", expected)
    elif spec.selector is not None and (expressions := spec.selector.match_expressions):
        expected = "none: a Job keeps its pods, whatever other labels they get"
        values.refuse("spec.selector.matchExpressions", str(len(expressions)), expected)
    if spec.managed_by not in (None, names.JOB_CONTROLLER):
        expected = (
            f"none or '{names.JOB_CONTROLLER}': Muster waits for pods that the job controller makes. Leave it out, or "
            "leave out the queue"
        )
        values.refuse("spec.managedBy", excerpt(spec.managed_by), expected)


def interchangeable_pod_sets(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> tuple[PodSet, ...]:
    """The pod sets that a Job asks for. Where any pod takes any seat of its set, with the ordinals that are held, and
    the lowest free ones."""
    fact = inputs.fact
    if fact is None:
        return ()
    if fact.indexed or not (places or any(pods.done or pods.ordinals for pods in fact.pod_sets)):
        return fact.pod_sets
    found = tuple(
        numbered(pods, held, max(pods.count, len(held)))
        for pods in fact.pod_sets
        for held in [_held_ordinals(pods.name, places)]
    )
    return fact.pod_sets if found == fact.pod_sets else found


def _held_ordinals(name: str, places: Sequence[SeatMap]) -> set[int]:
    """Ordinals of the seats of a pod set that are held."""
    return {
        seat.ordinal
        for place in places
        if place.admission.state is AdmissionState.OPEN
        for seat in place.admission.holding()
        if seat.pod_set == name
    }


def _marked(metadata: WireMetadata, reference: WireOwnerReference) -> bool:
    """The job controller lets pods go that lack the label by which its Jobs select theirs."""
    return (metadata.labels or {}).get(names.CONTROLLER_UID) == reference.uid


def read_job(job: WireJob, makers: Collection[ApiResource] = ()) -> WorkloadFact | ChildJob | None:
    """As ``job_fact``, of a Job that waits by itself. One that is made for an object that waits, and names no queue of
    its own, is a part of that; None if its pods do not say of what. ``makers``: kinds of
    objects that wait, whose operators may make Jobs."""
    said = annotation_in(bytes(job.spec.template), names.MEMBER_OF) if is_controlled(job.metadata) else None
    member = membership(said)
    is_part = member is not None or is_made_by(job.metadata, makers)
    if not is_part or _queue_named(job.metadata) is not None:
        return job_fact(job)
    return None if member is None else child_job(job, member)


def child_job(job: WireJob, member: Membership) -> ChildJob:
    """A Job that an operator made for a pod set of a workload."""
    meta, spec, status = job.metadata, job.spec, job.status
    return ChildJob(
        uid=meta.uid,
        namespace=one(meta.namespace),
        name=meta.name,
        created=seconds(meta.creation_timestamp),
        workload=one(member.workload),
        workload_name=one(member.name),
        pod_set=one(member.pod_set),
        counts=_counts(job, 1 if spec.parallelism is None else spec.parallelism),
        active=status.active or 0,
        is_lost=meta.deletion_timestamp is not None
        or any(is_true(status.conditions, kind) for kind in (FAILURE_TARGET, "Failed")),
    )


def batch_job_support(makers: Collection[ApiResource]) -> KindSupport:
    """Jobs of batch/v1. ``makers``: as of ``read_job``."""
    return KindSupport(
        kind=kind_names.JOB,
        resource=JOBS,
        reader=ObjectReader(informer="jobs", wire=WireJob, fact=lambda job, raw: read_job(job, makers)),
        holding=Holding.SUSPENDED,
        status=StatusForm.CONDITION,
        needs_queue=True,
        failing_condition=FAILURE_TARGET,
        controller_of=controlled_by(kind_names.JOB, JOBS, _marked),
        is_by_ordinal=lambda fact: fact is not None and fact.indexed,
        pod_sets=interchangeable_pod_sets,
        pod_set_name=lambda pod, fact: "" if fact is None else MAIN,
    )
