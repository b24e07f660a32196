"""Victim candidates: running workloads that may be evicted, with what they hold and what evicting them costs.

A candidate is evicted whole or not at all: a gang with every admission that joined it later, or, cheaper, one
admission that joined a gang above its minimum (an elastic part).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from admission.engine.nodes.host_ports import NodePorts
from admission.engine.placement.need import size_of_pod
from queues.admissions import Admission, Seat
from queues.quota.accounts import Account, charges
from queues.resources import Resources
from queues.workload import AdmissionId, FlavorName, QueueName, Workload, WorkloadKey

#: So many shapes are kept by ``ChargesByShape``.
_SHAPES_KEPT = 4096


class HeldAdmission(msgspec.Struct, eq=False, gc=False):
    """One admission with what an eviction would free of it. A struct as ``Candidate`` is."""

    admission: Admission
    #: Seats that have not ended.
    seats: tuple[Seat, ...]
    #: What these seats are charged in the queue.
    charges: Mapping[Account, int]
    #: Thousandths of CPUs plus 16 times thousandths of devices: the work that is lost per second.
    size: int
    #: The workload and the host ports of the seats. None and (): not looked up yet.
    holder: Workload | None = None
    ports: tuple[NodePorts, ...] = ()


class ChargesByShape:
    """Charges and sizes of seats, worked out once for all admissions of one shape."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[tuple[FlavorName, Resources, int], ...], tuple[Mapping[Account, int], int]
        ] = {}

    def hold(self, admission: Admission, ending: frozenset[int] = frozenset()) -> HeldAdmission:
        """What an admission holds. ``ending``: indices of seats that end now, besides those that have ended."""
        over = admission.ended | ending
        seats = admission.seats
        if over:
            seats = tuple(seat for index, seat in enumerate(seats) if index not in over)
        # A plain dict: most admissions have one seat, and a Counter costs more than counting it.
        counts: dict[tuple[FlavorName, Resources], int] = {}
        for seat in seats:
            counts[seat.flavor, seat.takes] = counts.get((seat.flavor, seat.takes), 0) + 1
        shape = tuple((flavor, takes, count) for (flavor, takes), count in counts.items())
        known = self._known.get(shape)
        if known is None:
            size = sum(size_of_pod(takes) * count for _, takes, count in shape)
            if len(self._known) >= _SHAPES_KEPT:
                self._known.clear()
            known = self._known[shape] = charges(seats), max(1, size)
        return HeldAdmission(admission, seats, *known)


#: What an eviction costs besides the lost work: ten minutes of a device, so that one victim of eight devices is
#: better than eight victims of one.
_DISTURBANCE = 600 * 16_000

#: Costs are about equal that differ by no more than a minute of a device. A wider band lengthens the waits of all:
#: on recorded weeks, a tenth of the cost by a tenth.
_ALIKE = 60 * 16_000


def most_alike(cost: int) -> int:
    """The highest cost that is about equal to this one."""
    return cost + _ALIKE


#: Order in which candidates are chosen, the smallest first; see ``Candidate.sort_key``. A plain tuple: those are
#: compared fastest.
SortKey = tuple[bool, bool, int, int, int, str, AdmissionId]


