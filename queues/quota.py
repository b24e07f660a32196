"""The queue tree and its limits: guarantee ≤ deserved ≤ capability per (flavor, resource), at every level.

The meaning of the three numbers is that of design §5; in Kueue's words guarantee = nominal − lending limit,
deserved = nominal quota, capability = nominal + borrowing limit, an inner queue = a cohort whose numbers contain
its children's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName

ROOT = QueueName("root")


class Account(NamedTuple):
    """One line of the books of a queue or of a limit. ``NO_FLAVOR`` sums over all flavors (the plain fields)."""

    flavor: FlavorName
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one queue in one flavor, or (``NO_FLAVOR``) over all flavors. Amounts in units of queues.resources."""

    guarantee: Resources = NOTHING
    #: A resource that is absent has no deserved amount of its own: the weighted share counts.
    deserved: Mapping[str, int] = field(default_factory=dict)
    #: A resource that is absent is limited by the ancestors only.
    capability: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as its administrator wrote it, in domain terms. Parent of every top-level queue is ``root``."""

    name: QueueName
    parent: QueueName | None = ROOT
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    limits: Limits = Limits()
    #: In the order in which flavors are tried.
    flavors: Mapping[FlavorName, Limits] = field(default_factory=dict)
    #: fifo | strict-fifo | priority | shortest | round-robin; None: inherited, at the top ``priority``.
    order: str | None = None
    ageing_per_hour: int | None = None
    #: pack | spread; None: inherited, at the top ``pack``.
    placement: str | None = None
    #: Stops admissions of this queue and everything below.
    paused: bool = False
    #: Volcano's state: a closed queue takes and admits nothing new.
    closed: bool = False
    #: Why the queue's own document cannot be used; None: it can.
    broken: str | None = None
    #: Pods per gang; None: no limit (``access.maxGang``).
    max_gang: int | None = None
    max_pending: int | None = None
    max_pending_per_user: int | None = None
    #: Generation of the Kubernetes object.
    generation: int = 0
