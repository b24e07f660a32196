"""The sorts of policy that a queue chooses by name: a small class for each, whose answers are pure and exact.

- ``OrderPolicy``: the place of a waiting workload inside its queue (``policy.order``)
- ``PlacementPolicy``: which nodes its pods may use, and which of them are taken first (``policy.placement``)
- ``VictimCostPolicy``: what it costs to evict running work of the queue (``policy.preemption.cost``)
- ``FlavorPolicy``: which of the queue's flavors are tried, and in which order (``policy.flavorChoice.by``)

The built-in policies (``queues.plugins.built_in``) are written against the same classes; those of other packages are
found by ``queues.plugins.registry``. An object of such a class is made once for each queue that is served by it, and
asked in every turn. Its answers depend on nothing but what it is given: no clock, no chance, no I/O. Numbers are exact
integers, arrays int64; what it is given stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import msgspec

from queues.flavor_growth import FlavorGrowth
from queues.workload import FlavorName, NodeLoad, NodeName, PodSet, QueueName, Workload

if TYPE_CHECKING:  # numpy takes longer to load than all else that a short command needs
    import numpy as np
    from numpy.typing import NDArray

#: Seconds by which a workload counts as later for each device that it asks for, where small goes before large.
PATIENCE: Final = 86_400


class PolicySort(StrEnum):
    """The sorts of policy, each as the field of a Queue that names one."""

    ORDER = "policy.order"
    PLACEMENT = "policy.placement"
    VICTIM_COST = "policy.preemption.cost"
    FLAVORS = "policy.flavorChoice.by"


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a policy that has none."""


class Policy:
    """What all policies have in common."""

    sort: ClassVar[PolicySort]
    #: What queues call it; no two policies have one name, whatever their sorts.
    name: str
    #: Another one when the same question may get another answer.
    version: str = "1"
    #: What a queue may say to it in ``policy.parameters``: a frozen struct with defaults, which refuses other fields.
    Parameters: type[msgspec.Struct] = NoParameters

    def __init__(self, parameters: msgspec.Struct | None = None) -> None:
        #: An object of ``Parameters``.
        self.parameters: Any = self.Parameters() if parameters is None else parameters


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """What the administrators of a queue set that its order may go by, inherited values included."""

    queue: QueueName
    #: Points of priority per hour of waiting.
    ageing_per_hour: int = 0
    #: Seconds after which places are cleared for a gang; None if they never are.
    clear_after: int | None = None
    #: The longest time, in seconds, for which its workloads may hold their seats; None for no limit.
    max_run_time: int | None = None
    #: Seconds in which past use counts half; 0: only present use counts.
    usage_half_life: int = 0


class UserTurns(Enum):
    """How the share of the queue that each user has counts in its order."""

    NONE = "none"
    #: Before all else: users take turns.
    FIRST = "first"
    #: Among workloads of equal urgency.
    AMONG_EQUALS = "among-equals"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """An order as factors of what workloads are: urgency = Σ factor × value, smaller is earlier.

    Postgres counts positions by them.
    """

    #: Of the second (since the epoch) at which the workload was created.
    by_created: int = 0
    #: Of its priority, as far as it counts in the queue.
    by_priority: int = 0
    #: Of its declared run time, in seconds.
    by_run_time: int = 0
    #: Seconds that count where no run time is declared.
    unknown_run_time: int = 0
    #: Of equal urgency large workloads give way to small ones (``PATIENCE``).
    small_first: bool = False


class OrderPolicy(Policy):
    """The place of a waiting workload inside its queue: smaller is earlier, and it does not change while it waits.

    Gangs that run and ask for further members come after all others, whatever this says. Of equals the one that arrived
    first is first.
    """

    sort = PolicySort.ORDER
    #: A refused workload holds up those behind it.
    strict: bool = False
    #: By what positions are counted, as people read it.
    counted_by: str = "arrival"
    users: UserTurns = UserTurns.NONE
    #: None for an order that no such terms state: then ``urgency`` does, and positions are counted by arrival.
    terms: OrderTerms | None = OrderTerms()

    def __init__(self, rules: QueueRules, parameters: msgspec.Struct | None = None) -> None:
        super().__init__(parameters)
        self.rules = rules

    def urgency(self, workload: Workload) -> int:
        """The first criterion. ``workload``: with the priority that counts in the queue."""
        terms, run_time = self.terms or OrderTerms(), workload.run_time
        return (
            terms.by_created * workload.created
            + terms.by_priority * workload.priority
            + terms.by_run_time * (terms.unknown_run_time if run_time is None else run_time)
        )

    def precedence(self, workload: Workload, devices: int) -> int:
        """The second criterion, after the share of users if it counts. ``devices``: whole ones that the gang needs."""
        if self.terms is None or not self.terms.small_first or workload.comes_first:
            return 0
        return (workload.waiting_since or workload.created) + PATIENCE * devices

    def among_queues(self, urgency: int, now: int) -> int:
        """How urgent its first workload makes the queue among its siblings, where all else is equal.

        ``urgency``: of that workload; ``now``: seconds since the epoch. Plug-ins are not asked: for them it is 0.
        """
        return 0


# ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsRequest:
    """Pods of one shape that ask for nodes. Workloads that differ in nothing else get one answer."""

    queue: QueueName
    #: As far as it counts in the queue.
    priority: int
    pods: PodSet
    #: What the workload says to policies (``Workload.hints``).
    hints: tuple[tuple[str, str], ...] = ()

    def hint(self, key: str) -> str | None:
        """What the workload says under a key; None if nothing."""
        return next((text for name, text in self.hints if name == key), None)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementNodes:
    """All nodes as a placement sees them. (N,) has one entry for each node, (R,) one for each resource."""

    #: (N,)
    names: Sequence[NodeName]
    #: (N,)
    labels: Sequence[Mapping[str, str]]
    #: (N,) "" for nodes that no ResourceFlavor describes.
    flavors: Sequence[FlavorName]
    #: (R,) in the units of ``queues.resources``.
    resources: Sequence[str]
    #: (R, N) what they offer, and what of it is free now; read-only.
    allocatable: "NDArray[np.int64]"
    free: "NDArray[np.int64]"
    #: (N,) how busy and hot their devices are; ``NO_LOAD`` where no agent reports it (``agent.reportLoad``).
    loads: Sequence[NodeLoad]


#: The highest score of a node; the lowest is 0.
MOST_SCORE: Final = 100


class PlacementPolicy(Policy):
    """Which nodes pods may use, and which of those are taken first.

    ``filter`` and ``score`` come on top of what users ask for, of what the pods fit on, and of the topology that they
    need; a policy may do without them.
    """

    sort = PolicySort.PLACEMENT
    #: Pods go evenly over many nodes; else few nodes are filled.
    evenly: bool = False
    #: Whether there is a ``filter``, and a ``score``: else neither is asked.
    filters: bool = False
    scores: bool = False

    def __init_subclass__(cls) -> None:
        cls.filters = cls.filter is not PlacementPolicy.filter
        cls.scores = cls.score is not PlacementPolicy.score

    def domain_keys(self, room: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """(D,) of domains (or nodes) that hold all pods the one with the smallest key is taken.

        ``room``: (D,) pods that each takes.
        """
        return room

    def filter(self, request: PodsRequest, nodes: PlacementNodes) -> "NDArray[np.bool_]":
        """(N,) nodes that these pods may use, whatever is free on them."""
        raise NotImplementedError

    def score(self, request: PodsRequest, nodes: PlacementNodes) -> "NDArray[np.int64]":
        """(N,) from 0 to ``MOST_SCORE``: as many pods as possible go to the nodes with the highest.

        Preferred node affinity, which users write, goes before it. Every value that occurs costs time.
        """
        raise NotImplementedError


# ── victims ─────────────────────────────────────────────────────────────────────────────────────────────────


class RunningWork(Protocol):
    """Running work that can be evicted together: a gang, or a part that the gang can do without."""

    @property
    def workload(self) -> Workload:
        """The workload that holds it."""

    @property
    def pods(self) -> int:
        """Pods that go."""

    @property
    def priority(self) -> int:
        """As far as it counts in its queue."""

    @property
    def whole(self) -> bool:
        """Whether it is all that the workload holds."""

    @property
    def started(self) -> int:
        """The second (since the epoch) since which it holds seats without a break."""

    @property
    def size(self) -> int:
        """Thousandths of CPUs plus 16 times thousandths of devices."""

    @property
    def lost_work(self) -> int:
        """Size × seconds since the last checkpoint: the work that is lost."""

    @property
    def disturbance(self) -> int:
        """What any eviction costs besides, in the same measure: ten minutes of a device."""


class VictimCostPolicy(Policy):
    """What it costs to evict running work of a queue.

    Costs of work of several queues are compared, so each is in the measure of ``RunningWork.lost_work``: a second of a
    device is 16,000.
    """

    sort = PolicySort.VICTIM_COST

    def costs(self, running: Sequence[RunningWork], now: int) -> Sequence[int]:
        """The cost of each, at least 0. ``now``: seconds since the epoch."""
        raise NotImplementedError


# ── flavors ─────────────────────────────────────────────────────────────────────────────────────────────────


class FlavorPolicy(Policy):
    """Which flavors of a queue are tried for a workload, and in which order."""

    sort = PolicySort.FLAVORS

    def order(
        self, request: PodsRequest, flavors: tuple[FlavorName, ...], described: Sequence[FlavorGrowth]
    ) -> tuple[FlavorName, ...]:
        """The flavors that these pods may use, the first to try first; empty: none.

        ``flavors``: of the queue, as it lists them. ``described``: what is known of all ResourceFlavors.
        """
        raise NotImplementedError
