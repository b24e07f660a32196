"""``muster convert``: Kueue's queues as Muster's, without a cluster. Volcano's are read as they are."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from queues.api.api_resources import PRIORITY_CLASSES
from queues.api.check.check import read_subjects
from queues.api.check.finding import Finding, Subject
from queues.api.convert.cohorts import KueueQueues, convert_queues
from queues.api.convert.conversion import Conversion, document_of
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
from queues.api.convert.namespaces import by_namespace, convert_namespaces
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.validation import defaulted, unknown_parts, violations_of
from queues.api.validation.violations import of_model
from queues.quota.queue import HIGHEST_USER_PRIORITY, Queue
from queues.text_format import excerpt

#: Kueue's kinds that Muster has nothing for, and what that means.
_NOT_SUPPORTED: Final = {
    "AdmissionCheck": "Muster has no admission checks",
    "ProvisioningRequestConfig": "say policy.provisioning on the Queue instead",
    "MultiKueueConfig": "Muster looks after one cluster",
    "MultiKueueCluster": "Muster looks after one cluster",
}


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
            done.tell("warning", subject, "", kind, f"left out: {_NOT_SUPPORTED[kind]}")
        else:
            done.tell("note", subject, "", excerpt(kind), "left out: nothing that administrators write")
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
            done.tell("error", subject, violation.path, violation.found, f"expected {violation.expected}")
        return
    for path in unknown_parts(parsed, ()):
        instead = "left out: Muster does not know what it means"
        done.tell("warning", subject, path, "a field of Kueue's", instead)
    name = parsed.metadata.name
    key = f"{parsed.metadata.namespace or 'default'}/{name}" if model is LocalQueue else name
    if not name:
        done.tell("error", subject, "metadata.name", "nothing", "expected a name")
        return
    if key in read[model]:
        done.tell("error", subject, "metadata.name", excerpt(name), "give each object once")
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
    as_flavors = convert_flavors(flavors, cluster_queues, done)
    done.documents += [convert_topology(topology) for _, topology in read[KueueTopology].values()]
    for each in read[WorkloadPriorityClass].values():
        done.documents.append(_priority_class(*each, done, kueue_names))
    kueue = KueueQueues(
        cluster_queues=cluster_queues, cohorts=read[Cohort], local_queues=by_queue, as_flavors=as_flavors
    )
    names = convert_queues(kueue, done)
    convert_namespaces(by_namespace(local.values()), names, done, kueue_names=kueue_names)


def _priority_class(
    subject: Subject, priority: WorkloadPriorityClass, done: Conversion, kueue_names: bool
) -> dict[str, Any]:
    name, value = priority.metadata.name, priority.value
    instead = (
        f"write spec.priorityClassName: {name} in pod templates in place of the label "
        "kueue.x-k8s.io/priority-class"
    )
    if not kueue_names:
        done.tell("note", subject, "", "a class for Kueue alone", instead)
    if name.startswith("system-"):
        instead = "rename it: Kubernetes keeps names that begin with system- for itself"
        done.tell("error", subject, "metadata.name", name, instead)
    if value > HIGHEST_USER_PRIORITY:
        instead = f"{HIGHEST_USER_PRIORITY}, the highest that Kubernetes allows"
        done.tell("warning", subject, "value", str(value), instead)
    described = {"description": priority.description} if priority.description else {}
    return document_of(PRIORITY_CLASSES, name, value=min(value, HIGHEST_USER_PRIORITY), **described)


def _tell_others(others: list[Subject], done: Conversion) -> None:
    for subject in others:
        found = f"{subject.value.get('apiVersion')} {subject.value.get('kind')}"
        is_queue = found == f"{SCHEDULING_VOLCANO} Queue"
        what = "Muster reads Volcano's Queues as they are" if is_queue else "not a queue"
        done.tell(
            "note", subject, "", found[:120], f"left out: {what}; `muster check` says what to change in it"
        )
