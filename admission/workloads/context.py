"""What other objects say about a fact: values of priority classes, default queues, levels of the topology. Pure.

It is added to what the object itself says, so that it can be added again when those others change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.decode.topology_requests import Tiers, in_tiers
from admission.facts import Fact, PodFact, WorkloadFact
from admission.workloads.kinds import support_of
from queues.api import names
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What other objects say about a fact."""

    #: Value of each priority class.
    priorities: Mapping[str, int] = field(default_factory=dict)
    #: Value of the class that is the cluster's default.
    default_priority: int = 0
    #: Default queue by namespace.
    queues: Mapping[str, QueueName] = field(default_factory=dict)
    #: Node label keys of the topology, outermost first, the host last.
    levels: tuple[str, ...] = ()
    #: Tiers of the HyperNodes, ascending, and those that have a name.
    hypernodes: tuple[int, ...] = ()
    tier_names: tuple[tuple[str, int], ...] = ()


def in_context(fact: Fact, context: Context) -> Fact:
    """The fact with what other objects say about it; the same object when they say nothing."""
    if isinstance(fact, PodFact):
        if not fact.gated or fact.queue is not None:
            return fact
        default = context.queues.get(fact.namespace)
        return fact if default is None else replace(fact, queue=default)
    if not isinstance(fact, WorkloadFact):
        return fact
    queue = fact.queue or context.queues.get(fact.namespace)
    if queue is None and not support_of(fact.key).needs_queue:
        queue = QueueName(names.DEFAULT_QUEUE)
    priority, obstacle = _priority(fact, context)
    fact = in_tiers(fact, Tiers(context.levels, context.hypernodes, context.tier_names))
    if (queue, priority, obstacle) == (fact.queue, fact.priority, fact.obstacle):
        return fact
    return replace(fact, queue=queue, priority=priority, obstacle=obstacle)


def _priority(fact: WorkloadFact, context: Context) -> tuple[int, Obstacle | None]:
    if not fact.priority_class:
        return context.default_priority, fact.obstacle
    value = context.priorities.get(fact.priority_class)
    if value is not None:
        return value, fact.obstacle
    message = f"priority class {fact.priority_class} does not exist; create it or name another"
    return context.default_priority, fact.obstacle or Obstacle(ReasonCode.UNKNOWN_PRIORITY_CLASS, message)
