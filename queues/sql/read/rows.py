"""What questions about queues and workloads are asked with, and the parts that their answers are made of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from queues.plugins.interface import OrderTerms
from queues.quota.queue import HIGHEST_USER_PRIORITY, Queue
from queues.read_api import bodies
from queues.sql.statements import StorableText
from queues.workload import QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Why an admission is being evicted."""

    code: str
    message: str
    #: Seconds since the epoch.
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLine:
    """One account of a queue with its limits; ``None``: not set."""

    flavor: str
    resource: str
    guarantee: int = 0
    deserved: int | None = None
    capability: int | None = None
    used: int = 0
    counted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue as people see it."""

    name: QueueName
    parent: QueueName | None
    paused: bool
    closed: bool
    #: Part of a cycle or below a parent that does not exist, or removed.
    broken: bool
    changed_by: str
    #: False: its object was deleted while something of it was held.
    present: bool = True
    #: Its order and its policy, without its limits.
    served: Queue
    #: As its administrator wrote it: ``{"spec": …}``.
    document: Mapping[str, Any] = field(default_factory=dict)
    accounts: tuple[AccountLine, ...] = ()
    #: Workloads of the queue itself.
    pending: int = 0
    admitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """What the work of one user holds and waits for."""

    #: "": unknown.
    user: str
    #: Amounts that are held now, by resource.
    used: Mapping[str, int]
    #: Workloads that wait, and that hold seats.
    pending: int
    admitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """By what positions in a queue are counted."""

    terms: OrderTerms = field(default_factory=OrderTerms)
    #: The highest priority that counts.
    most_priority: int = HIGHEST_USER_PRIORITY

    def numbers(self) -> tuple[int, ...]:
        """The same as one row: the factors, and what goes with them."""
        terms = self.terms
        return (
            terms.by_created,
            terms.by_priority,
            self.most_priority,
            terms.by_run_time,
            terms.unknown_run_time,
            int(terms.small_first),
        )


class KindIn(NamedTuple):
    """Workloads of a kind in a namespace."""

    kind: str
    namespace: str


#: Kind of workload → namespaces in which a user may see it; None for all.
Seen = Mapping[str, Collection[str] | None]


class Chosen(NamedTuple):
    """Which workloads of a list are asked for. None for all."""

    #: Those that this user created.
    user: str | None = None
    #: Those with this in their name, or in that of their namespace, queue or user, in large or small letters.
    search: str | None = None


EVERY_ONE: Final = Chosen()


class PendingPlace(NamedTuple):
    """Where a line is in the list of the waiting: what never fits comes after everything else."""

    queue: StorableText
    position: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    never_fits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """A part of the waiting workloads."""

    items: tuple[bodies.WaitingBody, ...]
    #: All that match, also beyond the page; and the same in every namespace.
    total: int
    total_everywhere: int
    #: Of the last one of a full page; None if the page is not full.
    end: PendingPlace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInQueue:
    """Where a workload is in its queue."""

    #: 1-based.
    position: int
    #: How many workloads wait in the queue.
    length: int
    #: Workloads right before it, the nearest last.
    ahead: tuple[bodies.WaitingBody, ...]
