"""Documents of a user as the API server would store them and Muster would read them, if they were submitted now. Pure.

What the admission policies write (suspended, gated, the queue, who asked), what the admission webhook fills in and
refuses, and the readers of the kinds: the same code as for stored objects wherever there is some. Policies are
expressions inside the API server, so what they do is repeated here.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import msgspec

from admission.decode.fields import explained
from admission.engine.snapshot import Snapshot
from admission.facts.pods import PodFact
from admission.facts.volumes import PodVolume, unseen_volumes
from admission.facts.workloads import WorkloadFact
from admission.wire import WirePod
from admission.workloads.context import Context, in_context
from admission.workloads.kinds import KINDS, KindSupport, read_pod
from queues.api import names
from queues.api.api_resources import POD_GROUPS, PODS, VOLCANO_JOBS
from queues.api.kueue_names import KUEUE_QUEUE
from queues.api.model import excerpt
from queues.api.reading.user_values import LONGEST_NAME, is_dns_name
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.known import Known
from queues.api.validation.pod_fields import pod_problems
from queues.api.validation.validation import defaulted, kind_of, unknown_fields, violations_of
from queues.errors import MusterError
from queues.json_values import mapping_at, value_at
from queues.read_api.trials import SkippedBody, TrialRequestBody
from queues.text_format import rfc3339
from queues.workload import WorkloadKey, WorkloadKind

Document = Mapping[str, Any]

#: Documents of one trial.
MOST_DOCUMENTS: Final = 64
#: Refusals, warnings and unknown fields that are shown of one document.
_MOST_TOLD: Final = 10
#: Uids of objects that are not stored: those of the API server are random.
_UID: Final = "00000000-0000-0000-0000-{:012d}"
#: Stands for what the API server adds to ``generateName``.
_GENERATED: Final = "xxxxx"
#: What only a stored object has.
_OF_STORED: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
#: Kinds for which the admission webhook sees every new object.
_REVIEWED: Final = (VOLCANO_JOBS, POD_GROUPS)
#: Types of fields, as users call them.
_TYPES: Final[Mapping[type, str]] = {Mapping: "a mapping", list: "a list", str: "a string"}
_SUPPORT: Final[Mapping[tuple[str, str], KindSupport]] = {
    (each.resource.api_version, each.resource.kind): each for each in KINDS
}


class NothingToTry(MusterError):
    """None of the documents is of a kind that waits in a queue: found {found}, expected {expected}."""


class UnusableDocument(MusterError):
    """Document {number}: found {found}, expected {expected}."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A document of a kind that waits: where it would be."""

    #: Its number among the documents, from 1.
    number: int
    support: KindSupport
    namespace: str
    name: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """An object that would wait, or why it would not."""

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str
    #: None for a pod without a group, or an object that is refused.
    fact: WorkloadFact | None = None
    #: The pod, or the members of a group.
    pods: tuple[PodFact, ...] = ()
    #: Why the API server would refuse it, or Muster cannot try it.
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: Paths of fields that the kind does not have as far as Muster knows.
    unknown_fields: tuple[str, ...] = ()
    #: A queue that it names, for which it is refused: there is none; "": it is not refused for that.
    missing_queue: str = ""
    #: It names no queue and would not wait.
    is_unmanaged: bool = False

    @property
    def has_pod_rules(self) -> bool:
        """Whether its pods have rules about other pods."""
        sets = () if self.fact is None else self.fact.pod_sets
        return any(pods.rules for pods in sets) or any(pod.shape.rules for pod in self.pods)

    @property
    def key(self) -> WorkloadKey:
        """Of the workload."""
        return WorkloadKey(self.kind, self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What an object meets when it is stored."""

    context: Context
    snapshot: Snapshot
    #: Seconds since the epoch.
    now: int
    #: Kinds that the cluster does not serve.
    absent: frozenset[WorkloadKind] = frozenset()
    #: Scheduler names that mean "through the queues", and the one that binds pods.
    aliases: frozenset[str] = frozenset((names.VOLCANO_SCHEDULER,))
    scheduler: str = names.DEFAULT_SCHEDULER

    def known(self, namespace: str) -> Known:
        """As the admission webhook knows it."""
        return Known(
            queues={str(name): queue for name, queue in self.snapshot.queues.items()},
            levels=frozenset(self.snapshot.nodes.layout.levels),
            namespace_queue=self.context.queues.get(namespace),
            namespace_labels=self.snapshot.namespaces.get(namespace),
            schedulers=(self.scheduler, *self.aliases),
        )


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────


def asked_of(question: TrialRequestBody) -> tuple[list[Asked], list[SkippedBody]]:
    """The documents that wait, each with its place, and the others. Raises NothingToTry and UnusableDocument."""
    asked: list[Asked] = []
    skipped: list[SkippedBody] = []
    for number, document in enumerate(question.documents, 1):
        version, kind = (_text(document, number, each) for each in ("apiVersion", "kind"))
        metadata = document.get("metadata")
        if not isinstance(metadata, Mapping):
            raise UnusableDocument(
                number=number, found="no metadata", expected="a mapping with a name in metadata"
            )
        name = metadata.get("name") or f"{metadata.get('generateName') or ''}{_GENERATED}"
        support = _SUPPORT.get((version, kind))
        if support is None:
            skipped.append(SkippedBody(api_version=version, kind=kind, name=str(name)[:LONGEST_NAME]))
            continue
        namespace = metadata.get("namespace") or question.namespace
        for what, value in (("metadata.name", name), ("metadata.namespace", namespace)):
            if not isinstance(value, str) or not is_dns_name(value):
                raise UnusableDocument(
                    number=number, found=f"{what} {excerpt(value)}", expected="a name that an object can have"
                )
        asked.append(Asked(number, support, namespace, name, dict(document)))
    if not asked:
        found = ", ".join(dict.fromkeys(f"{each.api_version} {each.kind}" for each in skipped)) or "nothing"
        raise NothingToTry(found=found, expected=f"one of {', '.join(sorted({k for _, k in _SUPPORT}))}")
    return asked, skipped


def _text(document: Document, number: int, field: str) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise UnusableDocument(
            number=number, found=f"{field} {excerpt(value)}", expected="apiVersion and kind of an object"
        )
    return value


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Reading:
    """One document on its way."""

    asked: Asked
    question: TrialRequestBody
    cluster: Cluster
    warnings: list[str] = field(default_factory=list)

    @property
    def uid(self) -> str:
        return _UID.format(self.asked.number)

    def refused(self, *refusals: str) -> Submitted:
        return self._submitted(refusals=_first(refusals))

    def unmanaged(self) -> Submitted:
        return self._submitted(is_unmanaged=True)

    def of_fact(self, fact: WorkloadFact) -> Submitted:
        self._warn_of(volume for volumes in fact.volumes.values() for volume in volumes)
        return self._submitted(fact=fact)

    def of_pod(self, pod: PodFact) -> Submitted:
        self._warn_of(pod.volumes)
        return self._submitted(pods=(pod,))

    def _warn_of(self, volumes: Iterable[PodVolume]) -> None:
        if unseen := unseen_volumes(volumes):
            self.warnings.append(unseen)

    def _submitted(self, **more: Any) -> Submitted:
        asked = self.asked
        return Submitted(
            kind=asked.support.kind,
            namespace=asked.namespace,
            name=asked.name,
            uid=self.uid,
            warnings=_first(self.warnings),
            unknown_fields=unknown_fields_of(asked.document),
            **more,
        )


def submitted(question: TrialRequestBody, asked: Sequence[Asked], cluster: Cluster) -> list[Submitted]:
    """What becomes of each document that waits; members of a group are shown with their PodGroup."""
    read = [_read(_Reading(each, question, cluster)) for each in asked]
    groups = {(each.namespace, each.name) for each in read if each.kind is WorkloadKind.POD_GROUP}
    members: dict[tuple[str, str], list[PodFact]] = {}
    for each in read:
        if (group := _group_of(each)) in groups and group is not None:
            members.setdefault(group, []).extend(each.pods)
    found = []
    for each in read:
        group = _group_of(each)
        if group in groups:
            continue
        if group is not None:
            text = (
                f"PodGroup {group[1]} is not among the documents, and a pod alone tells nothing of its gang: "
                "try both together"
            )
            found.append(replace(each, pods=(), refusals=(text,)))
        elif each.kind is WorkloadKind.POD_GROUP:
            pods = sorted(members.get((each.namespace, each.name), ()), key=lambda pod: pod.name)
            unseen = unseen_volumes(volume for pod in pods for volume in pod.volumes)
            warnings = _first([*each.warnings, *([unseen] if unseen else [])])
            found.append(replace(each, pods=tuple(pods), warnings=warnings))
        else:
            found.append(each)
    return found


def _group_of(each: Submitted) -> tuple[str, str] | None:
    """Namespace and name of the group that a pod names. None if it is no pod, or names no group."""
    if each.kind is not WorkloadKind.POD or not each.pods or each.pods[0].group is None:
        return None
    return each.namespace, each.pods[0].group


def _read(reading: _Reading) -> Submitted:
    asked, cluster = reading.asked, reading.cluster
    if refusals := _missing(asked, cluster) or _mistyped(asked):
        return reading.refused(*refusals)
    document = _as_created(reading)
    if asked.support.kind in (WorkloadKind.JOB, WorkloadKind.POD):
        waiting = _made_to_wait(document, reading)
        if waiting is None:
            return reading.unmanaged()
        document = waiting
    elif asked.support.resource in _REVIEWED:
        known = cluster.known(asked.namespace)
        document = defaulted(document, known)
        violations = violations_of(document, known)
        reading.warnings += [each.message for each in violations if each.tolerable]
        if refusals := [each.message for each in violations if not each.tolerable]:
            missing = next((each.missing for each in violations if each.missing), "")
            return replace(reading.refused(*refusals), missing_queue=missing)
    try:
        raw = json.dumps(document).encode()
        if asked.support.resource is PODS:
            return _pod(raw, reading)
        return _workload(raw, reading)
    except msgspec.DecodeError as error:
        return reading.refused(explained(error))


def _missing(asked: Asked, cluster: Cluster) -> list[str]:
    """What the cluster lacks for an object to be stored."""
    if asked.support.kind in cluster.absent:
        resource = asked.support.resource
        what = f"{resource.api_version} {resource.kind}"
        return [f"the cluster does not serve {what}: its operator is not installed"]
    if asked.namespace not in cluster.snapshot.namespaces:
        return [f"there is no namespace {asked.namespace}"]
    return []


def _mistyped(asked: Asked) -> list[str]:
    """Fields that are read before the object is decoded, and whose type the API server refuses."""
    document, support = asked.document, asked.support
    found = [*_mistyped_metadata(document, "")]
    if support.kind not in (WorkloadKind.JOB, WorkloadKind.POD):
        return found
    spec, at = mapping_at(document, "spec"), "spec"
    if support.resource is not PODS:
        found += _other_than(Mapping, spec.get("template"), "spec.template")
        template = mapping_at(spec, "template")
        found += _mistyped_metadata(template, "spec.template.")
        found += _other_than(Mapping, template.get("spec"), "spec.template.spec")
        spec, at = mapping_at(template, "spec"), "spec.template.spec"
    found += _other_than(list, spec.get("schedulingGates"), f"{at}.schedulingGates")
    return [*found, *_other_than(str, spec.get("schedulerName"), f"{at}.schedulerName")]


def _mistyped_metadata(of: Document, before: str) -> Iterator[str]:
    metadata = of.get("metadata")
    yield from _other_than(Mapping, metadata, f"{before}metadata")
    for field_name in ("labels", "annotations"):
        said, path = value_at(metadata, field_name), f"{before}metadata.{field_name}"
        yield from _other_than(Mapping, said, path)
        for key, value in mapping_at(said).items():
            yield from _other_than(str, value, f"{path}[{str(key)[:LONGEST_NAME]}]")


def _other_than(expected: type, value: Any, path: str) -> Iterator[str]:
    """A refusal if there is a value of another type."""
    if value is not None and not isinstance(value, expected):
        yield f"{path}: found {excerpt(value)}, expected {_TYPES[expected]}"


def _workload(raw: bytes, reading: _Reading) -> Submitted:
    support = reading.asked.support
    assert support.reader is not None, "pods are read apart"
    fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
    if not isinstance(fact, WorkloadFact) or fact.stands_for is not None:
        return reading.refused("another object, which owns this one, waits for it")
    read = in_context(fact, reading.cluster.context)
    assert isinstance(read, WorkloadFact)
    if read.queue is None and support.needs_queue:
        return reading.unmanaged()
    if read.conduct.ignored:
        return reading.refused(*read.conduct.ignored)
    if support.holding.is_suspended:
        read = replace(read, suspended=True)
    return reading.of_fact(read)


def _pod(raw: bytes, reading: _Reading) -> Submitted:
    pod = in_context(read_pod(msgspec.json.decode(raw, type=WirePod)), reading.cluster.context)
    assert isinstance(pod, PodFact)
    if pod.conduct.ignored:
        return reading.refused(*pod.conduct.ignored)
    return reading.of_pod(pod)


def _as_created(reading: _Reading) -> dict[str, Any]:
    """The document as an object that was just created by the user, in the queue that they ask for."""
    asked, question = reading.asked, reading.question
    metadata = {key: each for key, each in asked.document["metadata"].items() if key not in _OF_STORED}
    labels, annotations = (_own_left_out(metadata.get(each)) for each in ("labels", "annotations"))
    annotations[names.USER] = question.user
    if question.queue and not _is_member(asked, annotations):
        labels[names.QUEUE_LABEL] = question.queue
    metadata |= {
        "name": asked.name,
        "namespace": asked.namespace,
        "uid": reading.uid,
        "generation": 1,
        "creationTimestamp": rfc3339(reading.cluster.now),
        "labels": labels,
        "annotations": annotations,
    }
    document = {key: each for key, each in asked.document.items() if key != "status"}
    return {**document, "metadata": metadata}


def _is_member(asked: Asked, annotations: Mapping[str, Any]) -> bool:
    """Whether it is a pod of a group, which is in the group's queue."""
    group = names.GROUP_ANNOTATION in annotations or names.GROUP_ANNOTATION_VOLCANO in annotations
    return asked.support.resource is PODS and group


def _own_left_out(said: Any) -> dict[str, Any]:
    """Labels or annotations without those that only Muster writes."""
    if not isinstance(said, Mapping):
        return {}
    return {str(key): each for key, each in said.items() if key not in names.OWN_NAMES}


# ── what the admission policies do ──────────────────────────────────────────────────────────────────────────


def _made_to_wait(document: dict[str, Any], reading: _Reading) -> dict[str, Any] | None:
    """A Job suspended, or a pod gated, in its queue, as ``admission/kube/policies/documents/waiting.yaml`` does it.

    None if it does not wait.
    """
    is_pod = reading.asked.support.resource is PODS
    metadata, spec = document["metadata"], document.get("spec")
    if not isinstance(spec, Mapping):
        return document  # refused for it
    of = document if is_pod else mapping_at(spec, "template")
    labels, annotations = metadata["labels"], metadata["annotations"]
    cluster = reading.cluster
    of_namespace = cluster.snapshot.namespaces.get(reading.asked.namespace, {})
    is_gated = of_namespace.get(names.GATED_NAMESPACE) == "true"
    kueue = labels.get(KUEUE_QUEUE) if of_namespace.get(names.KUEUE_NAMES) == "true" else None
    queues = (
        labels.get(names.QUEUE_LABEL),
        annotations.get(names.QUEUE_ANNOTATION),
        labels.get(names.QUEUE_ANNOTATION),
        kueue,
    )
    queue = next((each for each in queues if each), None)
    waits = bool(labels.get(names.QUEUE_LABEL) or kueue or is_gated or _is_of_volcano(of, cluster))
    if not is_pod:
        waits = waits or queue is not None
    if not waits:
        return None
    queue = queue or cluster.context.queues.get(reading.asked.namespace) or names.DEFAULT_QUEUE
    if not _is_member(reading.asked, annotations):
        metadata = {**metadata, "labels": {**labels, names.QUEUE_LABEL: queue}}
    spec = dict(spec)
    if is_pod:
        gates = spec.get("schedulingGates")
        others = [each for each in gates if each != {"name": names.GATE}] if isinstance(gates, list) else []
        spec["schedulingGates"] = [*others, {"name": names.GATE}]
        _note_priority(spec, reading)
    else:
        spec["suspend"] = True
        if spec.get("parallelism") is None and spec.get("completions") is None:
            spec |= {"parallelism": 1, "completions": 1}
    return {**document, "metadata": metadata, "spec": spec}


def _note_priority(spec: dict[str, Any], reading: _Reading) -> None:
    """The priority that the API server gives a pod by its class."""
    context, name = reading.cluster.context, spec.get("priorityClassName")
    if not name:
        spec["priority"] = context.default_priority
        preempts = context.default_preempts
    elif isinstance(name, str) and name in context.priorities:
        spec["priority"] = context.priorities[name]
        preempts = name not in context.never_preempting
    else:
        return
    if not preempts:
        spec["preemptionPolicy"] = "Never"


def _is_of_volcano(of: Document, cluster: Cluster) -> bool:
    """Whether a pod, or a template, asks for an aliased scheduler; or for ours, and names a Volcano queue or group."""
    metadata, spec = mapping_at(of, "metadata"), mapping_at(of, "spec")
    labels, annotations = mapping_at(metadata, "labels"), mapping_at(metadata, "annotations")
    scheduler = spec.get("schedulerName") or cluster.scheduler
    keys = (names.QUEUE_ANNOTATION, names.GROUP_ANNOTATION, names.GROUP_ANNOTATION_VOLCANO)
    named = any(key in annotations for key in keys) or bool(labels.get(names.QUEUE_ANNOTATION))
    return scheduler in cluster.aliases or (scheduler == cluster.scheduler and named)


def _first(sentences: Sequence[str]) -> tuple[str, ...]:
    more = len(sentences) - _MOST_TOLD
    return tuple(sentences) if more <= 0 else (*sentences[:_MOST_TOLD], f"and {more} more")


def resources_of(asked: Sequence[Asked]) -> Iterator[tuple[KindSupport, str]]:
    """Kinds and namespaces that a trial is about, each once."""
    yield from {
        (str(each.support.kind), each.namespace): (each.support, each.namespace) for each in asked
    }.values()


def unknown_fields_of(document: dict[str, Any]) -> tuple[str, ...]:
    """Paths of fields that Muster does not know; a later version of Kubernetes may.

    The plugin asks the API server itself, in a dry run as the user. This is for other clients of the read API:
    an API server drops such fields, or refuses them, as the client that submits the object asks it to.
    """
    return tuple(islice(dict.fromkeys(_unknown(document)), _MOST_TOLD))


def _unknown(document: dict[str, Any]) -> Iterator[str]:
    yield from unknown_fields(document)
    if kind_of(document) in (BatchJob, VolcanoJob, Pod):
        yield from (each.path for each in pod_problems(document) if each.tolerable)
