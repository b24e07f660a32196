"""Fields that are accepted and kept but have no effect yet. ``muster check`` warns of each."""

from collections.abc import Iterable, Iterator
from typing import Any

from queues.api.types.queue import QueueDocument
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.lifecycle_rules import ACTIONS, EVENTS
from queues.api.validation.plugin_flags import unsupported_plugins
from queues.quota.queue import ROOT

#: Events of the whole Job, without effect in the policies of a task.
_OF_JOB = frozenset({"Unknown", "JobUpdated"})
#: The event for which a timeout has no effect: it does not last.
UNTIMED = "JobUpdated"


def unsupported(job: VolcanoJob) -> tuple[str, ...]:
    """Paths of fields of a Volcano Job that have no effect yet."""
    return (*unsupported_fields(job.spec), *unsupported_plugins(job.spec.plugins))


def unsupported_fields(spec: Any) -> tuple[str, ...]:
    """Paths of such fields in the spec of a Volcano Job, plugins left out.

    Reads attributes by their snake_case names, so it takes ``VolcanoJobSpec`` and any other decoding with these names.
    """
    fields = [*_policies(spec.policies, "spec.policies")]
    for index, task in enumerate(spec.tasks):
        path = f"spec.tasks[{index}]"
        fields += _policies(task.policies, f"{path}.policies", _OF_JOB)
        if task.topology_policy not in ("", "none"):
            fields.append(f"{path}.topologyPolicy")
    return tuple(fields)


def unsupported_in_queue(queue: QueueDocument) -> tuple[str, ...]:
    """Paths of fields of a Queue that have no effect yet."""
    spec, is_root = queue.spec, queue.metadata.name == ROOT
    health = spec.policy.health
    fields = (
        ("spec.extendClusters", spec.extend_clusters),
        ("spec.affinity", spec.affinity),
        ("spec.type", spec.type),
        ("spec.dequeueStrategy", spec.dequeue_strategy == "fifo"),
        ("spec.access.admins", is_root and spec.access.admins),
        ("spec.policy.health.recovery", not is_root and health is not None and health.recovery is not None),
    )
    return tuple(path for path, given in fields if given)


def _policies(policies: Iterable[Any], path: str, inert: frozenset[str] = frozenset()) -> Iterator[str]:
    """A policy with a timeout that has no effect is left out whole. ``inert``: events without effect here."""
    for index, policy in enumerate(policies):
        here = f"{path}[{index}]"
        events = {event for event in (*policy.events, policy.event) if event}
        if policy.timeout is not None and UNTIMED in events:
            yield f"{here}.timeout"
            continue
        if policy.action not in ACTIONS:
            yield f"{here}.action {policy.action}"
        for event in sorted(events & inert | events - set(EVENTS)):
            yield f"{here}.event {event}"
