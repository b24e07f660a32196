"""What a turn has no choice about: seats that are over, admissions to take back, pods that run already."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from admission.engine.snapshot import Snapshot, Unbooked
from admission.engine.trial import Trial
from queues.admissions import Admission, AdmissionState, Seat
from queues.plan import Admit, Adopt, Evict, Free
from queues.quota.accounts import charges
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey


@dataclass(slots=True, eq=False)
class OpenAdmissions:
    """Admissions that are not closed, by workload and by queue."""

    _of: dict[WorkloadKey, tuple[AdmissionId, ...]] = field(default_factory=dict)
    #: Those whose every seat was given back.
    without_seats: set[AdmissionId] = field(default_factory=set)
    #: Those whose pods are being removed.
    evicting: set[AdmissionId] = field(default_factory=set)
    #: So many of each priority, by queue.
    _priorities: dict[QueueName, dict[int, int]] = field(default_factory=dict)
    _in: dict[QueueName, dict[AdmissionId, None]] = field(default_factory=dict)

    def update(self, number: AdmissionId, before: Admission | None, after: Admission | None) -> None:
        """An admission is another one now."""
        if before is not None:
            self.without_seats.discard(number)
            self.evicting.discard(number)
            self._count(before, -1)
            del self._in[before.queue][number]
        if after is not None:
            self._count(after, 1)
            self._in.setdefault(after.queue, {})[number] = None
        if after is not None and after.state is AdmissionState.EVICTING:
            self.evicting.add(number)
        if after is not None and len(after.ended) >= len(after.seats):
            self.without_seats.add(number)
        if before is None and after is not None and after.workload not in self._of:
            self._of[after.workload] = (number,)
            return
        for old in {each.workload for each in (before, after) if each is not None}:
            left = [each for each in self._of.get(old, ()) if each != number]
            if after is not None and after.workload == old:
                left = sorted([*left, number])
            if left:
                self._of[old] = tuple(left)
            else:
                self._of.pop(old, None)

    def _count(self, admission: Admission, more: int) -> None:
        counts = self._priorities.setdefault(admission.queue, {})
        counts[admission.priority] = counts.get(admission.priority, 0) + more
        if not counts[admission.priority]:
            del counts[admission.priority]

    def lowest_priority(self, queue: QueueName) -> int | None:
        """The lowest priority that holds anything in a queue; None: nobody does."""
        return min(self._priorities.get(queue, ()), default=None)

    def in_subtree(self, queue: QueueName, tree: QueueTree) -> Iterator[AdmissionId]:
        """Those of a queue and of everything below it."""
        for name, numbers in self._in.items():
            if queue in tree.paths.get(name, ()):
                yield from numbers

    def of(self, workload: WorkloadKey) -> tuple[AdmissionId, ...]:
        """Its admissions, the oldest first."""
        return self._of.get(workload, ())


@dataclass(slots=True, eq=False)
class SeatLookup:
    """Who sits where in this turn, worked out for those who are asked about."""

    _snapshot: Snapshot
    _possessions: OpenAdmissions
    #: Seats that adopted pods have got in this turn.
    _more: dict[WorkloadKey, list[Seat]] = field(default_factory=dict)

    def held(self, key: WorkloadKey) -> list[Seat]:
        """Seats of its open admissions, without those that are freed in this turn; and adopted ones."""
        snapshot = self._snapshot
        held = list(self._more.get(key, ()))
        for number in self._possessions.of(key):
            admission = snapshot.admissions[number]
            if admission.state is AdmissionState.OPEN and number not in snapshot.evictable:
                held += self._left(admission)
        held.sort(key=lambda seat: (seat.pod_set, seat.ordinal, seat.node))
        return held

    def leaving_admission(self, key: WorkloadKey) -> AdmissionId | None:
        """The last of its admissions whose pods are being removed."""
        snapshot = self._snapshot
        for number in reversed(self._possessions.of(key)):
            admission = snapshot.admissions[number]
            going = admission.state is not AdmissionState.OPEN or number in snapshot.evictable
            if going and self._left(admission):
                return number
        return None

    def _left(self, admission: Admission) -> list[Seat]:
        gone = admission.ended | self._snapshot.ended.get(admission.id, frozenset())
        return [seat for index, seat in enumerate(admission.seats) if index not in gone]

    def add(self, workload: WorkloadKey, more: Iterable[Seat]) -> None:
        """Seats that the workload has as well."""
        self._more.setdefault(workload, []).extend(more)


def frees(snapshot: Snapshot, hollow: Iterable[AdmissionId], trial: Trial) -> Iterator[Free]:
    """Seats whose pods are over, given back in the trial too; and admissions that hold nothing any more."""
    for number in sorted({*snapshot.ended, *hollow}):
        admission = snapshot.admissions.get(number)
        if admission is None:
            continue
        over = snapshot.ended.get(number, frozenset())
        given_back = frozenset(index for index in over if index < len(admission.seats)) - admission.ended
        closes = len(given_back) + len(admission.ended) == len(admission.seats)
        if given_back or closes:
            freed = [admission.seats[index] for index in sorted(given_back)]
            trial.remove_seats(admission.queue, charges(freed), freed)
            yield Free(admission=number, seats=given_back, closes=closes)


def evicts(snapshot: Snapshot, freed: Iterable[Free]) -> Iterator[Evict]:
    """Admissions to take back whole; their seats stay held until the pods are gone."""
    closed = {free.admission for free in freed if free.closes}
    for number, (code, message, not_before) in sorted(snapshot.evictable.items()):
        admission = snapshot.admissions.get(number)
        if admission is not None and admission.state is AdmissionState.OPEN and number not in closed:
            yield Evict(admission=number, code=code, message=message, not_before=not_before)


def adopts(snapshot: Snapshot, trial: Trial, seats: SeatLookup) -> Iterator[Adopt]:
    """Pods that run without an admission enter the books of their queue, whatever its limits say.

    Their amounts are in the table's ``used`` already: they are on the nodes.
    """
    for unbooked in sorted(snapshot.unbooked, key=lambda each: each.workload):
        admit = _adopted(unbooked, snapshot, joins=bool(seats.held(unbooked.workload)))
        trial.usage.add(unbooked.queue, charges(admit.seats))
        seats.add(unbooked.workload, admit.seats)
        yield Adopt(admit=admit, pods={pod[0]: index for index, pod in enumerate(_in_order(unbooked))})


def _adopted(unbooked: Unbooked, snapshot: Snapshot, *, joins: bool) -> Admit:
    workload = snapshot.pending.get(unbooked.workload)
    return Admit(
        workload=unbooked.workload,
        namespace=unbooked.namespace,
        name=unbooked.name,
        queue=unbooked.queue,
        priority=unbooked.priority,
        generation=workload.generation if workload is not None else "",
        seats=tuple(
            Seat(
                pod_set=pod_set,
                ordinal=ordinal,
                node=node,
                flavor=snapshot.nodes.flavor(node),
                takes=takes,
            )
            for _, pod_set, ordinal, node, takes in _in_order(unbooked)
        ),
        elastic=joins,
    )


def _in_order(unbooked: Unbooked) -> list[tuple[str, str, int, NodeName, Resources]]:
    return sorted(unbooked.pods, key=lambda pod: (pod[1], pod[2], pod[0]))


def workloads_in_transition(snapshot: Snapshot) -> set[WorkloadKey]:
    """Workloads whose seats or standing are for this turn only."""
    numbers: Mapping[AdmissionId, object] = {**snapshot.ended, **snapshot.evictable}
    moving = {snapshot.admissions[number].workload for number in numbers if number in snapshot.admissions}
    moving.update(each.workload for each in snapshot.unbooked)
    return moving
