"""Seats for which a pod may still come by a write of an earlier term: a new leader keeps them for a minute. Pure.

A leader sends nothing once its lease is not certain, so everything was sent before the next term began; the API server
works on a request for up to a minute (``--request-timeout``). What is under way is not known, but what it could do is:
resume a Job that is suspended, let a pod go that is gated, make a pod of a Volcano Job. Each of these is for one seat,
or for all seats of an admission, and no second one is sent for a seat until its pod has been seen.
"""

from admission.decode.workload_facts import pods_generation
from admission.facts import WorkloadFact
from admission.workloads.inputs import SeatIndices
from admission.workloads.kinds import Holding, support_of
from admission.workloads.seats import awaits_seat
from admission.world.world import World
from queues.admissions import Admission
from queues.workload import AdmissionId, WorkloadKey


class InheritedSeats:
    """The seats that a term found when it began."""

    def __init__(self, world: World, now: float, seconds: float) -> None:
        """``now``: seconds of a clock that cannot be set: Postgres' clock may jump when another server takes over,
        which ends a term too. ``seconds``: for which a request may be under way after it was sent."""
        self._world = world
        self._until = now + seconds
        self._admissions = frozenset(world.admissions)
        #: Pods that Muster had made again by then.
        self._recreated = frozenset(uid for uid, pod in world.pods.items() if pod.recreated_from is not None)
        #: Seats that a pod was seen in: no other one is on its way to them.
        self._seen: dict[AdmissionId, set[int]] = {}
        #: Workloads with seats that are kept.
        self._kept: set[WorkloadKey] = set()

    def of(self, key: WorkloadKey, now: float) -> SeatIndices:
        """Seats of a workload for which a pod may still come at ``now`` (by the same clock)."""
        if now >= self._until:
            return {}
        inherited = [
            each
            for each in self._world.admission_index.of(key)
            if each.id in self._admissions and self._may_be_written(each)
        ]
        if not inherited:
            return {}
        # Nothing is remembered of gangs that run: most of those that a term finds do.
        self._note_pods(key)
        kept = {
            each.id: frozenset(range(len(each.seats))) - self._seen.get(each.id, set()) for each in inherited
        }
        found = {id_: seats for id_, seats in kept.items() if seats}
        if found:
            self._kept.add(key)
        return found

    def due(self, now: float) -> frozenset[WorkloadKey]:
        """Workloads with seats that are kept no longer, once."""
        if now < self._until:
            return frozenset()
        due = frozenset(self._kept)
        self._admissions = frozenset()
        self._kept.clear()
        self._seen.clear()
        return due

    def _note_pods(self, key: WorkloadKey) -> None:
        world = self._world
        outcomes = world.outcomes.get(key, {})
        for admission in world.admission_index.of(key):
            if admission.id not in self._admissions:
                continue
            adopted = admission.adopted or {}
            places = set(outcomes)
            seen = self._seen.setdefault(admission.id, set())
            for uid in world.pod_index.uids_of(key):
                pod = world.pods[uid]
                if uid in adopted:
                    seen.add(adopted[uid])
                elif pod.admission == admission.id and pod.seat is not None:
                    places.add(pod.seat)
            if places:
                seen.update(
                    index
                    for index, seat in enumerate(admission.seats)
                    if (seat.pod_set, seat.ordinal) in places
                )

    def _may_be_written(self, admission: Admission) -> bool:
        """Whether a write for a seat of this admission may be under way and could still be carried out."""
        key = admission.workload
        holding = support_of(key).holding
        if holding is Holding.NO_PODS:
            # Once all its pods were bound only those are made that replace one which ended.
            return not admission.started
        if holding is Holding.SUSPENDED and _may_be_resumed(self._world.facts.get(key), admission):
            return True
        return any(self._may_be_let_go(uid) for uid in self._world.pod_index.uids_of(key))

    def _may_be_let_go(self, uid: str) -> bool:
        """Whether a release of a pod may be under way. None is of one that was made again in this term."""
        pod = self._world.pods[uid]
        return awaits_seat(pod) and (pod.recreated_from is None or uid in self._recreated)


def _may_be_resumed(fact: WorkloadFact | None, admission: Admission) -> bool:
    """Whether a resumption for this admission could be carried out. A Job that names it was resumed for it already, and
    one that asks something else has another ``metadata.generation`` than the one that a resumption is for.
    """
    if fact is None or fact.finished or fact.deleting or fact.directed == admission.id:
        return False
    same = pods_generation(admission.generation) in ("", pods_generation(fact.generation))
    return fact.suspended and same
