"""What intake saw and the cluster forgets: arrivals, outcomes, queue versions, limits of queues and nodes.

Only intake imports this. Every function first checks the term (``FOR SHARE`` on the lease row), so a deposed leader
writes nothing and no ledger transaction runs at the same moment.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota import Account, Limits
from queues.resources import NOTHING, Resources
from queues.sql.leadership import Term
from queues.workload import NO_FLAVOR, FlavorName, NodeName, QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A workload seen for the first time, perhaps."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName


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
    #: Ended: it waits for nothing any more.
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVersion:
    """A queue as its object says, with who changed it."""

    name: QueueName
    uid: str
    generation: int
    parent: QueueName | None
    document: Mapping[str, Any] = field(default_factory=dict)
    changed_by: str = ""
    #: Plain limits under NO_FLAVOR, the others under their flavor.
    limits: Mapping[FlavorName, Limits] = field(default_factory=dict)
    paused: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimit:
    """What admissions may take of a node: allocatable minus other people's pods."""

    limits: Resources
    flavor: FlavorName = NO_FLAVOR
    #: Ready and not cordoned. A node that is not takes nothing new, and root counts only what it holds.
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one pod ended for good: it may disappear now."""

    workload: WorkloadKey
    pod_set: str
    ordinal: int
    pod_uid: str
    #: Succeeded | Failed
    phase: str
    exit_code: int | None = None
    #: volcano.sh/job-version of the pod.
    version: int = 0


async def check_term(tx: AsyncConnection, term: Term) -> None:
    """Raises Fenced unless this term is the current one; holds off elections and ledger writes until commit."""
    raise NotImplementedError


async def arrive(tx: AsyncConnection, term: Term, rows: Sequence[Arrival]) -> dict[WorkloadKey, int]:
    """Sequence numbers, in the order given; whoever has one keeps it."""
    raise NotImplementedError


async def describe(tx: AsyncConnection, term: Term, rows: Sequence[Description]) -> None:
    """Store what changed about workloads that have arrived."""
    raise NotImplementedError


async def depart(tx: AsyncConnection, term: Term, keys: Collection[WorkloadKey]) -> frozenset[WorkloadKey]:
    """Move workloads whose object is gone into the history. Those that still hold something stay; returns who went."""
    raise NotImplementedError


async def record_queues(
    tx: AsyncConnection, term: Term, changed: Sequence[QueueVersion], removed: Collection[QueueName] = ()
) -> None:
    """Store queue versions and limits. What queues use is counted along their new paths in the same transaction."""
    raise NotImplementedError


async def record_node_limits(
    tx: AsyncConnection, term: Term, changed: Mapping[NodeName, NodeLimit], removed: Collection[NodeName] = ()
) -> None:
    """Store what nodes offer; what all usable ones offer together bounds ``root``."""
    raise NotImplementedError


async def record_outcomes(tx: AsyncConnection, term: Term, rows: Sequence[Outcome]) -> None:
    """Store how pods ended, once per pod uid."""
    raise NotImplementedError


__all__ = ["Account"]
