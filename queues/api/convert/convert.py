"""``muster convert``: Kueue's queues as Muster's, without a cluster. Volcano's are read as they are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml
from pydantic import ValidationError

from queues.api.check.check import read_subjects
from queues.api.check.finding import Finding, Subject
from queues.api.convert.cohorts import KueueQueues, convert_queues
from queues.api.convert.flavors import convert_flavors, convert_topology
from queues.api.convert.kueue_types import (
    KUEUE_GROUP,
    KUEUE_KINDS,
    ClusterQueue,
    Cohort,
    KueueFlavor,
    KueueTopology,
    LocalQueue,
    WorkloadPriorityClass,
)
from queues.api.convert.namespaces import by_namespace, namespaces
from queues.api.crd import PlainDumper
from queues.api.model import excerpt
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.validation import defaulted, unknown_parts, violations_of
from queues.api.validation.violations import of_model
from queues.quota.queue import HIGHEST_USER_PRIORITY, Queue

#: Kueue's kinds that Muster has nothing for, and what that means.
_NOT_SUPPORTED: Final = {
    "AdmissionCheck": "Muster has no admission checks",
    "ProvisioningRequestConfig": "say policy.provisioning on the Queue instead",
    "MultiKueueConfig": "Muster looks after one cluster",
    "MultiKueueCluster": "Muster looks after one cluster",
}


@dataclass(slots=True)
class Conversion:
    """Documents of Muster in the order to apply them in, and what differs. With an error: no documents.

    A difference is a field that has another effect, or none; ``expected`` is what happens instead, or what to do. A
    note needs nothing to be done about it, but says what was decided or what users now write.
    """

    documents: list[dict[str, Any]] = field(default_factory=list)
    differences: list[Finding] = field(default_factory=list)

    def has_errors(self) -> bool:
        """Whether something was found that cannot be converted."""
        return any(each.severity == "error" for each in self.differences)

    def as_yaml(self) -> str:
        """The documents, after the warnings as comments."""
        warnings = [f"# {comment_of(each)}\n" for each in self.differences if each.severity == "warning"]
        head = ["# Written by `muster convert`. What differs:\n", *warnings] if warnings else []
        parts = [
            yaml.dump(document, Dumper=PlainDumper, sort_keys=False, width=100, allow_unicode=True)
            for document in self.documents
        ]
        return "".join(head) + "---\n".join(parts)


def comment_of(difference: Finding) -> str:
    """A difference on one line, without its place."""
    what = " ".join(part for part in (difference.subject, difference.path) if part)
    line = f"{what}{': ' if what else ''}found {difference.found}; {difference.expected}"
    # Names may have any character; YAML has no place for some of them, not even in comments.
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in " ".join(line.split())
    )


def line_of(difference: Finding) -> str:
    """A difference on one line, with its place; none if it is of a document that was converted."""
    where = f"{difference.file}:{difference.line}: " if difference.file else ""
    return f"{where}{difference.severity}: {comment_of(difference)}"


def convert_documents(files: Iterable[tuple[str, str]], *, kueue_names: bool = False) -> Conversion:
    """Muster's objects for those in files (name, text). Never raises, whatever the texts.

    ``kueue_names``: Kueue's names on jobs count in the namespaces of its LocalQueues.
    """
    findings, subjects = read_subjects(files)
    done = Conversion()
    done.differences += [
        replace(finding, severity="error", expected=f"expected {finding.expected}") for finding in findings
    ]
    read: dict[type, dict[str, tuple[Subject, Any]]] = {model: {} for model in KUEUE_KINDS.values()}
    others: list[Subject] = []
    for subject in subjects:
        group = str(subject.value.get("apiVersion")).partition("/")[0]
        kind = str(subject.value.get("kind"))
        if group != KUEUE_GROUP:
            others.append(subject)
        elif kind in KUEUE_KINDS:
            _read(subject, KUEUE_KINDS[kind], read, done)
        elif kind in _NOT_SUPPORTED:
            done.differences.append(subject.finding("warning", "", kind, f"left out: {_NOT_SUPPORTED[kind]}"))
        else:
            done.differences.append(
                subject.finding("note", "", excerpt(kind), "left out: nothing that administrators write")
            )
    _convert(read, done, kueue_names)
    _tell_others(others, done)
    for document in done.documents:
        done.differences += _wrong(document, NOTHING_KNOWN)
    if not done.has_errors():
        known = Known(queues=_tree(done.documents))
        for document in done.documents:
            done.differences += _wrong(document, known)
    order = {subject.file: index for index, subject in reversed(list(enumerate(subjects)))}
    done.differences.sort(key=lambda each: (order.get(each.file, -1), each.line))
    if done.has_errors():
        done.documents.clear()
    return done


def _read(
    subject: Subject, model: type[Any], read: dict[type, dict[str, tuple[Subject, Any]]], done: Conversion
) -> None:
    try:
        parsed = model.parse(subject.value)
    except ValidationError as error:
        for violation in of_model(error):
            instead = f"expected {violation.expected}"
            done.differences.append(subject.finding("error", violation.path, violation.found, instead))
        return
    for path in unknown_parts(parsed, ()):
        instead = "left out: Muster does not know what it means"
        done.differences.append(subject.finding("warning", path, "a field of Kueue's", instead))
    name = parsed.metadata.name
    key = f"{parsed.metadata.namespace or 'default'}/{name}" if model is LocalQueue else name
    if not name:
        done.differences.append(subject.finding("error", "metadata.name", "nothing", "expected a name"))
        return
    if key in read[model]:
        instead = "give each object once"
        done.differences.append(subject.finding("error", "metadata.name", excerpt(name), instead))
    read[model][key] = (subject, parsed)


def _tree(documents: list[dict[str, Any]]) -> dict[str, Queue]:
    """The Queues among documents that have no error of their own, by name."""
    queues = [
        QueueDocument.read(defaulted(each)).to_domain() for each in documents if each["kind"] == "Queue"
    ]
    return {queue.name: queue for queue in queues}


def _wrong(document: dict[str, Any], known: Known) -> Iterator[Finding]:
    """Errors of a converted document: what Kueue takes and Muster does not, such as an amount that is too large.

    ``known``: the queues of all documents, to compare parents with children. A parent may be in the cluster.
    """
    found = [
        (violation.path, violation.found, f"expected {violation.expected}")
        for violation in violations_of(document, known)
        if not violation.tolerable and not violation.missing
    ]
    if not found and document["kind"] == "Queue":
        broken = QueueDocument.read(document).to_domain().broken
        found = [("", "a queue that cannot be used", broken)] if broken else []
    for path, what, instead in found:
        yield Finding(
            file="",
            document=0,
            line=0,
            severity="error",
            subject=f"{document['kind']} {document['metadata']['name']}",
            path=path,
            found=what,
            expected=instead,
        )


def _convert(read: dict[type, dict[str, tuple[Subject, Any]]], done: Conversion, kueue_names: bool) -> None:
    local: dict[str, tuple[Subject, LocalQueue]] = read[LocalQueue]
    by_queue: dict[str, list[LocalQueue]] = {}
    for _, queue in local.values():
        by_queue.setdefault(queue.spec.cluster_queue, []).append(queue)
    flavors: dict[str, tuple[Subject, KueueFlavor]] = read[KueueFlavor]
    cluster_queues: dict[str, tuple[Subject, ClusterQueue]] = read[ClusterQueue]
    cohorts: dict[str, tuple[Subject, Cohort]] = read[Cohort]
    converted = convert_flavors(flavors, cluster_queues)
    queues = convert_queues(
        KueueQueues(
            cluster_queues=cluster_queues,
            cohorts=cohorts,
            local_queues=by_queue,
            as_flavors=converted.as_flavors,
        )
    )
    topologies: dict[str, tuple[Subject, KueueTopology]] = read[KueueTopology]
    done.documents += converted.documents
    done.documents += [convert_topology(topology) for _, topology in topologies.values()]
    done.documents += [
        _priority_class(*each, done, kueue_names) for each in read[WorkloadPriorityClass].values()
    ]
    done.documents += queues.documents
    done.differences += [*converted.differences, *queues.differences]
    members = by_namespace(local.values())
    done.documents += namespaces(members, queues.names, done.differences, kueue_names=kueue_names)


def _priority_class(
    subject: Subject, priority: WorkloadPriorityClass, done: Conversion, kueue_names: bool
) -> dict[str, Any]:
    name, value = priority.metadata.name, priority.value
    instead = (
        f"write spec.priorityClassName: {name} in pod templates in place of the label "
        "kueue.x-k8s.io/priority-class"
    )
    if not kueue_names:
        done.differences.append(subject.finding("note", "", "a class for Kueue alone", instead))
    if name.startswith("system-"):
        instead = "rename it: Kubernetes keeps names that begin with system- for itself"
        done.differences.append(subject.finding("error", "metadata.name", name, instead))
    if value > HIGHEST_USER_PRIORITY:
        instead = f"{HIGHEST_USER_PRIORITY}, the highest that Kubernetes allows"
        done.differences.append(subject.finding("warning", "value", str(value), instead))
    document: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": min(value, HIGHEST_USER_PRIORITY),
    }
    return {**document, "description": priority.description} if priority.description else document


def _tell_others(others: list[Subject], done: Conversion) -> None:
    for subject in others:
        is_queue = (subject.value.get("apiVersion"), subject.value.get("kind")) == (
            SCHEDULING_VOLCANO,
            "Queue",
        )
        what = "Muster reads Volcano's Queues as they are" if is_queue else "not a queue"
        instead = f"left out: {what}; `muster check` says what to change in it"
        found = f"{subject.value.get('apiVersion')} {subject.value.get('kind')}"[:120]
        done.differences.append(subject.finding("note", "", found, instead))
