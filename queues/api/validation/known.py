"""What is known of the cluster when a document is checked."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.validation.size_rules import NodeAmounts
from queues.flavor_growth import FlavorGrowth
from queues.node_closures import NodeClosure
from queues.quota.queue import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The cluster, as far as it is known when a document is checked. None for what is not known, and not checked."""

    queues: Mapping[str, Queue] | None = None
    #: Node label keys that are topology levels.
    levels: frozenset[str] | None = None
    #: Names of ResourceFlavors.
    flavors: Collection[str] | None = None
    #: The default queue of the object's namespace; None if it has none.
    namespace_queue: str | None = None
    #: Labels of that namespace.
    namespace_labels: Mapping[str, str] | None = None
    #: Seconds since the epoch.
    now: int | None = None
    #: Reservations and NodeDrains, and names of nodes.
    closures: Sequence[NodeClosure] | None = None
    nodes: Container[str] | None = None
    #: What the nodes have; and what can be added, of all ResourceFlavors.
    amounts: Callable[[], NodeAmounts] | None = None
    growth: Sequence[FlavorGrowth] | None = None
    #: Names of PriorityClasses.
    priority_classes: Collection[str] | None = None
    #: Names of the stock scheduler.
    schedulers: Collection[str] | None = None
    #: Specs of JobTemplates of the object's namespace, by name; those that are not known are left out.
    job_templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Kinds that WorkloadKinds add, besides those that Muster brings.
    kinds: Sequence[WorkloadKindSpec] = ()


NOTHING_KNOWN: Final = Known()
