"""Who could be taken back: running workloads with what they hold, what it costs, and what protects them.

A unit goes whole or not at all: the core of a gang with everything that joined it, or, cheaper, one of the
parts that joined a gang above its minimum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from admission.engine.nodes.host_ports import OnNode, ports_of
from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.accounts import Account, charges
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import AdmissionId, FlavorName, QueueName, Workload, WorkloadKey

#: A disturbance costs ten minutes of a device beside the work that is lost: one victim of eight devices is better
#: than eight of one.
_DISTURBANCE = 600 * 16_000

#: So many shapes of seats are remembered.
_SHAPES = 4096


@dataclass(slots=True, eq=False)
class HeldAdmission:
    """One admission as a possible victim."""

    admission: Admission
    seats: tuple[Seat, ...]
    books: Mapping[Account, int]
    #: Devices count 16 times a CPU: what is lost per second.
    size: int
    #: Whose it is, and the host ports of its seats, once that was asked.
    holder: Workload | None = None
    ports: tuple[OnNode, ...] = ()


@dataclass(slots=True, eq=False)
class Candidate:
    """What can be taken back together."""

    workload: Workload
    queue: QueueName
    parts: tuple[HeldAdmission, ...]
    #: Above the minimum of its gang, which goes on without it.
    elastic: bool
    #: Work lost, size × seconds since the last checkpoint, and the disturbance itself.
    cost: int
    size: int
    pods: int
    #: The earlier the sooner chosen.
    order: tuple[bool, int, int, int, str, int]

    def amount(self, account: Account) -> int:
        """What it holds of an account."""
        return sum(part.books.get(account, 0) for part in self.parts)


@dataclass(slots=True, eq=False)
class VictimCandidates:
    """All that may be taken back now, by queue."""

    of_queue: dict[QueueName, list[Candidate]] = field(default_factory=dict)
    #: The next second at which a protection ends.
    until: int | None = None
    #: Disruptions that are left, by budget, and the budgets of a workload with its pods under each.
    allowed: list[int] = field(default_factory=list)
    budgets: dict[WorkloadKey, list[tuple[int, int]]] = field(default_factory=dict)


def victim_candidates(
    snapshot: Snapshot, tree: QueueTree, parts_of: Mapping[AdmissionId, HeldAdmission]
) -> VictimCandidates:
    """Everybody who may be evicted for others. ``parts_of``: every admission, as it is without the seats that end."""
    found = VictimCandidates()
    groups: dict[WorkloadKey, tuple[Workload, list[HeldAdmission]]] = {}
    leaving: dict[WorkloadKey, int] = {}
    shapes, holders = Shapes(), snapshot.holders
    for number, whole in parts_of.items():
        admission = whole.admission
        holder = holders.get(admission.workload)
        if holder is None:
            continue
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            leaving[admission.workload] = leaving.get(admission.workload, 0) + len(admission.seats)
            continue
        ending = snapshot.ended.get(number)
        part = whole if ending is None else shapes.part(admission, ending)
        if part.holder is not holder:
            part.holder, part.ports = holder, ports_of(holder, part.seats)
        if part.seats:
            groups.setdefault(admission.workload, (holder, []))[1].append(part)
    for place, budget in enumerate(snapshot.budgets):
        # Pods that are leaving already may not have been counted off yet.
        gone = sum(min(leaving.get(key, 0), pods) for key, pods in budget.pods.items())
        found.allowed.append(max(0, budget.allowed - gone))
        for key, pods in budget.pods.items():
            found.budgets.setdefault(key, []).append((place, pods))
    protected = _Protection(snapshot.now, tree)
    for workload, parts in groups.values():
        queue = parts[0].admission.queue
        if queue not in tree.paths or protected.now(workload, queue, parts):
            continue
        found.of_queue.setdefault(queue, []).extend(_units(workload, queue, parts, snapshot.now))
    found.until = protected.until
    return found


@dataclass(slots=True)
class _Protection:
    now_: int
    tree: QueueTree
    until: int | None = None
    _rules: dict[QueueName, tuple[int, int]] = field(default_factory=dict)

    def now(self, workload: Workload, queue: QueueName, parts: Sequence[HeldAdmission]) -> bool:
        """Whether it may not be taken back now."""
        rules = self._rules.get(queue)
        if rules is None:
            policy = self.tree.policy(queue)
            rules = self._rules[queue] = (policy.min_run_time or 0, policy.max_evictions or 0)
        run_time, evictions = rules
        if not workload.preemptable or workload.evictions >= evictions:
            return True
        opened = max(part.admission.opened_at for part in parts)
        ends = opened + max(run_time, workload.min_run_time, workload.cooldown)
        if ends <= self.now_:
            return False
        self.until = ends if self.until is None else min(self.until, ends)
        return True


def _units(workload: Workload, queue: QueueName, parts: list[HeldAdmission], now: int) -> Iterable[Candidate]:
    if len(parts) == 1:
        return (_unit(workload, queue, tuple(parts), now, elastic=False),)
    parts.sort(key=lambda part: part.admission.id)
    core, units = list(parts), []
    for part in reversed(parts):
        if len(core) > 1 and _spare(workload, core, part):
            core.remove(part)
            units.append(_unit(workload, queue, (part,), now, elastic=True))
    return (*units, _unit(workload, queue, tuple(parts), now, elastic=False))


def _spare(workload: Workload, core: Sequence[HeldAdmission], part: HeldAdmission) -> bool:
    """Whether the gang has its minimum without this part."""
    if workload.minimum >= sum(len(each.seats) for each in core):
        return False
    counts = {pods.name: len(pods.done) for pods in workload.pod_sets}
    for each in core:
        for seat in each.seats if each is not part else ():
            counts[seat.pod_set] = counts.get(seat.pod_set, 0) + 1
    enough = all(counts[pods.name] >= pods.minimum for pods in workload.pod_sets)
    return enough and sum(counts.values()) >= max(1, workload.minimum)


def _unit(
    workload: Workload, queue: QueueName, parts: tuple[HeldAdmission, ...], now: int, *, elastic: bool
) -> Candidate:
    cost, size, pods = _DISTURBANCE, 0, 0
    for part in parts:
        lost = max(0, now - part.admission.opened_at)
        if workload.checkpoint_interval:
            lost %= workload.checkpoint_interval
        cost += part.size * lost
        size += part.size
        pods += len(part.seats)
    newest = parts[-1].admission
    priority = parts[0].admission.priority
    order = (not elastic, cost, priority, -newest.opened_at, workload.key.uid, newest.id)
    return Candidate(workload, queue, parts, elastic, cost, size, pods, order)


class Shapes:
    """Books and sizes of seats, worked out once per shape: parts of one shape share them."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[tuple[FlavorName, Resources, int], ...], tuple[Mapping[Account, int], int]
        ] = {}

    def part(self, admission: Admission, ending: frozenset[int] = frozenset()) -> HeldAdmission:
        """An admission without the seats that are over."""
        gone = admission.ended | ending
        seats = admission.seats
        if gone:
            seats = tuple(seat for index, seat in enumerate(seats) if index not in gone)
        counts: dict[tuple[FlavorName, Resources], int] = {}
        for seat in seats:
            counts[seat.flavor, seat.takes] = counts.get((seat.flavor, seat.takes), 0) + 1
        shape = tuple((flavor, takes, count) for (flavor, takes), count in counts.items())
        known = self._known.get(shape)
        if known is None:
            size = sum(size_of_pod(takes) * count for _, takes, count in shape)
            if len(self._known) >= _SHAPES:
                self._known.clear()
            known = self._known[shape] = charges(seats), max(1, size)
        return HeldAdmission(admission, seats, *known)
