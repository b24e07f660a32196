"""Victim candidates: running workloads with what they hold, what evicting them costs and what protects them.

A candidate is evicted whole or not at all: a gang with every admission that joined it later, or, cheaper, one
admission that joined a gang above its minimum (an elastic part).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from admission.engine.nodes.host_ports import NodePorts, ports_of
from admission.engine.pending.waiting_time import soonest
from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.accounts import Account, charges
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import AdmissionId, FlavorName, QueueName, Workload, WorkloadKey

#: What an eviction costs beside the lost work: ten minutes of a device, so that one victim of eight devices is
#: better than eight victims of one.
_DISTURBANCE = 600 * 16_000

#: So many shapes are kept by ``ChargesByShape``.
_SHAPES_KEPT = 4096


class SortKey(NamedTuple):
    """Order in which candidates are chosen: the smallest key first."""

    #: False, for elastic parts, comes first.
    whole: bool
    cost: int
    priority: int
    #: The second at which the newest admission was opened, negative: the newest comes first.
    newest_first: int
    uid: str
    admission: AdmissionId


@dataclass(slots=True, eq=False)
class HeldAdmission:
    """One admission with what an eviction would free of it."""

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


@dataclass(slots=True, eq=False)
class Candidate:
    """Admissions of one workload that can be evicted together."""

    workload: Workload
    queue: QueueName
    #: Oldest first.
    admissions: tuple[HeldAdmission, ...]
    #: Work lost (size × seconds since the last checkpoint) and the disturbance itself.
    cost: int
    size: int
    pods: int
    sort_key: SortKey

    @property
    def priority(self) -> int:
        """Priority at which the oldest of the admissions was opened."""
        return self.sort_key.priority

    def charged(self, account: Account) -> int:
        """Units of an account that the eviction would free."""
        return sum(held.charges.get(account, 0) for held in self.admissions)


class BudgetedPods(NamedTuple):
    """Pods of a workload that one PodDisruptionBudget counts."""

    #: Index in ``VictimCandidates.disruptions_left``.
    budget: int
    pods: int


@dataclass(slots=True, eq=False)
class VictimCandidates:
    """All candidates that may be evicted now, and what the disruption budgets allow."""

    of_queue: dict[QueueName, list[Candidate]] = field(default_factory=dict)
    #: The next second at which the protection of a running workload ends. None: none is protected for a time.
    until: int | None = None
    #: Pods that may still be evicted, by budget.
    disruptions_left: list[int] = field(default_factory=list)
    budgets: dict[WorkloadKey, list[BudgetedPods]] = field(default_factory=dict)

    def may_disrupt(self, workload: WorkloadKey, pods: int) -> bool:
        """True if every budget allows so many pods of a workload to be evicted."""
        return all(
            min(each.pods, pods) <= self.disruptions_left[each.budget]
            for each in self.budgets.get(workload, ())
        )

    def disrupt(self, workload: WorkloadKey, pods: int, *, times: int = 1) -> None:
        """Count so many pods of a workload as evicted; ``times=-1``: as put back."""
        for each in self.budgets.get(workload, ()):
            self.disruptions_left[each.budget] -= times * min(each.pods, pods)


def victim_candidates(
    snapshot: Snapshot, tree: QueueTree, held_admissions: Mapping[AdmissionId, HeldAdmission]
) -> VictimCandidates:
    """Candidates among all running workloads.

    ``held_admissions``: every admission; seats that end in this turn (``Snapshot.ended``) are left out here.
    """
    found = VictimCandidates()
    of_workload: dict[WorkloadKey, tuple[Workload, list[HeldAdmission]]] = {}
    leaving = Counter[WorkloadKey]()
    shapes, holders = ChargesByShape(), snapshot.holders
    for number, whole in held_admissions.items():
        admission = whole.admission
        holder = holders.get(admission.workload)
        if holder is None:
            continue
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            leaving[admission.workload] += len(admission.seats)
            continue
        ending = snapshot.ended.get(number)
        held = whole if ending is None else shapes.hold(admission, ending)
        if held.holder is not holder:
            held.holder, held.ports = holder, ports_of(holder, held.seats)
        if held.seats:
            of_workload.setdefault(admission.workload, (holder, []))[1].append(held)
    for index, budget in enumerate(snapshot.budgets):
        # Kubernetes may still count pods that are leaving already.
        uncounted = sum(min(leaving[key], pods) for key, pods in budget.pods.items())
        found.disruptions_left.append(max(0, budget.allowed - uncounted))
        for key, pods in budget.pods.items():
            found.budgets.setdefault(key, []).append(BudgetedPods(index, pods))
    protection = _Protection(snapshot.now, tree)
    for workload, admissions in of_workload.values():
        queue = admissions[0].admission.queue
        if queue not in tree.paths or protection.protects(workload, queue, admissions):
            continue
        found.of_queue.setdefault(queue, []).extend(_candidates(workload, queue, admissions, snapshot.now))
    found.until = protection.until
    return found


@dataclass(slots=True)
class _Protection:
    """What protects running workloads: their own wish, earlier evictions, and a minimum run time."""

    now: int
    tree: QueueTree
    #: The next second at which a protection by run time ends. None: none counts.
    until: int | None = None

    def protects(self, workload: Workload, queue: QueueName, admissions: Sequence[HeldAdmission]) -> bool:
        """True if a running workload may not be evicted now."""
        policy = self.tree.policy(queue)
        if not workload.preemptable or workload.evictions >= (policy.max_evictions or 0):
            return True
        opened = max(held.admission.opened_at for held in admissions)
        ends = opened + max(policy.min_run_time or 0, workload.min_run_time, workload.cooldown)
        if ends <= self.now:
            return False
        self.until = soonest(self.until, ends)
        return True


def _candidates(
    workload: Workload, queue: QueueName, admissions: list[HeldAdmission], now: int
) -> list[Candidate]:
    """The workload as a whole, and before it each of its admissions that the gang can do without."""
    if len(admissions) == 1:
        return [_candidate(workload, queue, tuple(admissions), now, elastic=False)]
    found: list[Candidate] = []
    admissions.sort(key=lambda held: held.admission.id)
    core = list(admissions)
    for held in reversed(admissions):
        if len(core) > 1 and _has_minimum_without(workload, core, held):
            core.remove(held)
            found.append(_candidate(workload, queue, (held,), now, elastic=True))
    found.append(_candidate(workload, queue, tuple(admissions), now, elastic=False))
    return found


def _has_minimum_without(workload: Workload, core: Sequence[HeldAdmission], left_out: HeldAdmission) -> bool:
    """True if the gang keeps its minimum, in all and of each pod set, without one of its admissions."""
    if workload.minimum >= sum(len(held.seats) for held in core):
        return False
    counts = Counter({pods.name: len(pods.done) for pods in workload.pod_sets})
    counts.update(seat.pod_set for held in core if held is not left_out for seat in held.seats)
    enough = all(counts[pods.name] >= pods.minimum for pods in workload.pod_sets)
    return enough and sum(counts.values()) >= max(1, workload.minimum)


def _candidate(
    workload: Workload, queue: QueueName, admissions: tuple[HeldAdmission, ...], now: int, *, elastic: bool
) -> Candidate:
    cost, size, pods = _DISTURBANCE, 0, 0
    for held in admissions:
        lost = max(0, now - held.admission.opened_at)
        if workload.checkpoint_interval:
            lost %= workload.checkpoint_interval
        cost += held.size * lost
        size += held.size
        pods += len(held.seats)
    oldest, newest = admissions[0].admission, admissions[-1].admission
    sort_key = SortKey(not elastic, cost, oldest.priority, -newest.opened_at, workload.key.uid, newest.id)
    return Candidate(workload, queue, admissions, cost, size, pods, sort_key)


class ChargesByShape:
    """Charges and sizes of seats, worked out once for all admissions of one shape."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[tuple[FlavorName, Resources, int], ...], tuple[Mapping[Account, int], int]
        ] = {}

    def hold(self, admission: Admission, ending: frozenset[int] = frozenset()) -> HeldAdmission:
        """What an admission holds. ``ending``: indices of seats that end now, beside those that have ended."""
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
