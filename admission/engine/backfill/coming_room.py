"""Room that comes back in pieces: seats of work that is being removed, kept for the first that they suffice for.

The pods of a gang that is deleted, or taken back, end one after the other. If each node were given away as it gets
free, a gang that is first in line would never see them together: smaller work behind it takes every piece. So a turn
asks, of those that lack room, the first few in the order of the line whether they would fit when all that is leaving is
gone. The first of them to come to the head of the line keeps what it will need of the room that is free now; all that
cannot help it is given on. What is before it in the line is not held up.

Seats count as leaving for a minute: a pod that does not end holds nobody up for longer than that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.engine.claims import HeldClaims
from admission.engine.nodes.host_ports import NodePorts, ports_of
from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.screening import Screening
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.accounts import Account, charges
from queues.workload import AdmissionId, QueueName

#: Seconds for which the seats of work that is being removed count as about to be free. The grace period of pods is half
#: a minute unless they say otherwise.
LEAVING_SECONDS: Final = 60
#: So many classes that lack room are looked at in a turn, by sums, and so many of them are tried.
_LOOKED_AT: Final = 32
_TRIED: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class ComingRoom:
    """What will be free when all that is leaving now is gone, and when that is no longer expected."""

    #: By admission: the seats that it still holds.
    seats: Mapping[AdmissionId, tuple[Seat, ...]]
    #: What their queues get back.
    _charges: Sequence[tuple[QueueName, Mapping[Account, int]]]
    _ports: Sequence[NodePorts]
    _held: HeldClaims
    #: The first second at which one of the admissions does not count any more.
    until: int

    @classmethod
    def of(cls, snapshot: Snapshot, evicting: Iterable[AdmissionId], held: HeldClaims) -> "ComingRoom | None":
        """The room that comes back. None: none does. ``evicting``: all admissions in that state."""
        leaving, until = dict[AdmissionId, tuple[Seat, ...]](), list[int]()
        books: list[tuple[QueueName, Mapping[Account, int]]] = []
        ports: list[NodePorts] = []
        for admission, since in _leaving(snapshot, evicting):
            end = since + LEAVING_SECONDS
            if end <= snapshot.now or not (seats := snapshot.still_held(admission)):
                continue
            leaving[admission.id] = seats
            until.append(end)
            books.append((admission.queue, charges(seats)))
            if (holder := snapshot.holders.get(admission.workload)) is not None:
                ports += ports_of(holder, seats)
        return cls(leaving, books, ports, held, min(until)) if leaving else None

    def after(self, trial: Trial) -> Trial:
        """The world when they are gone, and nothing else has changed: a trial of its own."""
        later = self._held.after_leaving(trial, self.seats)
        later.ports.vacate(self._ports)
        for queue, amounts in self._charges:
            later.usage.remove(queue, amounts)
        return later

    def helped(self, refused: Iterable[WorkloadClass], trial: Trial) -> Iterator[WorkloadClass]:
        """Those of these classes that may fit afterwards, by sums; of single pods those that no single seat is enough
        for. A few of them, the first."""
        largest = max(size_of_pod(seat.takes) for seats in self.seats.values() for seat in seats)
        later, screening, looked_at, found = self.after(trial), Screening(), 0, 0
        for each in refused:
            need, workload = each.request.need, each.placement_class.workload
            if not need.of_gang and all(size_of_pod(pods.takes) <= largest for pods in workload.pod_sets):
                continue
            if looked_at >= _LOOKED_AT or found >= _TRIED:
                return
            looked_at += 1
            choices = each.request.minimum_charges
            if choices and all(quota_hit(later, each.queue, asked) is not None for asked in choices):
                continue
            if screening.may_fit(each.placement_class, later):
                found += 1
                yield each


def _leaving(snapshot: Snapshot, evicting: Iterable[AdmissionId]) -> Iterator[tuple[Admission, int]]:
    """Admissions of which the pods are being removed, each once, and since when."""
    for number in sorted({*evicting, *snapshot.leaving, *snapshot.evictable}):
        admission = snapshot.admissions.get(number)
        if admission is None:
            continue
        if admission.state is AdmissionState.EVICTING:
            yield admission, admission.evicted_at
        else:
            yield admission, snapshot.leaving.get(number, snapshot.now)
