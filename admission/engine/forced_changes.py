"""What a turn has no choice about: seats to free, admissions to evict, running pods to adopt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from admission.engine.plan_limit import PlanLimit
from admission.engine.snapshot import Snapshot, Unbooked, UnbookedPod
from admission.engine.trial import Trial
from queues.admissions import Admission, AdmissionState, Seat
from queues.plan import Admit, Adopt, Evict, Free, Plan
from queues.quota.accounts import charges
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey


@dataclass(slots=True, eq=False)
class OpenAdmissions:
    """Admissions that are not closed, by workload and by queue."""

    #: Those with every seat freed.
    without_seats: set[AdmissionId] = field(default_factory=set)
    #: Those with pods that are being removed.
    evicting: set[AdmissionId] = field(default_factory=set)
    _by_workload: dict[WorkloadKey, tuple[AdmissionId, ...]] = field(default_factory=dict)
    _by_queue: dict[QueueName, dict[AdmissionId, None]] = field(default_factory=dict)
    #: Number of admissions of each priority, by queue.
    _priorities: dict[QueueName, dict[int, int]] = field(default_factory=dict)
    #: By node; None if not yet asked for.
    _by_node: dict[NodeName, set[AdmissionId]] | None = None

    def update(self, number: AdmissionId, before: Admission | None, after: Admission | None) -> None:
        """An admission is another one now. ``before`` is None if it is new, ``after`` if it is closed."""
        if self._by_node is not None:
            self._seat(number, before, after)
        if before is not None:
            self.without_seats.discard(number)
            self.evicting.discard(number)
            self._count(before, -1)
            del self._by_queue[before.queue][number]
        if after is not None:
            self._count(after, 1)
            self._by_queue.setdefault(after.queue, {})[number] = None
            if after.state is AdmissionState.EVICTING:
                self.evicting.add(number)
            if len(after.ended) >= len(after.seats):
                self.without_seats.add(number)
        if before is None and after is not None and after.workload not in self._by_workload:
            self._by_workload[after.workload] = (number,)
            return
        for workload in {each.workload for each in (before, after) if each is not None}:
            left = [each for each in self._by_workload.get(workload, ()) if each != number]
            if after is not None and after.workload == workload:
                left = sorted([*left, number])
            if left:
                self._by_workload[workload] = tuple(left)
            else:
                self._by_workload.pop(workload, None)

    def _count(self, admission: Admission, more: int) -> None:
        counts = self._priorities.setdefault(admission.queue, {})
        counts[admission.priority] = counts.get(admission.priority, 0) + more
        if not counts[admission.priority]:
            del counts[admission.priority]

    def lowest_priority(self, queue: QueueName) -> int | None:
        """The lowest priority of the admissions of a queue; None if it has none."""
        return min(self._priorities.get(queue, ()), default=None)

    def in_subtree(self, queue: QueueName, tree: QueueTree) -> Iterator[AdmissionId]:
        """Admissions of a queue and of everything below it."""
        for name, numbers in self._by_queue.items():
            if queue in tree.paths.get(name, ()):
                yield from numbers

    def of(self, workload: WorkloadKey) -> tuple[AdmissionId, ...]:
        """Admissions of a workload, the oldest first."""
        return self._by_workload.get(workload, ())

    def on_nodes(
        self, nodes: Iterable[NodeName], admissions: Mapping[AdmissionId, Admission]
    ) -> set[AdmissionId]:
        """Admissions with a seat on these nodes, ended ones included. ``admissions``: all."""
        if self._by_node is None:
            self._by_node = {}
            for number, admission in admissions.items():
                self._seat(number, None, admission)
        return set[AdmissionId]().union(*(self._by_node.get(node, ()) for node in nodes))

    def _seat(self, number: AdmissionId, before: Admission | None, after: Admission | None) -> None:
        assert self._by_node is not None
        for node in {seat.node for seat in before.seats} if before is not None else ():
            on_node = self._by_node[node]
            on_node.discard(number)
            if not on_node:
                del self._by_node[node]
        for node in {seat.node for seat in after.seats} if after is not None else ():
            self._by_node.setdefault(node, set()).add(number)


@dataclass(slots=True, eq=False)
class SeatLookup:
    """Seats of workloads in this turn, worked out for each when it is asked for."""

    _snapshot: Snapshot
    _open: OpenAdmissions
    #: Seats that adopted pods have got in this turn.
    _adopted: dict[WorkloadKey, list[Seat]] = field(default_factory=dict)

    def held(self, key: WorkloadKey) -> list[Seat]:
        """Seats of a workload's open admissions, without those that are freed in this turn; and adopted ones."""
        snapshot = self._snapshot
        held = list(self._adopted.get(key, ()))
        for number in self._open.of(key):
            admission = snapshot.admissions[number]
            if admission.state is AdmissionState.OPEN and number not in snapshot.evictable:
                held += snapshot.still_held(admission)
        held.sort(key=lambda seat: (seat.pod_set, seat.ordinal, seat.node))
        return held

    def leaving_admission(self, key: WorkloadKey) -> AdmissionId | None:
        """The last admission of a workload with pods that are being removed; None if there is none."""
        snapshot = self._snapshot
        for number in reversed(self._open.of(key)):
            admission = snapshot.admissions[number]
            leaving = admission.state is not AdmissionState.OPEN or number in snapshot.evictable
            if leaving and snapshot.still_held(admission):
                return number
        return None

    def adopt(self, workload: WorkloadKey, seats: Iterable[Seat]) -> None:
        """Seats that adopted pods of a workload have got."""
        self._adopted.setdefault(workload, []).extend(seats)


