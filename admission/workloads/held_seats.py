"""What one workload holds now: its seats and the pods in them, and which of these seats are given back.

Pure, as the state of a workload that follows from it (``admission.workloads.state``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from admission.facts.pods import PodFact
from admission.workloads.ended_seats import as_controlled, pods_to_come, seats_over
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.kinds import Holding, KindSupport
from admission.workloads.kinds.job_syncs import NO_SYNCS, JobSyncs, syncs_of
from admission.workloads.pod_sets import RefusedPlaces, SetOnNode, enlarged
from admission.workloads.refusals import refusals_of
from admission.workloads.request_changes import RequestChanges, request_changes
from admission.workloads.rollback import is_refused, outgrowing_pods
from admission.workloads.seats import SeatMap, seat_maps_of
from queues.admissions import AdmissionState
from queues.workload import AdmissionId, NodeName, PodSet

SeatIndices = Mapping[AdmissionId, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSeats:
    """The seats of one workload, with what becomes of them now."""

    #: With the object as its controller follows it.
    inputs: WorkloadInputs
    support: KindSupport
    #: The workload ended, or its object is gone.
    over: bool
    #: Of all its admissions, and of those that are open.
    seat_maps: tuple[SeatMap, ...]
    open: tuple[SeatMap, ...]
    pod_sets: tuple[PodSet, ...]
    #: How pods differ from what they were admitted with.
    changes: RequestChanges
    #: Pods that lost their seat after the gang started.
    misplaced: tuple[PodFact, ...]
    #: Nodes on which the scheduler refuses pods of the workload now, with its words; and what is left out for that.
    refusing: Mapping[SetOnNode, str]
    left_out: RefusedPlaces
    syncs: JobSyncs
    #: Seats that are given back, and all for which no pod comes: some of these are given back later.
    ended: SeatIndices
    without_pod: SeatIndices

    def left(self) -> tuple[SeatMap, ...]:
        """The seat maps without what is given back."""
        return _without(self.seat_maps, self.ended)

    def awaiting_pods(self) -> list[SeatMap]:
        """Open seat maps, without the seats for which no pod comes."""
        return [place for place in _without(self.seat_maps, self.without_pod) if _is_open(place)]

    def open_seats(self) -> int:
        """Number of seats that count for what the workload wants."""
        counted = self.left() if self.support.is_group else self.seat_maps
        return sum(len(place.admission.holding()) for place in counted if _is_open(place))


def held_seats(
    inputs: WorkloadInputs, support: KindSupport, now: int, timeouts: Timeouts, *, over: bool
) -> HeldSeats:
    """What a workload with pods or admissions holds. ``now`` in seconds."""
    seat_maps = seat_maps_of(inputs.admissions, inputs.pods)
    inputs = as_controlled(inputs, seat_maps)
    open_ = tuple(filter(_is_open, seat_maps))
    misplaced = tuple(_misplaced(open_, inputs, now, timeouts))
    refusing = refusals_of(seat_maps, inputs, now, timeouts)
    held = HeldSeats(
        inputs=inputs,
        support=support,
        over=over,
        seat_maps=seat_maps,
        open=open_,
        pod_sets=enlarged(support.pod_sets(inputs, seat_maps), inputs.larger),
        changes=request_changes(inputs, open_),
        misplaced=misplaced,
        refusing=refusing,
        left_out=inputs.refused.with_places(refusing) if misplaced else inputs.refused,
        syncs=syncs_of(inputs, seat_maps, now, timeouts)
        if support.holding is Holding.SUSPENDED
        else NO_SYNCS,
        ended={},
        without_pod={},
    )
    if inputs.job_restarts and not over:
        return held
    without_pod = dict(_seats_without_pod(held))
    ended = {
        place.admission.id: seats
        for place in seat_maps
        if held.syncs.allow_end(place.admission)
        and ((seats := without_pod[place.admission.id]) or not place.admission.holding())
    }
    held = replace(held, ended=ended, without_pod=without_pod)
    if ended and support.is_group:
        # The pod sets of a group follow from its seats too; seats that end now have no successor.
        held = replace(held, pod_sets=support.pod_sets(inputs, held.left()))
    return held


def _misplaced(
    open_: Sequence[SeatMap], inputs: WorkloadInputs, now: int, timeouts: Timeouts
) -> Iterator[PodFact]:
    """Pods of started gangs that the scheduler refuses, in their seats or because they have outgrown them."""
    for place in open_:
        if place.admission.started:
            for pod in (*place.seated.values(), *outgrowing_pods(place)):
                if is_refused(pod, place, inputs, now, timeouts):
                    yield pod


def _seats_without_pod(held: HeldSeats) -> Iterator[tuple[AdmissionId, frozenset[int]]]:
    """Of each admission, the seats for which no pod comes any more."""
    inputs, support, over = held.inputs, held.support, held.over
    expected = partial(pods_to_come, inputs.fact, support, inputs.pods, held.pod_sets)
    to_come = expected(held.seat_maps) if held.seat_maps and not over else None
    dead = inputs.dead_nodes | inputs.avoided_nodes | held.left_out.nodes
    for place in held.seat_maps:
        number = place.admission.id
        # A directed Job's pods are made again for the same nodes, so it goes back whole instead.
        directed = inputs.fact is not None and inputs.fact.directed == number
        # A Job that is suspended goes back whole as well.
        kept = support.holding is not Holding.NO_PODS
        yield (
            number,
            seats_over(
                place,
                # All pods of a directed Job come for its admission, also those after one that was adopted elsewhere.
                to_come=expected([place]) if directed and not over else to_come,
                dead=frozenset[NodeName]() if directed else dead,
                outgrown=frozenset() if kept else held.changes.outgrown.get(number, frozenset()),
                awaited=inputs.awaited.get(number, frozenset()),
            ),
        )


def _is_open(place: SeatMap) -> bool:
    return place.admission.state is AdmissionState.OPEN


def _without(seat_maps: Sequence[SeatMap], ended: SeatIndices) -> tuple[SeatMap, ...]:
    """The seat maps after these seats are given back."""
    return tuple(
        replace(place, admission=replace(place.admission, ended=place.admission.ended | seats))
        if (seats := ended.get(place.admission.id))
        else place
        for place in seat_maps
    )
