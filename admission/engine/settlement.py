"""What a turn has no choice about: seats that are over, admissions to take back, pods that run already."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from admission.engine.plan import Admit, Adopt, Evict, Free
from admission.engine.snapshot import Snapshot, Unbooked
from admission.engine.trial import Trial
from queues.resources import Resources
from queues.usage import accounts, seats_by_flavor
from queues.workload import AdmissionId, AdmissionState, NodeName, Seat, WorkloadKey


@dataclass(slots=True, eq=False)
class Seats:
    """Who sits where, for the workloads that the turn is about."""

    #: Seats that count for a workload: of its open admissions, without those that are freed in this turn.
    held: dict[WorkloadKey, list[Seat]] = field(default_factory=dict)
    #: Workloads with an admission whose pods are being removed.
    leaving: dict[WorkloadKey, AdmissionId] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Seats":
        """Seats of pending and unbooked workloads."""
        about = {each.workload for each in snapshot.unbooked}
        seats = cls()
        for number, admission in snapshot.admissions.items():
            key = admission.workload
            if key not in snapshot.pending and key not in about:
                continue
            gone = admission.ended | snapshot.ended.get(number, frozenset())
            left = [seat for index, seat in enumerate(admission.seats) if index not in gone]
            if not left:
                continue
            if admission.state is AdmissionState.OPEN and number not in snapshot.evictable:
                seats.add(key, left)
            else:
                seats.leaving[key] = max(number, seats.leaving.get(key, number))
        for held in seats.held.values():
            held.sort(key=lambda seat: (seat.pod_set, seat.ordinal, seat.node))
        return seats

    def add(self, workload: WorkloadKey, more: Iterable[Seat]) -> None:
        """Seats that the workload has as well."""
        self.held.setdefault(workload, []).extend(more)


def frees(snapshot: Snapshot, trial: Trial) -> Iterator[Free]:
    """Seats whose pods are over, given back in the trial too; and admissions that hold nothing any more."""
    for number, admission in sorted(snapshot.admissions.items()):
        over = snapshot.ended.get(number, frozenset())
        given_back = frozenset(index for index in over if index < len(admission.seats)) - admission.ended
        closes = len(given_back) + len(admission.ended) == len(admission.seats)
        if given_back or closes:
            freed = [admission.seats[index] for index in sorted(given_back)]
            trial.give_back(admission.queue, accounts(seats_by_flavor(freed)), freed)
            yield Free(admission=number, seats=given_back, closes=closes)


def evicts(snapshot: Snapshot, freed: Iterable[Free]) -> Iterator[Evict]:
    """Admissions to take back whole; their seats stay held until the pods are gone."""
    closed = {free.admission for free in freed if free.closes}
    for number, (code, message, not_before) in sorted(snapshot.evictable.items()):
        admission = snapshot.admissions.get(number)
        if admission is not None and admission.state is AdmissionState.OPEN and number not in closed:
            yield Evict(admission=number, code=code, message=message, not_before=not_before)


def adopts(snapshot: Snapshot, trial: Trial, seats: Seats) -> Iterator[Adopt]:
    """Pods that run without an admission enter the books of their queue, whatever its limits say.

    Their amounts are in the table's ``used`` already: they are on the nodes.
    """
    for unbooked in sorted(snapshot.unbooked, key=lambda each: each.workload):
        admit = _adopted(unbooked, snapshot, joins=unbooked.workload in seats.held)
        trial.usage.add(unbooked.queue, accounts(seats_by_flavor(admit.seats)))
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
