"""Checks between documents that are applied together: definitions that others refer to, and cycles."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from queues.api import names
from queues.api.api_resources import CLAIM_TEMPLATES, ApiResource
from queues.api.check.finding import Finding, Subject
from queues.api.kueue_names import LOCAL_QUEUE
from queues.api.metadata import ObjectMeta
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.hypernode import HyperNode
from queues.api.types.job_flow import JobFlow
from queues.api.types.job_template import JobTemplate
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.types.workload_kind import WorkloadKindDocument, WorkloadKindSpec
from queues.api.validation.cycles import cycles
from queues.api.validation.defaults import namespace_queue
from queues.api.validation.hypernode_rules import inner_hypernodes
from queues.api.validation.known import Known
from queues.api.validation.queued_work import pod_templates
from queues.api.validation.validation import defaulted, kind_of, violations_of
from queues.json_values import list_at, mapping_at, text_at, value_at
from queues.quota.queue import Queue as DomainQueue
from queues.quota.queue import path_upwards
from queues.text_format import excerpt
from queues.workload import QueueName

#: Label that the API server puts on every Namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
#: Priority classes of every cluster.
_SYSTEM_CLASSES: Final = frozenset(("system-cluster-critical", "system-node-critical"))


@dataclass(slots=True)
class Definitions:
    """Queues, topology levels and namespaces' queues that documents define for one another."""

    queues: dict[str, DomainQueue] = field(
        default_factory=lambda: {
            name: DomainQueue(name=QueueName(name)) for name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE)
        }
    )
    #: Whether the documents have Queues at all: then a reference to a queue that is not among them is a finding.
    has_queues: bool = False
    #: Node label keys that are levels of a Topology; None if no document is a Topology.
    levels: frozenset[str] | None = None
    #: Default queues of namespaces.
    namespace_queues: dict[str, str] = field(default_factory=dict)
    #: Namespaces in which Kueue's names count: their LocalQueues and the Queues to which these lead.
    local_queues: dict[str, Mapping[str, str]] = field(default_factory=dict)
    #: Labels of the namespaces among the documents.
    namespace_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    #: Names of priority classes; empty: no document is one.
    priority_classes: set[str] = field(default_factory=set)
    #: Names of ResourceFlavors, and classes of devices that these count; None if no document is a ResourceFlavor.
    flavors: frozenset[str] | None = None
    device_classes: frozenset[str] | None = None
    #: ResourceClaimTemplates by namespace and name, with the classes of devices that they ask for; empty: none.
    claim_templates: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    #: Specs of JobTemplates, by namespace and name.
    job_templates: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    #: Kinds that WorkloadKinds among the documents add.
    kinds: list[WorkloadKindSpec] = field(default_factory=list)

    @classmethod
    def of(cls, subjects: Iterable[Subject]) -> "Definitions":
        """The definitions of all objects. An object that cannot be read defines nothing."""
        found = cls()
        for subject in subjects:
            with suppress(
                ValidationError, AttributeError, TypeError
            ):  # the check of the document itself says so
                found._add(subject)
        return found

    def _add(self, subject: Subject) -> None:
        document, name = subject.value, str(subject.metadata.get("name"))
        match kind_of(document):
            case model if model is QueueDocument:
                self.has_queues = True
                queue = QueueDocument.parse(defaulted(document))
                self.queues[queue.metadata.name] = queue.to_domain()
            case model if model is Topology:
                self.levels = (self.levels or frozenset()) | set(Topology.parse(document).level_keys())
            case model if model is ResourceFlavor:
                self.flavors = (self.flavors or frozenset()) | {name}
                self.device_classes = self.device_classes or frozenset()
                self.device_classes |= set(ResourceFlavor.parse(document).spec.device_classes)
            case model if model is JobTemplate:
                self.job_templates.setdefault(subject.namespace, {})[name] = mapping_at(document, "spec")
            case model if model is WorkloadKindDocument and not violations_of(document):
                self.kinds.append(WorkloadKindDocument.parse(document).spec)
            case None if is_of(document, CLAIM_TEMPLATES):
                self.claim_templates[subject.namespace, name] = classes_of(document)
            case None if document.get("kind") == "Namespace":
                metadata = ObjectMeta.parse(document.get("metadata") or {})
                if default := namespace_queue(metadata.annotations):
                    self.namespace_queues[metadata.name] = default
                if metadata.labels.get(names.KUEUE_NAMES) == "true":
                    self.local_queues[metadata.name] = {
                        key.removeprefix(LOCAL_QUEUE): queue
                        for key, queue in metadata.annotations.items()
                        if key.startswith(LOCAL_QUEUE)
                    }
                # The API server adds the label with the name.
                self.namespace_labels[metadata.name] = {**metadata.labels, _NAME_LABEL: metadata.name}
            case None if document.get("kind") == "PriorityClass":
                self.priority_classes.add(name)

    def queue_of_namespace(self, namespace: str) -> str:
        """The queue of work that names none there, if all work of the namespace waits; "": it does not."""
        gated = self.namespace_labels.get(namespace, {}).get(names.GATED_NAMESPACE)
        queue = self.namespace_queues.get(namespace, "")
        if gated == "true":
            return queue or names.DEFAULT_QUEUE
        return "" if gated == "false" else queue

    def known_to(self, document: Mapping[str, Any]) -> Known:
        """The definitions that count for one document: all queues and levels, and the queue of its namespace."""
        namespace = text_at(document, "metadata", "namespace")
        return Known(
            queues=self.queues,
            levels=self.levels,
            flavors=self.flavors,
            namespace_queue=self.namespace_queues.get(namespace),
            namespace_labels=self.namespace_labels.get(namespace),
            priority_classes=self.priority_classes | _SYSTEM_CLASSES if self.priority_classes else None,
            job_templates=self.job_templates.get(namespace, {}),
            kinds=self.kinds,
        )


