"""The rules of every kind, behind one function: a document → its violations. Pure: the cluster is an argument."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from queues.api.bounds import Excess, excesses, within_bounds
from queues.api.model import Model, path_of
from queues.api.names import (
    BATCH,
    BATCH_VOLCANO,
    BUS_VOLCANO,
    CORE,
    DEFAULT_QUEUE,
    FLOW_VOLCANO,
    GATED_NAMESPACE,
    MUSTER,
    QUEUE_ANNOTATION,
    QUEUE_LABEL,
    SCHEDULING_VOLCANO,
    TOPOLOGY_VOLCANO,
)
from queues.api.reading.user_values import SUBDOMAIN, is_dns_name, is_label_key
from queues.api.resource_names import EXTENDED_EXPECTED, doubt_about, is_extended, meant_by
from queues.api.schedules.cron_job_rules import cron_job_violations
from queues.api.schedules.job_flow_rules import job_flow_violations, job_template_violations
from queues.api.schedules.job_patch import spec_for
from queues.api.schedules.made_jobs import made_job
from queues.api.types.admission_check import AdmissionCheck, CheckRequest
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.types.command import CommandDocument
from queues.api.types.cron_job import VolcanoCronJob
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.hypernode import HyperNode
from queues.api.types.job_flow import JobFlow
from queues.api.types.job_template import JobTemplate
from queues.api.types.node_closures import NodeDrain, Reservation
from queues.api.types.podgroup import PodGroup
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.types.volcano_job import VolcanoJob
from queues.api.types.workload_kind import WorkloadKindDocument
from queues.api.validation import defaults
from queues.api.validation.closures.closure_rules import drain_violations, reservation_violations
from queues.api.validation.command_rules import command_violations
from queues.api.validation.hypernode_rules import hypernode_violations
from queues.api.validation.job_rules import (
    class_reference_violations,
    job_violations,
    misread_zeros,
    queue_reference_violations,
    size_warnings,
)
from queues.api.validation.kind_rules import kind_violations
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.pod_rules import (
    annotation_violations,
    pod_violations,
    template_violations,
    toleration_violations,
)
from queues.api.validation.podgroup_rules import podgroup_violations
from queues.api.validation.queue_rules import queue_violations
from queues.api.validation.queued_work import pod_templates
from queues.api.validation.run_time_rules import run_time_violations
from queues.api.validation.scheduler_fields import other_scheduler, reported_violations
from queues.api.validation.size_rules import (
    EqualPods,
    NodeAmounts,
    job_pods,
    pods_of,
    size_violations,
    whole_job_warning,
)
from queues.api.validation.violations import Violation, label_violations, limit_violations, of_model
from queues.json_values import mapping_at, value_at
from queues.quota.access import access_refusal
from queues.quota.queue import Queue as DomainQueue
from queues.quota.queue import path_upwards
from queues.text_format import excerpt
from queues.workload import QueueName

#: (apiVersion, kind) → model.
KINDS: Mapping[tuple[str, str], type[Model]] = {
    (BATCH_VOLCANO, "Job"): VolcanoJob,
    (BATCH_VOLCANO, "CronJob"): VolcanoCronJob,
    (BUS_VOLCANO, "Command"): CommandDocument,
    (FLOW_VOLCANO, "JobFlow"): JobFlow,
    (FLOW_VOLCANO, "JobTemplate"): JobTemplate,
    (SCHEDULING_VOLCANO, "PodGroup"): PodGroup,
    (SCHEDULING_VOLCANO, "Queue"): QueueDocument,
    (TOPOLOGY_VOLCANO, "HyperNode"): HyperNode,
    (MUSTER, "ResourceFlavor"): ResourceFlavor,
    (MUSTER, "Topology"): Topology,
    (MUSTER, "Reservation"): Reservation,
    (MUSTER, "NodeDrain"): NodeDrain,
    (MUSTER, "WorkloadKind"): WorkloadKindDocument,
    (MUSTER, "AdmissionCheck"): AdmissionCheck,
    (MUSTER, "CheckRequest"): CheckRequest,
    (BATCH, "Job"): BatchJob,
    (CORE, "Pod"): Pod,
}

#: Kinds whose rules are about other objects: what was wrong before may be so by another object now.
_OF_ADMINISTRATORS: Final = (QueueDocument, Reservation, NodeDrain)
#: Volcano Jobs, and kinds that these are made from.
_MAKES_JOBS: Final = (VolcanoJob, VolcanoCronJob, JobTemplate, JobFlow)
#: Warnings about fields that are passed over, of one object.
_MOST_REPORTED: Final = 20
#: The path of violations that follow from the labels of an object's namespace.
NAMESPACE: Final = "metadata.namespace"
#: Where an object's metadata names its queue; the first that is given counts.
_QUEUE_NAMES = (("labels", QUEUE_LABEL), ("annotations", QUEUE_ANNOTATION))


def kind_of(document: Mapping[str, Any]) -> type[Model] | None:
    """The model of a document; None if Muster does not check the kind."""
    version, kind = document.get("apiVersion"), document.get("kind")
    return KINDS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None


def defaulted(document: dict[str, Any], known: Known = NOTHING_KNOWN) -> dict[str, Any]:
    """The document with its defaults filled in, as the mutating webhook does."""
    match kind_of(document):
        case model if model is VolcanoJob:
            return defaults.defaulted_job(document, namespace_queue=known.namespace_queue)
        case model if model is PodGroup:
            return defaults.defaulted_podgroup(document, namespace_queue=known.namespace_queue)
        case model if model is QueueDocument:
            return defaults.defaulted_queue(document)
        case _:
            return document


def violations_of(
    document: dict[str, Any], known: Known = NOTHING_KNOWN, *, old: dict[str, Any] | None = None
) -> list[Violation]:
    """Violations of a document with its defaults filled in; of a kind that Muster does not check: none.

    ``old``: the object that the document replaces; None if it is a new object. An update that does not change the spec
    has no violations, so that labels, finalizers and statuses stay writable whatever rules came later. Nor is a
    workload refused for what was wrong before and is wrong in the same way.
    """
    model = kind_of(document)
    if model is None or (old is not None and old.get("spec") == document.get("spec")):
        return []
    if model in (BatchJob, Pod):
        return _violations_within(document, model, known, old)
    # What is stored beyond a bound may stay as it is, as for the API server.
    document, beyond = within_bounds(document, model)
    stored = excesses(old, model) if old is not None and beyond else []
    if new := [_beyond(excess) for excess in beyond if excess not in stored]:
        return new
    warned = [replace(_beyond(excess), tolerable=True) for excess in beyond]
    found = _violations_within(document, model, known, old)
    if old is None:
        return warned + found
    if found and model not in _OF_ADMINISTRATORS:
        before = set(_violations_within(old, model, known, old))
        found = [violation for violation in found if violation.tolerable or violation not in before]
    return [*warned, *found]


def _violations_within(
    document: dict[str, Any], model: type[Model], known: Known, old: dict[str, Any] | None
) -> list[Violation]:
    """Violations of a document that is within its bounds, whether it is created so or changed."""
    try:
        parsed = model.parse(defaulted(document, known))
    except ValidationError as error:
        return of_model(error)
    if (
        old is not None
        and isinstance(parsed, VolcanoJob | PodGroup)
        and value_at(old, "spec", "queue") == value_at(document, "spec", "queue")
    ):
        known = replace(known, queues=None)  # it is in that queue already, even if the queue is closed by now
    found = [*_metadata(parsed), *(misread_zeros(document) if model in _MAKES_JOBS else ())]
    if isinstance(parsed, Reservation | NodeDrain):
        found += _closure_violations(parsed, known, document, old)
    else:
        found += _RULES[model](parsed, known)
        for place, workload in _workloads(parsed, known):
            is_template = workload is not parsed
            found += _of_workload(workload, place, known, may_wait=is_template or old is not None)
        found += islice(_reported(document, parsed, known), _MOST_REPORTED)
    found = list(dict.fromkeys(found))  # flows of one JobFlow may have the same
    return found if old is None else _but_for_old(found, old)


def _but_for_old(found: Sequence[Violation], old: dict[str, Any]) -> list[Violation]:
    """Violations of a change; those that the object had before and may keep are warnings."""
    if not any(each.may_stay and not each.tolerable for each in found):
        return list(found)
    before = {(each.found, each.expected) for each in violations_of(old) if each.may_stay}
    return [
        replace(each, tolerable=True) if each.may_stay and (each.found, each.expected) in before else each
        for each in found
    ]


def _beyond(excess: Excess) -> Violation:
    return Violation(excess.path, f"{excess.found} {excess.unit}", f"at most {excess.most}")


def unknown_fields(document: dict[str, Any]) -> tuple[str, ...]:
    """Paths of unknown fields, which are kept but may be misspelt. Parts without a model are not searched."""
    model = kind_of(document)
    if model is None or model in (BatchJob, Pod):
        return ()
    try:
        parsed = model.parse(document)
    except ValidationError:
        return ()
    return tuple(unknown_parts(parsed, ()))


def unknown_parts(part: Any, at: tuple[str | int, ...]) -> Iterator[str]:
    """Paths of unknown fields in a part of a document, which lies at ``at``. Metadata and status are not searched."""
    if isinstance(part, BaseModel):
        for key in part.model_extra or ():
            if at[:1] not in (("metadata",), ("status",)):
                yield path_of((*at, key))
        for name, field in type(part).model_fields.items():
            yield from unknown_parts(getattr(part, name), (*at, field.alias or name))
    elif isinstance(part, tuple):
        for index, entry in enumerate(part):
            yield from unknown_parts(entry, (*at, index))


def _closure_violations(
    parsed: Reservation | NodeDrain, known: Known, document: dict[str, Any], old: dict[str, Any] | None
) -> Iterator[Violation]:
    is_new = old is None
    # What is moved has to begin later, as what is made; what has begun may be made longer.
    is_moved = any(value_at(old, "spec", key) != value_at(document, "spec", key) for key in ("from", "at"))
    if isinstance(parsed, Reservation):
        return reservation_violations(parsed, known, is_new=is_new, is_moved=is_moved)
    return drain_violations(parsed, known, is_new=is_new, is_moved=is_moved)


def _metadata(document: Any) -> Iterator[Violation]:
    metadata = document.metadata
    for field, key in _QUEUE_NAMES:
        queue = getattr(metadata, field).get(key)
        if queue is not None and SUBDOMAIN.fullmatch(queue) is None:
            yield Violation(f"metadata.{field}[{key}]", excerpt(queue), "the name of a Queue")
    gated = metadata.labels.get(GATED_NAMESPACE)
    if gated not in (None, "true", "false"):
        yield Violation(f"metadata.labels[{GATED_NAMESPACE}]", excerpt(gated), "'true' or 'false'")


def _workloads(parsed: Model, known: Known) -> Iterator[tuple[str, Any]]:
    """The workload that an object is, or those that it is the template of, with their places in the object; what cannot
    be read has none. Flows without a patch are left out: their JobTemplate says the same; of equal names one counts.
    """
    made: list[tuple[str, Mapping[str, Any], Any]] = []
    match parsed:
        case VolcanoCronJob(spec=spec):
            template = spec.job_template.document()
            made = [("spec.jobTemplate", template.get("metadata") or {}, template.get("spec"))]
        case JobTemplate(spec=spec):
            made = [("", {}, spec.document())]
        case JobFlow(spec=spec):
            made = [
                (f"spec.flows[{index}].patch", {}, spec_for(flow, known.job_templates[name]))
                for name, (index, flow) in {
                    each.name: (at, each) for at, each in enumerate(spec.flows)
                }.items()
                if flow.patch is not None and name in known.job_templates
            ]
        case _:
            yield "", parsed
            return
    for place, named, job_spec in made:
        metadata = {**named, "namespace": parsed.metadata.namespace}
        job = made_job(metadata, job_spec, namespace_queue=known.namespace_queue)
        with suppress(ValidationError):
            yield place, VolcanoJob.parse(job)


def _of_workload(workload: Any, place: str, known: Known, *, may_wait: bool) -> Iterator[Violation]:
    """What a workload would wait for without end in its queue. ``place``: where the object has it; "": it is one.

    New objects of Volcano's kinds are refused, as for a queue that does not exist, unless they ``may_wait``. Others
    wait until that changes.
    """
    queue = _queue_of(workload, known)
    path = _path_of(queue, known)
    sets, together = pods_of(workload)
    if isinstance(workload, BatchJob):  # of other kinds their own rules say it
        yield from size_warnings(sum(each.pods for each in sets), sets[0].path)
        if queue is not None:
            pods, is_whole_by_default = job_pods(workload, path)
            sets, together = [pods], pods.minimum
            if is_whole_by_default and not may_wait:
                yield whole_job_warning(pods)
    may_wait = may_wait or not isinstance(workload, VolcanoJob | PodGroup)
    found = list(run_time_violations(workload, path, tolerable=may_wait)) if path else []
    found += size_violations(sets, together, path, _nodes(known, path), known.growth or ())
    for each in found:
        yield each.below(place)
    yield from access_violations(queue, workload.metadata.namespace, known, tolerable=may_wait)


def waiting_violations(
    queue: str, namespace: str, sets: Sequence[EqualPods], together: int, known: Known
) -> Iterator[Violation]:
    """Warnings about pods of a kind without rules of its own: what they would wait for without end in a queue.

    ``sets``, ``together``: as of ``pods_of``.
    """
    path = _path_of(queue, known)
    yield from size_violations(sets, together, path, _nodes(known, path), known.growth or ())
    yield from access_violations(queue, namespace, known, tolerable=True)


def access_violations(
    queue: str | None, namespace: str, known: Known, *, tolerable: bool
) -> Iterator[Violation]:
    """The violation of work in a queue that its namespace may not use; none if it may, or if that is not known."""
    path = _path_of(queue, known)
    if queue is None or known.queues is None or known.namespace_labels is None:
        return
    refusal = access_refusal(path, known.namespace_labels)
    if refusal is not None:
        found = f"{namespace}, which has {refusal.labels}"
        expected = (
            f"a namespace with {refusal.selector}, as access.namespaceSelector of queue {refusal.by} says; name another"
            " queue, or ask an administrator to label the namespace or to change the selector"
        )
        yield Violation(NAMESPACE, found, expected, tolerable=tolerable)


def _nodes(known: Known, path: Sequence[DomainQueue]) -> NodeAmounts | None:
    return known.amounts() if known.amounts is not None and known.growth is not None and path else None


def _path_of(name: str | None, known: Known) -> list[DomainQueue]:
    """A queue and those above it, nearest first; empty: there is none, or they are not known."""
    return [] if name is None else list(path_upwards(QueueName(name), (known.queues or {}).get))


def _reported(document: Mapping[str, Any], parsed: Model, known: Known) -> Iterator[Violation]:
    """Warnings about fields of pods in queues that placement passes over, and about unknown priority classes."""
    if isinstance(parsed, BatchJob | Pod) and _queue_of(parsed, known) is None:
        return
    if isinstance(parsed, Pod):
        yield from reported_violations(document.get("spec"), "spec", known.schedulers)
    if isinstance(parsed, Pod | PodGroup):
        yield from class_reference_violations(document.get("spec"), known, "spec")
    if not isinstance(parsed, BatchJob | VolcanoJob | VolcanoCronJob | JobTemplate):
        return
    holder, place = document, ""
    if isinstance(parsed, VolcanoCronJob):
        holder, place = mapping_at(document, "spec", "jobTemplate"), "spec.jobTemplate."
    if not isinstance(parsed, BatchJob):
        other = other_scheduler(mapping_at(holder, "spec"), f"{place}spec", known.schedulers)
        yield from () if other is None else (other,)
    yield from class_reference_violations(value_at(holder, "spec"), known, f"{place}spec")
    for path, template in pod_templates(holder):
        spec = value_at(template, "spec")
        yield from reported_violations(spec, f"{place}{path}.spec", known.schedulers)
        yield from class_reference_violations(spec, known, f"{place}{path}.spec")


def _queue_of(document: Any, known: Known) -> str | None:
    """The queue that an object waits in, as far as the object and its namespace say; None if it waits in none."""
    if isinstance(document, VolcanoJob | PodGroup):
        return document.spec.queue or DEFAULT_QUEUE
    if not isinstance(document, BatchJob | Pod):
        return None
    named = (getattr(document.metadata, field).get(key) for field, key in _QUEUE_NAMES)
    return next((name for name in named if name), known.namespace_queue)


def _batch_job(job: BatchJob, known: Known) -> Iterator[Violation]:
    yield from _named_queue(job, known)
    yield from annotation_violations(job.metadata.annotations, "metadata.annotations", known.levels)
    yield from template_violations(job.spec.template, "spec.template", job.metadata.namespace, known.levels)
    policy = value_at(job.spec.template, "spec", "restartPolicy")
    if policy not in ("OnFailure", "Never"):
        yield Violation("spec.template.spec.restartPolicy", excerpt(policy), "OnFailure or Never")
    if job.spec.completion_mode == "Indexed" and job.spec.completions is None:
        yield Violation("spec.completions", "nothing", "a number, since the Job is Indexed")


def _pod(pod: Pod, known: Known) -> Iterator[Violation]:
    yield from _named_queue(pod, known)
    yield from annotation_violations(pod.metadata.annotations, "metadata.annotations", known.levels)
    yield from pod_violations(pod.spec, "spec", pod.metadata.namespace)


def _named_queue(document: BatchJob | Pod, known: Known) -> Iterator[Violation]:
    for field, key in _QUEUE_NAMES:
        if name := getattr(document.metadata, field).get(key):
            path = f"metadata.{field}[{key}]"
            return queue_reference_violations(name, known, path)
    return iter(())


def _flavor(flavor: ResourceFlavor, known: Known) -> Iterator[Violation]:
    yield from label_violations(flavor.spec.node_labels, "spec.nodeLabels", "a node label key")
    for name, resource in flavor.spec.device_classes.items():
        path = f"spec.deviceClasses[{excerpt(name)}]"
        if not is_dns_name(name):
            yield Violation(path, excerpt(name), "the name of a DeviceClass", may_stay=True)
        if not is_extended(resource):
            meant = meant_by(resource)
            yield Violation(
                path, excerpt(resource), f"{meant}?" if meant else EXTENDED_EXPECTED, may_stay=True
            )
        elif problem := doubt_about(resource):
            yield Violation(path, *problem, tolerable=True)
    yield from limit_violations(flavor.spec.may_grow, "spec.mayGrow")
    yield from toleration_violations(flavor.spec.tolerations, "spec.tolerations")
    for index, toleration in enumerate(flavor.spec.tolerations):
        if toleration.key and not is_label_key(toleration.key):
            yield Violation(f"spec.tolerations[{index}].key", excerpt(toleration.key), "the key of a taint")
    if not flavor.spec.node_labels:
        yield Violation(
            "spec.nodeLabels", "nothing", "labels; without any no node is of this flavor", tolerable=True
        )


def _topology(topology: Topology, known: Known) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, level in enumerate(topology.spec.levels):
        path = f"spec.levels[{index}].nodeLabel"
        if not is_label_key(level.node_label):
            yield Violation(path, excerpt(level.node_label), "a node label key", may_stay=True)
        elif level.node_label in seen:
            yield Violation(
                path, excerpt(level.node_label), "a label that is not a level before", may_stay=True
            )
        seen.add(level.node_label)


_RULES: Mapping[type[Model], Callable[[Any, Known], Any]] = {
    VolcanoJob: job_violations,
    VolcanoCronJob: cron_job_violations,
    JobFlow: job_flow_violations,
    JobTemplate: job_template_violations,
    PodGroup: podgroup_violations,
    QueueDocument: queue_violations,
    CommandDocument: lambda command, _: command_violations(command),
    HyperNode: lambda hypernode, _: hypernode_violations(hypernode),
    ResourceFlavor: _flavor,
    Topology: _topology,
    WorkloadKindDocument: lambda document, _: kind_violations(document),
    AdmissionCheck: lambda check, _: (),
    CheckRequest: lambda request, _: (),
    BatchJob: _batch_job,
    Pod: _pod,
}
