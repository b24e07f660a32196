"""Checks between documents that are applied together: definitions that others refer to, and cycles."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from queues.api import names
from queues.api.check.finding import Finding, Subject
from queues.api.types.hypernode import HyperNode
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.validation.cycles import cycles
from queues.api.validation.defaults import namespace_queue
from queues.api.validation.hypernode_rules import inner_hypernodes
from queues.api.validation.validation import Known, defaulted, kind_of
from queues.quota.queue import Queue as DomainQueue
from queues.workload import QueueName


@dataclass(frozen=True, slots=True)
class Definitions:
    """Queues, topology levels and namespaces' queues that documents define for one another."""

    queues: Mapping[str, DomainQueue]
    #: Whether the documents have Queues at all: then a reference to a queue that is not among them is a finding.
    has_queues: bool
    #: Node label keys that are levels of a Topology; None: no document is one.
    levels: frozenset[str] | None
    #: Default queues of namespaces.
    namespace_queues: Mapping[str, str]

    @classmethod
    def of(cls, subjects: Iterable[Subject]) -> "Definitions":
        """The definitions of all objects. An object that cannot be read defines nothing."""
        queues = {name: DomainQueue(name=QueueName(name)) for name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE)}
        has_queues, levels, namespace_queues = False, set[str](), dict[str, str]()
        for subject in subjects:
            document = subject.value
            try:
                match kind_of(document):
                    case model if model is QueueDocument:
                        has_queues = True
                        queue = QueueDocument.parse(defaulted(document))
                        queues[queue.metadata.name] = queue.to_domain()
                    case model if model is Topology:
                        topology = Topology.parse(document)
                        levels |= set(topology.level_keys())
                    case None if document.get("kind") == "Namespace":
                        metadata = document.get("metadata") or {}
                        if name := namespace_queue(metadata.get("annotations")):
                            namespace_queues[str(metadata.get("name"))] = name
            except (ValidationError, AttributeError, TypeError):
                continue  # reported by the check of the document itself
        return cls(queues, has_queues, frozenset(levels) if levels else None, namespace_queues)

    def known_to(self, document: Mapping[str, Any]) -> Known:
        """The definitions that count for one document: all queues and levels, and the queue of its namespace."""
        metadata = document.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        inherited = self.namespace_queues.get(namespace) if isinstance(namespace, str) else None
        return Known(queues=self.queues, levels=self.levels, namespace_queue=inherited)


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
