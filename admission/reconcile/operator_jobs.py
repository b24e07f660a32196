"""What is written to objects that operators make pods of: their resumption, with the queue in their templates. Pure."""

from collections.abc import Mapping
from typing import Any

from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds.members import member_text
from queues.api import names
from queues.api.types.workload_kind import Path
from queues.api.workload_kinds import OPERATOR_KINDS
from queues.workload import QueueName

_SUSPEND = {description.kind: description.suspend for description in OPERATOR_KINDS}


def suspend_of(fact: WorkloadFact) -> Path:
    """Fields from an object to the one that suspends it."""
    return _SUSPEND.get(fact.key.kind, ("spec", "suspend"))


def resumed(fact: WorkloadFact, queue: QueueName) -> Mapping[str, Any]:
    """The changes that resume an object: its pods come up gated, and say which pod set they are of."""
    changes: dict[str, Any] = {}
    _put(changes, suspend_of(fact), False)
    templates = () if fact.revision is None else fact.revision.templates
    for pods, path in zip(fact.pod_sets, templates, strict=False):
        member = member_text(fact.key, fact.name, pods.name)
        written = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {names.MEMBER_OF: member}}
        if path[-1].isdecimal():
            # Elements of a list are replaced with all of it: the first of them makes it.
            infos = path[:-1]
            _put(changes, infos, [*(_at(changes, infos) or ()), written])
        else:
            _put(changes, path, written)
    return changes


def suspended(fact: WorkloadFact) -> Mapping[str, Any]:
    """The changes that suspend an object."""
    changes: dict[str, Any] = {}
    _put(changes, suspend_of(fact), True)
    return changes


def _at(changes: Mapping[str, Any], path: Path) -> Any:
    found: Any = changes
    for field in path:
        found = None if found is None else found.get(field)
    return found


def _put(changes: dict[str, Any], path: Path, value: Any) -> None:
    for field in path[:-1]:
        changes = changes.setdefault(field, {})
    changes[path[-1]] = value