def uncounted_devices(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    """ResourceClaimTemplates of pods that the documents do not define, and classes of devices that no flavor counts,
    where they define any."""
    for path, spec in _specs(subject.value):
        for index, claim in enumerate(list_at(spec, "resourceClaims")):
            name = text_at(claim, "resourceClaimTemplateName")
            if not name or not definitions.claim_templates:
                continue
            where = f"{path}.resourceClaims[{index}].resourceClaimTemplateName"
            classes = definitions.claim_templates.get((subject.namespace, name))
            if classes is None:
                expected = (
                    "the name of a ResourceClaimTemplate of its namespace: it is not among these documents"
                )
                yield subject.finding("warning", where, excerpt(name), expected)
            for each in classes or ():
                if definitions.device_classes is not None and each not in definitions.device_classes:
                    found = f"{name} with DeviceClass {excerpt(each)}"
                    expected = (
                        "a class in spec.deviceClasses of a ResourceFlavor, which says as what its devices count:"
                        " no pod in a queue is admitted with another"
                    )
                    yield subject.finding("warning", where, found, expected)


def open_queues(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    """A note about a Queue that any namespace may use, as far as the documents say."""
    if kind_of(subject.value) is not QueueDocument:
        return
    name = QueueName(str(subject.metadata.get("name")))
    path = list(path_upwards(name, definitions.queues.get))
    if not path or path[-1].name != names.ROOT_QUEUE:
        return  # a queue above is not among the documents
    if any(queue.namespace_selector is not None for queue in path):
        return
    found = "nothing here or in a queue above: every namespace may use the queue"
    yield subject.finding("note", "spec.access.namespaceSelector", found, "")


def classes_of(template: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes of devices that a ResourceClaimTemplate asks for. Raises AttributeError, TypeError."""
    requests = ((template.get("spec") or {}).get("spec") or {}).get("devices", {}).get("requests") or ()
    asked = (request.get("exactly") or request for request in requests)
    return tuple(str(each["deviceClassName"]) for each in asked if each.get("deviceClassName"))


def is_of(document: Mapping[str, Any], resource: ApiResource) -> bool:
    """Whether a document is of a kind, in any version of its group."""
    group = str(document.get("apiVersion")).rpartition("/")[0]
    return document.get("kind") == resource.kind and group == resource.group


def _specs(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The spec of an object, and those of its pod templates, with their paths."""
    yield "spec", document.get("spec")
    for path, template in pod_templates(document):
        yield f"{path}.spec", value_at(template, "spec")


def hypernode_cycles(subjects: Iterable[Subject]) -> Iterator[Finding]:
    """Findings for HyperNodes that contain themselves by way of other HyperNodes."""
    members: dict[str, dict[str, int]] = {}
    by_name: dict[str, Subject] = {}
    for subject in subjects:
        if kind_of(subject.value) is HyperNode:
            try:
                hypernode = HyperNode.parse(subject.value)
            except ValidationError:
                continue  # reported by the check of the document itself
            by_name[hypernode.metadata.name] = subject
            members[hypernode.metadata.name] = inner_hypernodes(hypernode)
    for cycle in cycles(members):
        if len(cycle) > 2:  # hypernode_rules reports a HyperNode that names itself
            path = f"spec.members[{members[cycle[0]][cycle[1]]}].selector.exactMatch.name"
            found = f"a HyperNode inside itself: {' → '.join(cycle)}"
            yield by_name[cycle[0]].finding("error", path, found, "HyperNodes that form a tree")


def missing_job_templates(subject: Subject, definitions: Definitions) -> Iterator[Finding]:
    """Findings for a JobFlow with a JobTemplate that the documents do not define, where they define any."""
    if kind_of(subject.value) is not JobFlow or not definitions.job_templates:
        return
    templates = definitions.job_templates.get(subject.namespace, {})
    for index, flow in enumerate(list_at(subject.value, "spec", "flows")):
        if (name := text_at(flow, "name")) and name not in templates:
            expected = "the name of a JobTemplate: it is not among these documents"
            yield subject.finding("warning", f"spec.flows[{index}].name", excerpt(name), expected)
