"""``muster check``: documents are validated together, without a cluster.

Queues, topologies and namespaces that the documents define are known. Others may exist in the cluster, so a reference
to one of them is a warning, not an error.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from queues.api import names
from queues.api.api_resources import (
    BUDGETS,
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    DEVICES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
)
from queues.api.check.cross_checks import (
    Definitions,
    hypernode_cycles,
    missing_job_templates,
    open_queues,
    uncounted_devices,
)
from queues.api.check.document import Document, ReadingProblem, documents_of
from queues.api.check.finding import Finding, Subject
from queues.api.check.kueue_documents import translated
from queues.api.check.own_names import MetadataPlace, metadata_of, names_queue, own_names
from queues.api.check.owners import owner_findings, owner_kind
from queues.api.check.readable_part import readable_part
from queues.api.convert.kueue_types import KUEUE_GROUP, KUEUE_KINDS
from queues.api.metadata_keys import KeyUse
from queues.api.model import Model
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.types.cron_job import VolcanoCronJob
from queues.api.types.job_template import JobTemplate
from queues.api.types.queue import QueueDocument
from queues.api.types.volcano_job import VolcanoJob
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.validation.known import Known
from queues.api.validation.pod_fields import pod_problems
from queues.api.validation.queued_work import (
    ONLY_MUSTER,
    job_violations_in_queue,
    template_violations_in_queue,
)
from queues.api.validation.unsupported import unsupported, unsupported_in_queue
from queues.api.validation.validation import KINDS, kind_of, unknown_fields, violations_of
from queues.api.validation.violations import Violation
from queues.json_values import mapping_at, value_at
from queues.reason_codes import with_advice
from queues.text_format import excerpt

#: The most that etcd stores of one object, and that ``kubectl apply`` can copy into an annotation.
MOST_BYTES = 1_572_864
MOST_ANNOTATION_BYTES = 262_144

#: Kinds that Muster reads in the cluster, besides those that it checks here.
_READ_ELSEWHERE = {
    (each.api_version, each.kind)
    for each in (
        BUDGETS,
        CLAIM_TEMPLATES,
        DEVICE_CLASSES,
        DEVICES,
        LIMIT_RANGES,
        NAMESPACES,
        NODES,
        PRIORITY_CLASSES,
        RESOURCE_CLAIMS,
        RESOURCE_QUOTAS,
        RESOURCE_SLICES,
        RUNTIME_CLASSES,
    )
}

#: In paths of references to objects that may be among the documents, though no Queue is.
_OF_OTHER_OBJECTS = ("topology", "priorityClass")
#: Kinds with pods of their own.
_MAKE_PODS = (VolcanoJob, BatchJob, Pod)
#: Kinds of Volcano that have no effect yet.
_WITHOUT_EFFECT = ("Numatopology", "NodeShard")


#: Findings about an object as the reader of the cluster's objects sees it; None if Muster does not act on the kind. The
#: text is the queue of objects of its namespace that name none; "": they do not wait. And what the documents define.
AsInCluster = Callable[[Subject, str, Known], Sequence[Finding] | None]


def check_documents(
    files: Iterable[tuple[str, str]], as_in_cluster: AsInCluster = lambda subject, queue, known: None
) -> list[Finding]:
    """Findings in files (name, text) that are applied together, by file and line. Never raises, whatever the texts."""
    files = list(files)
    findings, subjects = read_subjects(files)
    order = {file: index for index, (file, _) in reversed(list(enumerate(files)))}
    definitions = Definitions.of(subjects)
    seen: set[tuple[str, ...]] = set()
    for subject in subjects:
        as_created = translated(subject, definitions.local_queues)
        findings += _of_subject(as_created, definitions, seen, as_in_cluster)
    findings += hypernode_cycles(subjects)
    return sorted(findings, key=lambda finding: (order[finding.file], finding.document, finding.line))


def read_subjects(files: Iterable[tuple[str, str]]) -> tuple[list[Finding], list[Subject]]:
    """What cannot be read in files (name, text), and the objects in them. Never raises, whatever the texts."""
    findings: list[Finding] = []
    subjects: list[Subject] = []
    for file, text in files:
        for document in documents_of(text):
            findings += _unreadable_parts(file, document)
            subjects += _subjects(file, document, findings)
    return findings, subjects


def _unreadable_parts(file: str, document: Document) -> Iterator[Finding]:
    problems = document.problems
    if document.value is not None and not isinstance(document.value, dict):
        found, expected = f"a {_type_name(document.value)}", "a mapping with apiVersion, kind and metadata"
        problems = (*problems, ReadingProblem(line=document.line, found=found, expected=expected))
    for problem in problems:
        yield Finding(file=file, document=document.number, severity="error", **asdict(problem))


def _subjects(file: str, document: Document, findings: list[Finding]) -> list[Subject]:
    """The objects of a document: itself, or the items of a List. None if it cannot be read."""
    value = document.value
    if not isinstance(value, dict):
        return []
    whole = Subject(file, document, value)
    items = value.get("items")
    if value.get("kind") != "List" or not isinstance(items, list):
        return [whole]
    found = []
    for index, item in enumerate(items):
        if isinstance(item, dict):
            found.append(Subject(file, document, item, f"items[{index}]"))
        else:
            findings.append(whole.finding("error", f"items[{index}]", f"a {_type_name(item)}", "an object"))
    return found


def _type_name(value: Any) -> str:
    return {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}.get(
        type(value), "value"
    )


def _of_subject(
    subject: Subject, definitions: Definitions, seen: set[tuple[str, ...]], as_in_cluster: AsInCluster
) -> Iterator[Finding]:
    document = subject.value
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            found = excerpt(document[field]) if document.get(field) is not None else "nothing"
            yield subject.finding("error", field, found, "text")
            return
    yield from _size(subject)
    kueue = subject.namespace in definitions.local_queues
    understood = (KeyUse.READ, KeyUse.TRANSLATED) if kueue else (KeyUse.READ,)
    is_added = any(_is_of(each, document) for each in definitions.kinds)
    waits = _waits(subject, definitions)
    yield from own_names(subject, understood, waits=waits, is_of_added_kind=is_added)
    if kind_of(document) is None:
        if (owner := owner_kind(document)) is not None:
            yield from owner_findings(subject, owner, definitions)
            return
        inherited = definitions.queue_of_namespace(subject.namespace)
        findings = as_in_cluster(subject, inherited, definitions.known_to(document))
        yield from _other_kind(subject) if findings is None else findings
        return
    identity = _identity(subject)
    if identity in seen:
        yield subject.finding(
            "warning", "metadata.name", "the same object twice", "one document for each object"
        )
    if identity is not None:
        seen.add(identity)
    yield from _of_known_kind(subject, definitions, as_in_cluster)


def _is_of(kind: WorkloadKindSpec, document: Mapping[str, Any]) -> bool:
    return (kind.resource.api_version, kind.resource.kind) == (document["apiVersion"], document["kind"])


def _of_known_kind(
    subject: Subject, definitions: Definitions, as_in_cluster: AsInCluster
) -> Iterator[Finding]:
    findings = [*_by_rules(subject, definitions)]
    if not any(each.severity == "error" for each in findings):
        queue = definitions.queue_of_namespace(subject.namespace)
        found = as_in_cluster(subject, queue, definitions.known_to(subject.value)) or ()
        # What the API server warns of, the cluster's reader may refuse.
        refused = {(each.path, each.found) for each in found}
        told = {each.found for each in findings if (each.path, each.found) not in refused}
        findings = [each for each in findings if (each.path, each.found) not in refused]
        findings += [each for each in found if each.found not in told]
    yield from findings


def _by_rules(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    document = subject.value
    told: set[str] = set()
    model = KINDS[document["apiVersion"], document["kind"]]
    readable, removed = readable_part(model, document)
    for violation in _violations(document, readable, removed, definitions):
        told.add(violation.path)
        if violation.missing:
            if definitions.has_queues or any(word in violation.path for word in _OF_OTHER_OBJECTS):
                head, _, meant = violation.expected.partition(". ")
                expected = with_advice(f"{head}: it is not among these documents", meant)
                yield subject.finding("warning", violation.path, violation.found, expected)
            continue
        yield subject.finding_of(violation)
    for problem in pod_problems(document) if model in _MAKE_PODS else ():
        if problem.path not in told:
            yield subject.finding_of(problem)
    for violation in _in_queue_violations(subject, definitions):
        if violation.path not in told and violation.expected != ONLY_MUSTER:  # own_names reports these
            yield subject.finding_of(violation)
    yield from _without_queue(subject, definitions)
    yield from uncounted_devices(subject, definitions)
    yield from open_queues(subject, definitions)
    yield from missing_job_templates(subject, definitions)
    for path in unknown_fields(readable):
        yield subject.finding("warning", path, "a field that is not known", "a field of the kind (misspelt?)")
    for path in _unsupported(model, readable):
        if not path.startswith("metadata."):  # own_names reports annotations, with what to write instead
            expected = "nothing: Muster accepts and keeps it, and does not act on it"
            yield subject.finding("warning", path, "a field without effect", expected)


def _violations(
    document: dict[str, Any], readable: dict[str, Any], removed: frozenset[str], definitions: Definitions
) -> Iterator[Violation]:
    """Violations of a document; where a part of it cannot be read, those of the other parts as well.

    Not so in Jobs and pods, where what is left out would be missed elsewhere (a task, in the size of the gang).
    """
    found = violations_of(document, definitions.known_to(document))
    yield from found
    if removed and kind_of(document) not in _MAKE_PODS:
        seen = {violation.path for violation in found}
        for violation in violations_of(readable, definitions.known_to(readable)):
            if violation.path not in seen and not violation.path.startswith(tuple(removed)):
                yield violation


def _in_queue_violations(subject: Subject, definitions: Definitions) -> Iterator[Violation]:
    """Violations of the rules for work in queues, if a Job, a Volcano Job or a Pod waits."""
    model = kind_of(subject.value)
    if model is Pod and _waits(subject, definitions):
        yield from template_violations_in_queue(subject.value, "")
    elif model is VolcanoJob or (model is BatchJob and _waits(subject, definitions)):
        yield from job_violations_in_queue(subject.value)


def _waits(subject: Subject, definitions: Definitions) -> bool:
    """Whether an object waits in a queue, as far as the documents say."""
    return (
        names_queue(subject.metadata, kueue=False)
        or value_at(subject.value, "spec", "schedulerName") == names.VOLCANO_SCHEDULER
        or definitions.queue_of_namespace(subject.namespace) != ""
    )


def _without_queue(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    """A Job or Pod that does not wait, unless its namespace says so, and a Job that would wait for ever."""
    document, metadata = subject.value, subject.metadata
    spec = mapping_at(document, "spec")
    if kind_of(document) not in (BatchJob, Pod) or spec.get("schedulerName") == names.VOLCANO_SCHEDULER:
        return
    if definitions.queue_of_namespace(subject.namespace):
        return
    if spec.get("suspend") is True and not names_queue(metadata, kueue=False):
        expected = f"false, or the label {names.QUEUE_LABEL}: without a queue Muster never resumes this Job"
        yield subject.finding("warning", "spec.suspend", "true", expected)
    elif not names_queue(metadata):
        expected = (
            f"the label {names.QUEUE_LABEL}: without it this runs at once, unless its namespace is gated"
        )
        yield subject.finding("note", "metadata", "no queue", expected)


def _identity(subject: Subject) -> tuple[str, ...] | None:
    """What identifies the object; None if the API server gives it its name."""
    name = subject.metadata.get("name")
    if not name:
        return None
    return tuple(map(str, (subject.value["apiVersion"], subject.value["kind"], subject.namespace, name)))


def _size(subject: Subject) -> Iterator[Finding]:
    size = len(json.dumps(subject.value, separators=(",", ":")))
    if size > MOST_BYTES:
        yield subject.finding(
            "error", "", f"{size} bytes", f"at most {MOST_BYTES}, what the API server stores"
        )
    elif size > MOST_ANNOTATION_BYTES:
        most = f"at most {MOST_ANNOTATION_BYTES} for `kubectl apply`; use `kubectl create` or `--server-side`"
        yield subject.finding("warning", "", f"{size} bytes", most)


def _other_kind(subject: Subject) -> Iterator[Finding]:
    version, kind = subject.value["apiVersion"], subject.value["kind"]
    group = version.partition("/")[0]
    same_kind = sorted(known for known, name in KINDS if name == kind)
    if (version, kind) in _READ_ELSEWHERE:
        return
    if kind in _WITHOUT_EFFECT and group.endswith("volcano.sh"):
        yield subject.finding("warning", "kind", kind, "a kind that Muster acts on; this one it does not yet")
    elif group == KUEUE_GROUP:
        is_known = kind in KUEUE_KINDS
        expected = "what `muster convert` makes of it" if is_known else "nothing: Muster has none"
        yield subject.finding("warning", "kind", f"{kind} of Kueue", expected)
    elif version in {known for known, _ in KINDS} and version not in (names.CORE, names.BATCH):
        kinds = ", ".join(name for known, name in KINDS if known == version)
        yield subject.finding("error", "kind", excerpt(kind), f"one of {kinds}")
    elif same_kind and group in {known.partition("/")[0] for known in same_kind}:
        yield subject.finding("error", "apiVersion", excerpt(version), f"one of {', '.join(same_kind)}")
    elif names_queue(subject.metadata):
        expected = (
            "a kind that Muster acts on: of this one only pods wait, if they name a queue or a PodGroup"
        )
        yield subject.finding("warning", "kind", f"{version} {kind} in a queue"[:120], expected)
    elif group == PRIORITY_CLASSES.group:
        # Kubernetes' own Workloads and PodGroups, for gangs that kube-scheduler starts.
        found = f"{kind} of Kubernetes, which is passed over: kube-scheduler acts on it, Muster does not"
        expected = "a PodGroup of scheduling.volcano.sh/v1beta1 where pods of a queue are to start together"
        yield subject.finding("note", "kind", found[:200], expected)
    elif places := [each.above for each in metadata_of(subject.value) if each.above and _names_queue(each)]:
        found = f"{version} {kind} with a template whose pods wait: they name a queue or a PodGroup"
        yield subject.finding("note", f"{places[0]}metadata", found[:200], "")
    else:
        passed_over = f"{version} {kind}, which is passed over: Muster does not act on it"
        yield subject.finding("note", "kind", passed_over[:200], "")


def _names_queue(place: MetadataPlace) -> bool:
    return isinstance(place.metadata, Mapping) and names_queue(place.metadata, kueue=False)


def _unsupported(model: type[Model], document: dict[str, Any]) -> tuple[str, ...]:
    with suppress(ValidationError):
        match parsed := model.parse(document):
            case VolcanoJob() | JobTemplate():
                return unsupported(VolcanoJob(spec=parsed.spec))
            case VolcanoCronJob():
                of_jobs = unsupported(VolcanoJob(spec=parsed.spec.job_template.spec))
                return tuple(f"spec.jobTemplate.{path}" for path in of_jobs)
            case QueueDocument():
                return unsupported_in_queue(parsed)
    return ()
