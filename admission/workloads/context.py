"""What other objects say about a fact: values of priority classes, default queues, levels of the topology. Pure.

It is added to what the object itself says, so that it can be added again when those others change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.decode.topology_requests import NO_TIERS, Tiers, in_tiers
from admission.facts.changes import Fact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import Holding, support_of
from queues.api import names
from queues.api.reading.user_values import QUEUE_EXPECTED
from queues.reason_codes import ReasonCode
from queues.text_format import unknown_name
from queues.versioned_map import differing
from queues.workload import UNUSABLE_QUEUE, Obstacle, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What other objects say about a fact."""

    #: Value of each priority class.
    priorities: Mapping[str, int] = field(default_factory=dict)
    #: Value of the class that is the cluster's default.
    default_priority: int = 0
    #: False: that class says ``preemptionPolicy: Never``.
    default_preempts: bool = True
    #: Priority classes that say so.
    never_preempting: frozenset[str] = frozenset()
    #: Default queue by namespace; ``UNUSABLE_QUEUE``: the namespace names one that cannot exist.
    queues: Mapping[str, QueueName] = field(default_factory=dict)
    #: Namespaces in migration mode, and when it ends or ended (seconds).
    adopt_until: Mapping[str, int] = field(default_factory=dict)
    #: Levels of the topology, and tiers of the HyperNodes.
    tiers: Tiers = NO_TIERS

    def classes_for_users(self) -> dict[str, int]:
        """Value of each priority class that users may name."""
        return {name: value for name, value in self.priorities.items() if not name.startswith("system-")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChange:
    """Which facts may be others in one context than in another. Nothing else has to be looked at again."""

    #: All workloads and pods of these namespaces.
    namespaces: frozenset[str] = frozenset()
    #: All workloads of these priority classes.
    classes: frozenset[str] = frozenset()
    every_workload: bool = False
    #: The priority classes that there are now, which workloads of an unknown one name; None if they are as before.
    listed: frozenset[str] | None = None

    @classmethod
    def between(cls, before: Context, after: Context) -> "ContextChange":
        """What differs between two contexts."""
        classes = {
            *differing(before.priorities, after.priorities),
            *(before.never_preempting ^ after.never_preempting),
        }
        for_all = [(each.default_priority, each.default_preempts, each.tiers) for each in (before, after)]
        return cls(
            namespaces=frozenset(
                {*differing(before.queues, after.queues), *differing(before.adopt_until, after.adopt_until)}
            ),
            classes=frozenset(classes),
            every_workload=for_all[0] != for_all[1],
            listed=frozenset(after.priorities)
            if before.priorities.keys() != after.priorities.keys()
            else None,
        )

    def is_about(self, fact: WorkloadFact) -> bool:
        """Whether a workload may be another one."""
        name = fact.priority_class
        is_unknown = bool(name) and self.listed is not None and name not in self.listed
        return self.every_workload or is_unknown or fact.namespace in self.namespaces or name in self.classes


def in_context(fact: Fact, context: Context) -> Fact:
    """The fact with what other objects say about it; the same object when they say nothing."""
    if isinstance(fact, PodFact):
        return _pod_in_context(fact, context)
    if not isinstance(fact, WorkloadFact):
        return fact
    queue = fact.queue
    if queue is None and _may_be_in_default_queue(fact, context):
        queue = context.queues.get(fact.namespace)
    if queue is None and not support_of(fact.key).needs_queue:
        queue = QueueName(names.DEFAULT_QUEUE)
    priority, obstacle = _priority(fact, context)
    if queue is not None and fact.queue is None:
        obstacle = obstacle or _unusable(queue, fact.namespace)
    preempts = (
        fact.priority_class not in context.never_preempting
        if fact.priority_class
        else context.default_preempts
    )
    fact = in_tiers(fact, context.tiers)
    if (queue, priority, preempts, obstacle) == (fact.queue, fact.priority, fact.preempts, fact.obstacle):
        return fact
    return replace(fact, queue=queue, priority=priority, preempts=preempts, obstacle=obstacle)


def _may_be_in_default_queue(fact: WorkloadFact, context: Context) -> bool:
    """Whether an object that names no queue is in that of its namespace.

    Of an operator's object that runs in migration mode, each pod is adopted by itself: it does not name the object.
    """
    support = support_of(fact.key)
    if not support.needs_queue:
        return True
    return fact.namespace in context.adopt_until and support.holding is not Holding.SUSPENDED_AND_GATED


def _pod_in_context(pod: PodFact, context: Context) -> PodFact:
    """A pod that names no queue is in its namespace's if it waits there, or may be adopted there.

    Else it ran past the admission policies: it was there before them, or its namespace is said not to be gated.
    """
    until = context.adopt_until.get(pod.namespace, 0)
    preempts = pod.priority_class not in context.never_preempting
    queue, obstacle = pod.queue, pod.obstacle
    if queue is None and (pod.gated or until):
        queue = context.queues.get(pod.namespace)
        obstacle = obstacle or _unusable(queue, pod.namespace)
    return (
        pod
        if (queue, until, preempts) == (pod.queue, pod.adopt_until, pod.preempts)
        else replace(pod, queue=queue, adopt_until=until, obstacle=obstacle, preempts=preempts)
    )


def _unusable(default: QueueName | None, namespace: str) -> Obstacle | None:
    """The obstacle of objects that name no queue, in a namespace with a default that cannot be used."""
    if default != UNUSABLE_QUEUE:
        return None
    message = (
        f"namespace {namespace}: found a default queue that no queue can be called, expected "
        f"{QUEUE_EXPECTED}; correct its annotation {names.QUEUE_LABEL} or {names.QUEUE_ANNOTATION}"
    )
    return Obstacle(ReasonCode.INVALID_SPEC, message)


def _priority(fact: WorkloadFact, context: Context) -> tuple[int, Obstacle | None]:
    if not fact.priority_class:
        return context.default_priority, fact.obstacle
    value = context.priorities.get(fact.priority_class)
    if value is not None:
        return value, fact.obstacle
    known = context.classes_for_users()
    message = unknown_name("priority class", fact.priority_class, known)
    message += ". Name one of these" if known else ": leave it out, as there is none"
    return context.default_priority, fact.obstacle or Obstacle(ReasonCode.UNKNOWN_PRIORITY_CLASS, message)
