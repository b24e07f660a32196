"""Room that comes back in pieces: seats of work that is being removed, kept for the first that they suffice for.

The pods of a gang that is deleted, or taken back, end one after the other. If each node were given away as it gets
free, a gang that is first in line would never see them together: smaller work behind it takes every piece. So a turn
asks, of those that lack room, the first few in the order of the line whether they would fit when all that is leaving is
gone. The first of them to come to the head of the line keeps what it will need of the room that is free now; all that
cannot help it is given on. What is before it in the line is not held up.

Seats count as leaving for a minute: a pod that does not end holds no workload up for longer than that.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from admission.engine.claims import HeldClaims
from admission.engine.nodes.host_ports import NodePorts, ports_of
from admission.engine.pending.classes import FOR_LACK_OF_ROOM, PlacementClass, WorkloadClass
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.screening import Screening, leaf_queues
from admission.engine.placement.flavors import quota_hit
from admission.engine.placement.need import size_of_pod, takes_of
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
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
    #: The size of the largest of the seats.
    _largest: int
    #: The first second at which one of the admissions does not count any more.
    until: int

    @classmethod
    def of(cls, snapshot: Snapshot, evicting: Iterable[AdmissionId], held: HeldClaims) -> "ComingRoom | None":
        """The room that comes back. None if none does. ``evicting``: all admissions in that state."""
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
        if not leaving:
            return None
        largest = max(size_of_pod(seat.takes) for seats in leaving.values() for seat in seats)
        return cls(leaving, books, ports, held, largest, min(until))

    def after(self, trial: Trial) -> Trial:
        """The world when they are gone, and nothing else has changed: a trial of its own."""
        later = self._held.after_leaving(trial, self.seats)
        later.ports.vacate(self._ports)
        for queue, amounts in self._charges:
            later.usage.remove(queue, amounts)
        return later

    def lacking(
        self, pending: PendingWorkloads, left_out: Container[WorkloadClass], later: Trial
    ) -> dict[QueueName, list[WorkloadClass]]:
        """Refused classes that it could be enough for in all, by queue; of strict queues the head alone.

        ``left_out``: classes that are not tried in this turn. ``later``: ``after``.
        """
        sums = later.free.clip(min=0).sum(axis=1)
        most = dict(zip(later.table.resources, sums.tolist(), strict=True))
        found: list[WorkloadClass] = []
        for placement in pending.placement_classes.values():
            lacks_room = placement.reason is not None and placement.reason.code in FOR_LACK_OF_ROOM
            if lacks_room and self._may_help(placement, most):
                found += placement.open_classes
        paths = later.tree.paths
        freed = {name for queue, _ in self._charges for name in paths.get(queue, ()) if name != ROOT}
        for queue in leaf_queues(pending, freed):
            found += (
                each
                for each in pending.classes.get(queue, {}).values()
                if each.queue_limit is not None and self._may_help(each.placement_class, most)
            )
        of_queue: dict[QueueName, list[WorkloadClass]] = {}
        for each in found:
            if each.is_considered and each not in left_out:
                of_queue.setdefault(each.queue, []).append(each)
        for queue in [each for each in of_queue if pending.is_strict(each)]:
            considered = (each for each in pending.classes[queue].values() if each.is_considered)
            head = min(considered, key=lambda each: each.class_queue.first())
            if head in of_queue.pop(queue):
                of_queue[queue] = [head]
        return of_queue

    def _may_help(self, placement: PlacementClass, most: Mapping[str, int]) -> bool:
        """Whether it may be enough for a placement class; single pods need more than one of the seats.

        ``most``: what is free in all when they are gone, by resource.
        """
        need, workload = placement.request.need, placement.workload
        if not need.of_gang and all(size_of_pod(pods.takes) <= self._largest for pods in workload.pod_sets):
            return False
        return all(units <= most.get(name, units) for name, units in takes_of(workload, need.minimum).items())

    def helped(self, refused: Iterable[WorkloadClass], later: Trial) -> Iterator[WorkloadClass]:
        """Those of these classes that may fit afterwards, node by node: a few of them, the first."""
        screening, found = Screening(), 0
        fits: dict[int, bool] = {}
        for each in islice(refused, _LOOKED_AT):
            choices = each.request.minimum_charges
            if choices and all(quota_hit(later, each.queue, asked) is not None for asked in choices):
                continue
            known = id(each.placement_class)
            if known not in fits:
                fits[known] = screening.may_fit(each.placement_class, later)
            if fits[known]:
                found += 1
                yield each
                if found >= _TRIED:
                    return


def _leaving(snapshot: Snapshot, evicting: Iterable[AdmissionId]) -> Iterator[tuple[Admission, int]]:
    """Admissions whose pods are being removed, each once, and since when."""
    for number in sorted({*evicting, *snapshot.leaving, *snapshot.evictable}):
        admission = snapshot.admissions.get(number)
        if admission is None:
            continue
        if admission.state is AdmissionState.EVICTING:
            yield admission, admission.evicted_at
        else:
            yield admission, snapshot.leaving.get(number, snapshot.now)
