"""Rows as values: what intake hands in, and what a new leader gets back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queues.quota.queue import Queue
from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName, Result, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What people ask about a workload, so that any replica can answer."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int = 0
    #: Seconds since the epoch, from the object.
    created: int = 0
    #: Gang size.
    minimum: int = 1
    #: Pods in all.
    pods: int = 1
    #: What all pods take together.
    asks: Resources = NOTHING
    #: Whole devices that the gang needs to start, and seconds it declares to run: its place may depend on them.
    devices: int = 0
    run_time: int | None = None
    #: Of a pod that waits alone: kind and name of what controls it; "": nothing does.
    owner: str = ""
    #: Ended, or without pods: it waits for nothing.
    finished: bool = False
    #: Its object is gone while it holds seats: what was described before stays, but for ``finished`` and ``result``.
    gone: bool = False
    #: The user that created it; "": unknown.
    user: str = ""
    #: Image of its pods' first container; "": unknown.
    image: str = ""
    #: How it ended; UNKNOWN if it has not, or if that is not known.
    result: Result = Result.UNKNOWN
    #: Values that it states and that cannot be read, a sentence a line; "": none.
    ignored_values: str = ""
    #: What is to be known of it while it runs, a sentence a line; "": nothing.
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A workload that takes the place of another, which is gone: a pod that was made again."""

    heir: Description
    after: WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVersion:
    """A queue as its object says, with the user that changed it."""

    queue: Queue
    uid: str
    document: Mapping[str, Any] = field(default_factory=dict)
    changed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimit:
    """What admissions may take of a node: allocatable minus other people's pods."""

    limits: Resources
    flavor: FlavorName = NO_FLAVOR
    #: Ready and not cordoned. A node that is not takes nothing new, and root counts only what it holds.
    usable: bool = True
    #: Why it takes no gangs all the same, in words; "": it does.
    closed: str = ""