class Candidate(msgspec.Struct, eq=False, gc=False):
    """Admissions of one workload that can be evicted together.

    A struct because there is one for everything that runs: made without Python code, and not visited by collections.
    """

    workload: Workload
    queue: QueueName
    #: Oldest first.
    admissions: tuple[HeldAdmission, ...]
    #: All that the workload holds, not an elastic part.
    whole: bool
    size: int
    pods: int
    #: Priority at which the oldest of the admissions was opened, as far as it counts in the queue now.
    priority: int
    #: The second since which it holds seats without a break; of an elastic part, that of its opening.
    started: int
    #: The seconds from which on it may be evicted by the rules, and for a reclaim; and at which its user's wish not to
    #: be evicted ends (``protection``).
    evictable_from: int
    reclaimable_from: int
    wish_end: int
    #: Of a gang with elastic parts: the admissions that can only be evicted with all of it. Empty: all of them.
    core: tuple[HeldAdmission, ...] = ()
    #: What the eviction costs besides the lost work. Elastic parts share that of the gang: it is disturbed once.
    disturbance: int = _DISTURBANCE
    #: Size × seconds since the last checkpoint.
    lost_work: int = 0
    #: What the eviction costs, as the policy of its queue says (``VictimCostPolicy``).
    cost: int = 0
    #: Its wish not to be evicted counts inside its queue, and not for other queues: it holds lent quota.
    protected_in_queue: bool = False
    #: Only a reclaim of lent quota may take it now, of all that is not an elastic part for owners that waited before it
    #: started.
    rests: bool = False
    #: Other queues may not reclaim it now.
    keeps_quota: bool = False
    #: Nor may they because it had waited, but for gangs of queues that use nothing (``is_owed`` in ``rules``).
    keeps_for_a_time: bool = False

    def follow(self, now: int) -> None:
        """Bring the lost work and the protection up to date."""
        interval, work = self.workload.checkpoint_interval, 0
        for held in self.admissions:
            lost = now - held.admission.opened_at
            if lost > 0:
                work += held.size * (lost % interval if interval else lost)
        self.lost_work, self.protected_in_queue = work, False
        self.rests = self.evictable_from > now
        self.keeps_quota, self.keeps_for_a_time = False, self.reclaimable_from > now

    @property
    def freed_alone(self) -> tuple[HeldAdmission, ...]:
        """Admissions whose seats no other candidate gives back.

        Elastic parts are candidates of their own, cheaper ones: with them counted twice, nodes would seem to gain more
        than they do.
        """
        return self.core or self.admissions

    @property
    def cost_per_pod(self) -> int:
        """The cost, by pods of ``freed_alone``: taking the core of a gang for few pods costs all of it."""
        if not self.core:
            return self.cost // self.pods
        return self.cost // max(1, sum(len(held.seats) for held in self.core))

    @property
    def protected_until(self) -> int:
        """The second from which on nothing protects the workload."""
        return max(self.evictable_from, self.reclaimable_from, self.wish_end)

    @property
    def sort_key(self) -> SortKey:
        """Order in which candidates are chosen."""
        newest = self.admissions[-1].admission
        return (
            self.protected_in_queue,  # as ``standing``
            self.whole,
            self.cost,
            self.priority,
            -newest.opened_at,  # the newest comes first
            self.workload.key.uid,
            newest.id,
        )

    @property
    def standing(self) -> tuple[bool, bool]:
        """Elastic parts come before all others, and work on lent quota that wishes not to be evicted comes last."""
        return self.protected_in_queue, self.whole

    def charged(self, account: Account) -> int:
        """Units of an account that the eviction would free."""
        return sum(held.charges.get(account, 0) for held in self.admissions)

    def charged_in(self, accounts: Iterable[Account]) -> int:
        """The same of several accounts together."""
        return sum(map(self.charged, accounts))


class BudgetedPods(NamedTuple):
    """Pods of a workload that one PodDisruptionBudget counts."""

    #: Index in ``VictimCandidates.disruptions_left``.
    budget: int
    pods: int


@dataclass(slots=True, eq=False)
class VictimCandidates:
    """All candidates that may be evicted now, and what the disruption budgets allow."""

    of_queue: dict[QueueName, list[Candidate]] = field(default_factory=dict)
    #: The next second at which the protection of a running workload ends. None if none is protected for a time.
    until: int | None = None
    #: Pods that may still be evicted, by budget; and the names of the budgets.
    disruptions_left: list[int] = field(default_factory=list)
    budget_names: list[str] = field(default_factory=list)
    budgets: dict[WorkloadKey, list[BudgetedPods]] = field(default_factory=dict)
    #: Workloads whose budgets do not count against a reclaim any more.
    beyond_budgets: Set[WorkloadKey] = frozenset()

    def may_disrupt(self, workload: WorkloadKey, pods: int) -> bool:
        """True if every budget allows so many pods of a workload to be evicted."""
        return not self.keeping(workload, pods)

    def keeping(self, workload: WorkloadKey, pods: int) -> list[str]:
        """The budgets that do not allow so many pods of a workload to be evicted."""
        return [
            self.budget_names[each.budget]
            for each in self.budgets.get(workload, ())
            if min(each.pods, pods) > self.disruptions_left[each.budget]
        ]

    def disrupt(self, workload: WorkloadKey, pods: int, *, times: int = 1) -> None:
        """Count so many pods of a workload as evicted; ``times=-1``: as put back."""
        for each in self.budgets.get(workload, ()):
            self.disruptions_left[each.budget] -= times * min(each.pods, pods)
