"""When the admissions of a term were released, bound and running, until a ledger transaction stores it.

Nothing is written for it alone: the times go with the start, the readiness, the eviction or the end of the admission.
A leader that takes over knows what the pods show: when they were made, bound and ready.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from admission.workloads.seats import SeatMap
from admission.workloads.state import WorkloadState
from queues.admissions import Admission, StageTimes
from queues.plan import Plan
from queues.workload import AdmissionId, WorkloadKey

#: Seconds after which a pod is not seen to be bound but was so for a while, as a new leader finds it.
_LATE: Final = 2


class AdmissionStages:
    """What is known of admissions and not stored yet."""

    def __init__(self) -> None:
        self._released: dict[AdmissionId, float] = {}
        self._running: dict[AdmissionId, float] = {}

    def note_released(self, ids: Iterable[AdmissionId], now: float) -> None:
        """A pod of each of these admissions was handed to the scheduler. The last pod before the start counts."""
        self._released.update(dict.fromkeys(ids, now))

    def note_state(self, state: WorkloadState) -> None:
        """The pods of some of its admissions are ready together; the first time counts."""
        for id_, since in state.running.items():
            self._running.setdefault(id_, since)

    def of(
        self,
        plan: Plan,
        admissions: Mapping[AdmissionId, Admission],
        states: Mapping[WorkloadKey, WorkloadState],
        now: float,
    ) -> dict[AdmissionId, StageTimes]:
        """The times of the admissions that a plan changes, as far as the ledger lacks them. ``now``: by its clock."""
        found = {}
        for id_ in plan.starts:
            place = _place(id_, admissions[id_], states)
            found[id_] = StageTimes(
                released=self._released.get(id_, _made_at(place)),
                bound=_bound_at(place, now),
                running=self._running.get(id_),
            )
        for id_ in plan.ready:
            found.setdefault(id_, StageTimes(running=self._running.get(id_)))
        leaving = [each.admission for each in plan.evicts]
        leaving += [each.admission for each in plan.frees if each.closes]
        for id_ in leaving:
            known = StageTimes(
                released=None if admissions[id_].started else self._released.get(id_),
                running=None if admissions[id_].ready else self._running.get(id_),
            )
            if id_ not in found and known != StageTimes():
                found[id_] = known
        return found

    def forget(self, plan: Plan) -> None:
        """A plan is stored, with the times of the admissions that it changes."""
        for id_ in plan.ready:
            self._running.pop(id_, None)
        for free in plan.frees:
            if free.closes:
                self._running.pop(free.admission, None)
                self._released.pop(free.admission, None)


def _place(
    id_: AdmissionId, admission: Admission, states: Mapping[WorkloadKey, WorkloadState]
) -> SeatMap | None:
    state = states.get(admission.workload)
    places = () if state is None else state.seat_maps
    return next((place for place in places if place.admission.id == id_), None)


def _made_at(place: SeatMap | None) -> float | None:
    """When the last pod was made, if that was for the admission; None if the pods were there before."""
    created = [] if place is None else [pod.created for pod in place.seated.values()]
    if place is None or not created or place.admission.adopted or min(created) < place.admission.opened_at:
        return None
    return max(created)


def _bound_at(place: SeatMap | None, now: float) -> float:
    """When the last pod was bound: now, or, if that was seen late, when the pods say."""
    said = max((pod.bound_at for pod in place.seated.values()), default=0) if place is not None else 0
    return said if said and said + _LATE < now else now
