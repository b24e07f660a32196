"""What documents that are applied together define for one another, and what is wrong only between them."""

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
class Together:
    """What the documents define for one another."""

    queues: Mapping[str, DomainQueue]
    #: Whether any Queue is among the documents: then one that is not deserves a word.
    tell_queues: bool
    levels: frozenset[str] | None
    namespaces: Mapping[str, str]

    @classmethod
    def of(cls, subjects: Iterable[Subject]) -> "Together":
        """From all of them. What cannot be read defines nothing."""
        queues = {name: DomainQueue(name=QueueName(name)) for name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE)}
        tell, levels, namespaces = False, set[str](), dict[str, str]()
        for subject in subjects:
            document = subject.value
            try:
                match kind_of(document):
                    case model if model is QueueDocument:
                        tell = True
                        queue = QueueDocument.model_validate(
                            defaulted(document), by_alias=True, by_name=False
                        )
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
        """What is known where this one of them is checked."""
        metadata = document.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        inherited = self.namespaces.get(namespace) if isinstance(namespace, str) else None
        return Known(queues=self.queues, levels=self.levels, namespace_queue=inherited)


def circles(subjects: Iterable[Subject]) -> Iterator[Finding]:
    """HyperNodes that are inside themselves by way of others."""
    members: dict[str, dict[str, int]] = {}
    by_name: dict[str, Subject] = {}
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
