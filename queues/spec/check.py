"""``muster check``: documents validated offline, together, without a cluster.

What other documents of the same call define (queues, topologies, namespaces) is known; what they do not
define may exist in the cluster, so that a reference to it is a warning, not an error.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from queues.queue import Queue as DomainQueue
from queues.spec import names
from queues.spec.cycles import cycles
from queues.spec.defaults import namespace_queue
from queues.spec.document import Document, documents_of
from queues.spec.hypernode import HyperNode
from queues.spec.hypernode_rules import inner_hypernodes
from queues.spec.model import shown
from queues.spec.queue import Queue
from queues.spec.topology import Topology
from queues.spec.unsupported import unsupported, unsupported_in_queue
from queues.spec.validation import KINDS, Known, defaulted, kind_of, unknown_fields, violations_of
from queues.spec.volcano_job import VolcanoJob
from queues.workload import QueueName

Severity = Literal["error", "warning", "note"]

#: What etcd stores of one object, and what ``kubectl apply`` copies into an annotation.
MOST_BYTES = 1_572_864
MOST_ANNOTATION_BYTES = 262_144

#: Kinds of Volcano's that come later.
_LATER = ("CronJob", "JobFlow", "JobTemplate", "Command", "Numatopology", "NodeShard")
_OURS = frozenset(
    (
        names.QUEUE_LABEL,
        names.GATED_NAMESPACE,
        names.REQUIRED_TOPOLOGY,
        names.PREFERRED_TOPOLOGY,
        names.PARTITIONS,
        names.TOGETHER,
        names.BALANCED,
        names.SHARES_DEVICES,
        names.RUN_TIME,
        names.CHECKPOINT_INTERVAL,
        names.MIN_RUN_TIME,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to say about one document."""

    file: str
    #: 1-based position in the file.
    document: int
    #: 1-based.
    line: int
    severity: Severity
    #: ``Job team-a/train``, or "" if it cannot be told.
    subject: str = ""
    path: str = ""
    found: str
    expected: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: document {self.document}"
        what = " ".join(part for part in (self.subject, self.path) if part)
        what = f"{what}: " if what else ""
        return f"{where}: {self.severity}: {what}found {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """A document with where it is; an item of a List has a path of its own."""

    file: str
    document: Document
    value: dict[str, Any]
    above: str = ""

    @property
    def name(self) -> str:
        metadata = self.value.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        name = metadata.get("name") or metadata.get("generateName") or "?"
        namespace = metadata.get("namespace")
        return f"{self.value.get('kind')} {f'{namespace}/' if namespace else ''}{name}"[:160]

    def finding(self, severity: Severity, path: str, found: str, expected: str) -> Finding:
        whole = f"{self.above}.{path}" if self.above and path else self.above or path
        return Finding(
            file=self.file,
            document=self.document.number,
            line=self.document.line_of(whole),
            severity=severity,
            subject=self.name,
            path=whole,
            found=found,
            expected=expected,
        )


def check_text(text: str, file_name: str) -> list[Finding]:
    """What there is to say about one file. Never raises, whatever the text."""
    return check_documents([(file_name, text)])


def check_documents(files: Iterable[tuple[str, str]]) -> list[Finding]:
    """What there is to say about files (name, text) that are meant to be applied together."""
    findings: list[Finding] = []
    subjects: list[_Subject] = []
    order: dict[str, int] = {}
    for file, text in files:
        order.setdefault(file, len(order))
        for document in documents_of(text):
            findings += _troubles(file, document)
            if document.value is not None:
                subjects += _subjects(file, document, findings)
    known = _Together.of(subjects)
    seen: set[tuple[str, ...]] = set()
    for subject in subjects:
        findings += _of_subject(subject, known, seen)
    findings += _circles(subjects)
    return sorted(findings, key=lambda one: (order[one.file], one.document, one.line))


def _troubles(file: str, document: Document) -> Iterator[Finding]:
    for trouble in document.troubles:
        yield Finding(
            file=file,
            document=document.number,
            line=trouble.line,
            severity="error",
            path=trouble.path,
            found=trouble.found,
            expected=trouble.expected,
        )


def _subjects(file: str, document: Document, findings: list[Finding]) -> list[_Subject]:
    """The objects of a document: itself, or the items of a List."""
    value = document.value
    if not isinstance(value, dict):
        findings.append(
            Finding(
                file=file,
                document=document.number,
                line=document.line,
                severity="error",
                found=f"a {_form(value)}",
                expected="a mapping with apiVersion, kind and metadata",
            )
        )
        return []
    whole = _Subject(file, document, value)
    items = value.get("items")
    if value.get("kind") != "List" or not isinstance(items, list):
        return [whole]
    found = []
    for index, item in enumerate(items):
        if isinstance(item, dict):
            found.append(_Subject(file, document, item, f"items[{index}]"))
        else:
            findings.append(whole.finding("error", f"items[{index}]", f"a {_form(item)}", "an object"))
    return found


def _form(value: Any) -> str:
    return {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}.get(
        type(value), "value"
    )


@dataclass(frozen=True, slots=True)
class _Together:
    """What the documents define for one another."""

    queues: Mapping[str, DomainQueue]
    #: Whether any Queue is among the documents: then one that is not deserves a word.
    tell_queues: bool
    levels: frozenset[str] | None
    namespaces: Mapping[str, str]

    @classmethod
    def of(cls, subjects: Iterable[_Subject]) -> "_Together":
        queues = {name: DomainQueue(name=QueueName(name)) for name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE)}
        tell, levels, namespaces = False, set[str](), dict[str, str]()
        for subject in subjects:
            document = subject.value
            try:
                match kind_of(document):
                    case model if model is Queue:
                        tell = True
                        queue = Queue.model_validate(defaulted(document), by_alias=True, by_name=False)
                        queues[queue.metadata.name] = queue.to_domain()
                    case model if model is Topology:
                        topology = Topology.model_validate(document, by_alias=True, by_name=False)
                        levels |= set(topology.level_keys())
                    case None if document.get("kind") == "Namespace":
                        metadata = document.get("metadata") or {}
                        if name := namespace_queue(metadata.get("annotations")):
                            namespaces[str(metadata.get("name"))] = name
            except (ValidationError, AttributeError, TypeError):
                continue  # said where the document itself is checked
        return cls(queues, tell, frozenset(levels) if levels else None, namespaces)

    def known(self, document: Mapping[str, Any]) -> Known:
        metadata = document.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        inherited = self.namespaces.get(namespace) if isinstance(namespace, str) else None
        return Known(queues=self.queues, levels=self.levels, namespace_queue=inherited)


def _of_subject(subject: _Subject, together: _Together, seen: set[tuple[str, ...]]) -> Iterator[Finding]:
    document = subject.value
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            yield subject.finding("error", field, shown(document.get(field)), "text")
            return
    yield from _size(subject)
    yield from _own_names(subject)
    if kind_of(document) is None:
        yield from _other_kind(subject)
        return
    identity = _identity(document)
    if identity in seen:
        yield subject.finding(
            "warning", "metadata.name", "the same object twice", "one document for each object"
        )
    seen.add(identity)
    for violation in violations_of(document, together.known(document)):
        if violation.missing:
            if together.tell_queues or "topology" in violation.path:
                expected = f"{violation.expected}: it is not among these documents"
                yield subject.finding("warning", violation.path, violation.found, expected)
            continue
        severity: Severity = "warning" if violation.tolerable else "error"
        yield subject.finding(severity, violation.path, violation.found, violation.expected)
    for path in unknown_fields(document):
        yield subject.finding("warning", path, "a field that is not known", "a field of the kind (misspelt?)")
    for path in _unsupported(document):
        yield subject.finding(
            "warning", path, "a field that does nothing yet", "nothing: it is accepted and kept"
        )


def _circles(subjects: Iterable[_Subject]) -> Iterator[Finding]:
    """HyperNodes that are inside themselves by way of others."""
    members: dict[str, dict[str, int]] = {}
    by_name: dict[str, _Subject] = {}
    for subject in subjects:
        if kind_of(subject.value) is HyperNode:
            try:
                hypernode = HyperNode.model_validate(subject.value, by_alias=True, by_name=False)
            except ValidationError:
                continue  # said where the document itself is checked
            by_name[hypernode.metadata.name] = subject
            members[hypernode.metadata.name] = inner_hypernodes(hypernode)
    for way in cycles(members):
        if len(way) > 2:  # of one that names itself its own rules tell
            path = f"spec.members[{members[way[0]][way[1]]}].selector.exactMatch.name"
            found = f"a HyperNode inside itself: {' → '.join(way)}"
            yield by_name[way[0]].finding("error", path, found, "HyperNodes that form a tree")


def _identity(document: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or object()
    return tuple(
        str(part)
        for part in (document["apiVersion"], document["kind"], metadata.get("namespace") or "default", name)
    )


def _size(subject: _Subject) -> Iterator[Finding]:
    size = len(json.dumps(subject.value, separators=(",", ":")))
    if size > MOST_BYTES:
        yield subject.finding(
            "error", "", f"{size} bytes", f"at most {MOST_BYTES}, what the API server stores"
        )
    elif size > MOST_ANNOTATION_BYTES:
        most = f"at most {MOST_ANNOTATION_BYTES} for `kubectl apply`; use `kubectl create` or `--server-side`"
        yield subject.finding("warning", "", f"{size} bytes", most)


def _own_names(subject: _Subject) -> Iterator[Finding]:
    """Of the object, and of the pods that are made of it."""
    for place, field, key in _keys_of_metadata(subject.value):
        where = f"{place}metadata.{field}[{key}]"
        if key in names.OWN_NAMES:
            yield subject.finding("error", where, key, "nothing: only Muster writes it")
        elif isinstance(key, str) and key.startswith("muster.dev/") and key not in _OURS:
            known = ", ".join(sorted(_OURS))
            yield subject.finding("warning", where, key, f"one of {known} (misspelt?)")


def _keys_of_metadata(value: Any) -> Iterator[tuple[str, str, Any]]:
    spec = _member(value, "spec")
    tasks = _member(spec, "tasks")
    templates = [("spec.template.", _member(spec, "template"))] + [
        (f"spec.tasks[{number}].template.", _member(task, "template"))
        for number, task in enumerate(tasks if isinstance(tasks, list) else ())
    ]
    for place, holder in [("", value), *templates]:
        for field in ("labels", "annotations"):
            keys = _member(_member(holder, "metadata"), field)
            for key in keys if isinstance(keys, Mapping) else ():
                yield place, field, key


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _other_kind(subject: _Subject) -> Iterator[Finding]:
    version, kind = subject.value["apiVersion"], subject.value["kind"]
    same_kind = sorted(known for known, name in KINDS if name == kind)
    if kind in _LATER and version.partition("/")[0].endswith("volcano.sh"):
        yield subject.finding("warning", "kind", kind, "a kind that Muster acts on; this one it does not yet")
    elif version in {known for known, _ in KINDS} and version not in (names.CORE, names.BATCH):
        kinds = ", ".join(name for known, name in KINDS if known == version)
        yield subject.finding("error", "kind", shown(kind), f"one of {kinds}")
    elif same_kind and version.partition("/")[0] in {known.partition("/")[0] for known in same_kind}:
        yield subject.finding("error", "apiVersion", shown(version), f"one of {', '.join(same_kind)}")
    else:
        yield subject.finding("note", "kind", f"{version} {kind}", "a kind of Muster's; passed over")


def _unsupported(document: dict[str, Any]) -> tuple[str, ...]:
    try:
        parsed = KINDS[document["apiVersion"], document["kind"]].model_validate(
            document, by_alias=True, by_name=False
        )
    except ValidationError:
        return ()
    match parsed:
        case VolcanoJob():
            return unsupported(parsed)
        case Queue():
            return unsupported_in_queue(parsed)
        case _:
            return ()


def errors_only(findings: Iterable[Finding]) -> list[Finding]:
    """Those for which the documents would be refused or could not run."""
    return [finding for finding in findings if finding.severity == "error"]