def within(
    limit: PlanLimit,
    snapshot: Snapshot,
    without_seats: Iterable[AdmissionId],
    trial: Trial,
    seats: SeatLookup,
) -> Plan:
    """What there is no choice about, as much as a plan holds; ``limit`` is reached: there is more."""
    freed = limit.take(frees(snapshot, without_seats, trial), lambda free: len(free.seats))
    evicted = limit.take(evicts(snapshot, freed), lambda _: 1)
    adopted = limit.take(adopts(snapshot, trial, seats), lambda adopt: len(adopt.admit.seats))
    started = limit.take(sorted(snapshot.started), lambda _: 1)
    ready = limit.take(sorted(snapshot.ready), lambda _: 1)
    return Plan(
        now=snapshot.now,
        ledger_seq=snapshot.ledger_seq,
        frees=freed,
        evicts=evicted,
        adopts=adopted,
        starts=started,
        ready=ready,
        stopped=limit.is_reached(),
    )


def frees(snapshot: Snapshot, without_seats: Iterable[AdmissionId], trial: Trial) -> Iterator[Free]:
    """Seats of pods that have ended, freed in the trial too; and admissions that hold nothing any more."""
    for number in sorted({*snapshot.ended, *without_seats}):
        admission = snapshot.admissions.get(number)
        if admission is None:
            continue
        over = snapshot.ended.get(number, frozenset())
        freed_now = frozenset(index for index in over if index < len(admission.seats)) - admission.ended
        closes = len(freed_now) + len(admission.ended) == len(admission.seats)
        if freed_now or closes:
            freed = [admission.seats[index] for index in sorted(freed_now)]
            trial.remove_seats(admission.queue, charges(freed), freed)
            trial.post_to_user(admission.queue, snapshot.user_of(admission), charges(freed), times=-1)
            yield Free(admission=number, seats=freed_now, closes=closes)


def evicts(snapshot: Snapshot, freed: Iterable[Free]) -> Iterator[Evict]:
    """Admissions to evict whole; their seats stay held until the pods are gone."""
    closed = {free.admission for free in freed if free.closes}
    for number, rollback in sorted(snapshot.evictable.items()):
        admission = snapshot.admissions.get(number)
        if admission is not None and admission.state is AdmissionState.OPEN and number not in closed:
            yield Evict(admission=number, **rollback._asdict())


def adopts(snapshot: Snapshot, trial: Trial, seats: SeatLookup) -> Iterator[Adopt]:
    """Pods that run without an admission enter the books of their queue, whatever its limits say.

    Their amounts are in the table's ``used`` already: they are on the nodes.
    """
    for unbooked in sorted(snapshot.unbooked, key=lambda each: each.workload):
        pods = sorted(unbooked.pods, key=lambda pod: (pod.pod_set, pod.ordinal, pod.uid))
        admit = _adopted(unbooked, pods, snapshot, joins=bool(seats.held(unbooked.workload)))
        trial.usage.add(unbooked.queue, charges(admit.seats))
        trial.post_to_user(unbooked.queue, snapshot.user_of_workload(unbooked.workload), charges(admit.seats))
        seats.adopt(unbooked.workload, admit.seats)
        yield Adopt(admit=admit, pods={pod.uid: index for index, pod in enumerate(pods)})


def _adopted(unbooked: Unbooked, pods: Sequence[UnbookedPod], snapshot: Snapshot, *, joins: bool) -> Admit:
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
                pod_set=pod.pod_set,
                ordinal=pod.ordinal,
                node=pod.node,
                flavor=snapshot.nodes.flavor(pod.node),
                takes=pod.takes,
            )
            for pod in pods
        ),
        elastic=joins,
        since=unbooked.since,
        minimum=0 if workload is None or joins else workload.gang_size(),
    )


def workloads_in_transition(snapshot: Snapshot) -> set[WorkloadKey]:
    """Workloads that are sorted again in the next turn, because their seats or answer hold for this turn only."""
    numbers = (*snapshot.ended, *snapshot.evictable)
    found = {snapshot.admissions[number].workload for number in numbers if number in snapshot.admissions}
    found.update(each.workload for each in snapshot.unbooked)
    return found
