"""``muster check`` for workloads, read as the objects of the cluster are: what starts together, and what never would.

Pure.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from admission.decode.devices.resource_claims import WireResourceClaimTemplate, resource_claim_template_fact
from admission.decode.devices.resource_slices import WireDeviceClass, device_class_fact
from admission.decode.volumes import volumes_of
from admission.facts.volumes import PodVolume, unseen_volumes
from admission.facts.workloads import WorkloadFact
from admission.wire import WirePod
from admission.workloads.kinds import Kinds, KindSupport, known_kinds, read_pod
from admission.workloads.kinds.operators.json_parts import WireOperatorJob
from admission.workloads.kinds.operators.objects import (
    HeldTemplate,
    fact_of,
    problem_of_form,
    written_templates,
)
from queues.api import names
from queues.api.api_resources import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_CLAIMS
from queues.api.check.finding import Finding, Severity, Subject
from queues.api.check.owners import named_queue
from queues.api.reading.dependencies import AFTER_PATH, read_dependencies, unusable_dependency
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.validation.known import Known
from queues.api.validation.pod_rules import template_violations
from queues.api.validation.queued_work import ONLY_MUSTER, template_violations_in_queue
from queues.api.validation.scheduler_fields import reported_violations
from queues.api.validation.size_rules import EqualPods
from queues.api.validation.validation import defaulted, waiting_violations
from queues.api.workload_kinds import PASSING_KINDS
from queues.json_values import text_at, value_at, without_nulls
from queues.reason_codes import ReasonCode
from queues.resources import PODS, show
from queues.text_format import counted, excerpt

#: Kinds that wait as what their operator makes of them, with what there is to know of that.
_PASSED_ON: Final = {(each.resource.api_version, each.resource.kind): each.waits_as for each in PASSING_KINDS}

#: What passes without a change of the object.
_PASSING: Final = (ReasonCode.NOT_ENOUGH_PODS, ReasonCode.OTHER_GATES)

_OF_PODS: Final = "; no pod in a queue is admitted with %s"

_SENTENCE: Final = re.compile(r"(?P<path>[^:]+): found (?P<found>.*), expected (?P<expected>.*)", re.DOTALL)


def check_as_in_cluster(subject: Subject, inherited: str, known: Known) -> list[Finding] | None:
    """Findings about an object as the cluster's objects are read; None if Muster does not act on the kind.

    ``inherited``: the queue of objects in its namespace that name none; "": these do not wait. ``known``: what the
    documents define.
    """
    if (of_devices := _of_device_kind(subject)) is not None:
        return of_devices
    kinds = Kinds(added=tuple(known.kinds)) if known.kinds else known_kinds()
    support = kinds.by_resource.get((subject.value["apiVersion"], subject.value["kind"]))
    if support is None:
        return _of_another_kind(subject, inherited)
    after = list(_of_dependencies(subject, support, kinds))
    if (description := kinds.description_of(support.kind)) is not None:
        return [*after, *_of_operator(subject, description, inherited, known)]
    return [*after, *_of_own_kind(subject, support, inherited)]


def _of_device_kind(subject: Subject) -> list[Finding] | None:
    """Findings about what pods claim devices by: why it cannot be counted. None if it is another kind."""
    match subject.value["apiVersion"], subject.value["kind"]:
        case DEVICE_CLASSES.api_version, DEVICE_CLASSES.kind:
            return _problem_of(subject, WireDeviceClass, device_class_fact, "spec.selectors", "this class")
        case CLAIM_TEMPLATES.api_version, CLAIM_TEMPLATES.kind:
            place = "spec.spec.devices.requests"
            read = resource_claim_template_fact
            return _problem_of(subject, WireResourceClaimTemplate, read, place, "this template")
        case RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.kind:
            expected = f"a ResourceClaimTemplate{_OF_PODS % 'a claim that others may share'}"
            return [subject.finding("warning", "kind", RESOURCE_CLAIMS.kind, expected)]
    return None


def _problem_of(subject: Subject, struct: Any, read: Any, path: str, what: str) -> list[Finding]:
    """A warning: pods outside of queues may use it all the same."""
    try:
        fact = read(msgspec.json.decode(json.dumps(subject.value).encode(), type=struct))
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        return [subject.finding("error", "", str(error), f"a {subject.value['kind']}")]
    before, _, problem = fact.problem.partition("found ")
    if not problem:
        return []
    found, _, expected = problem.partition(", expected ")
    return [subject.finding("warning", path, f"{before}{found}", f"{expected}{_OF_PODS % what}")]


def _of_another_kind(subject: Subject, inherited: str) -> list[Finding] | None:
    version, kind = subject.value["apiVersion"], subject.value["kind"]
    _, named = named_queue(subject.value)
    queue = named or inherited
    if told := _PASSED_ON.get((version, kind)):
        return [
            subject.finding("note", "", f"queue {queue}: {told}", "") if queue else _without_queue(subject)
        ]
    resources = [each.resource for each in known_kinds().descriptions]
    for each in resources:  # in any version
        if (each.group, each.kind) == (version.partition("/")[0], kind):
            return [subject.finding("warning", "apiVersion", excerpt(version), each.api_version)]
    if named:
        supported = ", ".join(sorted(each.kind for each in resources))
        expected = (
            f"one of {supported}, or a kind of which a WorkloadKind is among these documents: objects of others do not"
            " wait; pods wait that name the queue themselves"
        )
        return [subject.finding("warning", "kind", f"{version} {kind} with queue {named}", expected)]
    return None


def _of_dependencies(subject: Subject, support: KindSupport, kinds: Kinds) -> Iterator[Finding]:
    """What is wrong with the annotation that names what the object comes after. A kind may be known to the cluster."""
    text = value_at(subject.metadata, "annotations", names.AFTER)
    named, problem = read_dependencies(text if isinstance(text, str) else None)
    if problem is not None:
        yield subject.finding("error", AFTER_PATH, *problem)
        return
    name = text_at(subject.metadata, "name")
    if (problem := unusable_dependency(named, support.kind, name, kinds.by_kind)) is not None:
        yield subject.finding("warning", AFTER_PATH, *problem)


def _of_own_kind(subject: Subject, support: KindSupport, inherited: str) -> Iterator[Finding]:
    """What a Job, Pod, PodGroup or Volcano Job in a queue would wait for without end, as it is written."""
    raw = json.dumps(without_nulls(defaulted(subject.value))).encode()
    try:
        if support.reader is None:
            pod = msgspec.json.decode(raw, type=WirePod)
            _, queue = named_queue(subject.value)
            obstacle, volumes = read_pod(pod).obstacle, volumes_of(pod.spec)
        else:
            fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
            if not isinstance(fact, WorkloadFact):
                return
            queue, obstacle, volumes = fact.queue or "", fact.obstacle, _volumes_of(fact)
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        yield subject.finding("error", "", str(error), f"a {support.resource.kind}")
        return
    waits = queue or inherited or not support.needs_queue
    if obstacle is not None and waits and obstacle.code not in _PASSING:
        yield _told(subject, "error", obstacle.message)
    if waits and (unseen := unseen_volumes(volumes)):
        yield subject.finding("note", "", unseen, "")


def _volumes_of(fact: WorkloadFact) -> tuple[PodVolume, ...]:
    return tuple(volume for volumes in fact.volumes.values() for volume in volumes)


def _of_operator(
    subject: Subject, description: WorkloadKindSpec, inherited: str, known: Known
) -> Iterator[Finding]:
    try:
        raw = json.dumps(without_nulls(subject.value)).encode()
        job = msgspec.json.decode(raw, type=WireOperatorJob)
        fact = fact_of(description, job)
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        yield subject.finding("error", "", str(error), f"a {description.resource.kind}")
        return
    if not isinstance(fact, WorkloadFact):
        yield subject.finding(
            "note", "metadata.ownerReferences", "an object that waits", "it to wait for both"
        )
        return
    queue = fact.queue or inherited
    told = "" if fact.obstacle is None else fact.obstacle.message
    if told and (queue or problem_of_form(description, job) is not None):
        yield _told(subject, "error", told)
    elif told:  # what only the rules for work in queues refuse starts at once where it names no queue
        yield _told(subject, "note", told, " in a queue")
    for each in written_templates(description, job):
        yield from _of_template(subject, each, told, in_queue=bool(queue))
    if not queue:
        yield _without_queue(subject)
    elif fact.obstacle is None:
        is_whole = fact.minimum >= sum(pods.count for pods in fact.pod_sets)
        together = "all to start together" if is_whole else f"{fact.minimum} of them to start together"
        found = f"{_pods(fact)}, {together}; queue {excerpt(queue)}"
        yield subject.finding("note", "", found, "")
        yield from _without_effect(subject, description, fact)
        yield from _waiting(subject, queue, fact, known)
    if queue and (unseen := unseen_volumes(_volumes_of(fact))):
        yield subject.finding("note", "", unseen, "")


def _waiting(subject: Subject, queue: str, fact: WorkloadFact, known: Known) -> Iterator[Finding]:
    """What it would wait for without end in its queue."""
    is_whole = fact.minimum >= sum(pods.count for pods in fact.pod_sets)
    sets = [
        EqualPods("spec", "spec", pods.count, pods.count if is_whole else 0, pods.takes)
        for pods in fact.pod_sets
    ]
    for found in waiting_violations(queue, fact.namespace, sets, fact.minimum, known):
        yield subject.finding_of(found)


def _without_effect(subject: Subject, description: WorkloadKindSpec, fact: WorkloadFact) -> Iterator[Finding]:
    """Fields by which an operator would have fewer pods start, or another queue, of an object that waits."""
    for field in description.fewer_pods:
        if field.counts:
            continue
        count = sum(
            pods.minimum or pods.count for pods in fact.pod_sets if field.pod_set in ("", pods.name.lower())
        )
        least = value_at(subject.value, *field.at)
        if isinstance(least, int) and not isinstance(least, bool) and least < count:
            expected = (
                f"nothing: Muster does not read it, {count} pods start together. A Volcano Job with minAvailable"
                " starts with fewer, and the others join"
            )
            yield subject.finding("warning", ".".join(field.at), str(least), expected)
    named = text_at(subject.value, *description.other_queue)
    if named and named != fact.queue:
        expected = f"nothing: Muster does not read it, the label {names.QUEUE_LABEL} counts"
        yield subject.finding("warning", ".".join(description.other_queue), excerpt(named), expected)


def _pods(fact: WorkloadFact) -> str:
    told = []
    for pods in fact.pod_sets:
        takes = ", ".join(
            f"{show(name, units)} {name}" for name, units in sorted(pods.takes.items()) if name != PODS
        )
        told.append(f"{counted(pods.count, 'pod')} {pods.name}" + (f" of {takes}" if takes else ""))
    return "; ".join(told)


def _of_template(subject: Subject, held: HeldTemplate, told: str, *, in_queue: bool) -> Iterator[Finding]:
    """Violations in a template. ``told``: the obstacle of its object, which is not repeated."""
    template = json.loads(held.content or b"null")
    if not isinstance(template, Mapping):
        return
    namespace = subject.metadata.get("namespace")
    where = _shown(held.where.split("."))
    violations = template_violations(template, where, namespace if isinstance(namespace, str) else "", None)
    if in_queue:
        violations += template_violations_in_queue(template, where)
        violations += reported_violations(template.get("spec"), f"{where}.spec")
    for found in violations:
        if found.expected != ONLY_MUSTER and f"found {found.found}, expected {found.expected}" not in told:
            yield subject.finding_of(found)


def _shown(path: Sequence[str]) -> str:
    """A place as findings write it: ``spec.replicatedJobs[0].template``."""
    return "".join(f"[{field}]" if field.isdecimal() else f".{field}" for field in path).removeprefix(".")


def _told(subject: Subject, severity: Severity, message: str, where: str = "") -> Finding:
    """An obstacle as a finding. ``where``: where it is one."""
    found = _SENTENCE.fullmatch(message)
    if found is None:
        return subject.finding(severity, "spec", message + where, "what the cluster can run")
    path = _shown(found["path"].split("."))
    expected = found["expected"].removesuffix(".")
    return subject.finding(severity, path, found["found"], f"{expected};{where}" if where else expected)


def _without_queue(subject: Subject) -> Finding:
    expected = f"label {names.QUEUE_LABEL}, for it to wait; without it, it starts at once, except in a gated namespace"
    return subject.finding("note", "metadata.labels", "no queue", expected)
