"""Seats for which a pod may still come by a write of an earlier term: a new leader keeps them for a minute. Pure.

A leader sends nothing once its lease is not certain, so everything was sent before the next term began; the API server
works on a request for up to a minute (``--request-timeout``). What is under way is not known, but what it could do is:
resume a Job that is suspended, let a pod go that is gated, make a pod of a Volcano Job. Each of these is for one seat,
or for all seats of an admission, and no second one is sent for a seat until its pod has been seen.
"""

from admission.decode.workload_facts import pods_generation
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import SeatIndices
from admission.workloads.job_counts import may_make_pods
from admission.workloads.kinds import Holding, support_of
from admission.workloads.seats import awaits_seat
from admission.world.world import World
from queues.admissions import Admission, AdmissionState
from queues.workload import AdmissionId, WorkloadKey


class InheritedSeats:
    """The seats that a term found when it began."""

    def __init__(self, world: World, now: float, seconds: float) -> None:
        """``now``: seconds of a clock that cannot be set: Postgres' clock may jump when another server takes over,
        which ends a term too. ``seconds``: for which a request may be under way after it was sent."""
        self._world = world
        self._until = now + seconds
        #: Admissions for which a write may be under way, as far as is known by now.
        self._admissions = set(world.admissions)
        #: Pods that Muster had made again by then, and seen. While the intent is stored none was let go.
        self._recreated = frozenset(
            uid
            for uid, pod in world.pods.items()
            if pod.recreated_from is not None and pod.recreated_from not in world.recreations.stored
        )
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
        self._admissions.clear()
        self._kept.clear()
        self._seen.clear()
        return due

    def _note_pods(self, key: WorkloadKey) -> None:
        for admission in self._world.admission_index.of(key):
            if admission.id in self._admissions:
                self._seen.setdefault(admission.id, set()).update(self._with_pods(admission))

    def _with_pods(self, admission: Admission) -> set[int]:
        """Seats (indices) with a pod, or with one that ended and is not made again."""
        world, adopted = self._world, admission.adopted or {}
        found: set[int] = set()
        places = set(world.volcano_jobs.outcomes.get(admission.workload, {}))
        for uid in world.pod_index.uids_of(admission.workload):
            pod = world.pods[uid]
            if uid in adopted:
                found.add(adopted[uid])
            elif pod.admission == admission.id and pod.seat is not None:
                places.add(pod.seat)
        if places:
            found.update(
                index for index, seat in enumerate(admission.seats) if (seat.pod_set, seat.ordinal) in places
            )
        return found

    def _may_be_written(self, admission: Admission) -> bool:
        """Whether a write for a seat of this admission may be under way and could still be carried out."""
        key = admission.workload
        holding = support_of(key).holding
        if holding is Holding.NO_PODS:
            if admission.started and admission.id not in self._seen and self._lacks_no_pod(admission):
                # Nothing is remembered of gangs that run: most of those that a term finds do.
                self._admissions.discard(admission.id)
            return admission.id in self._admissions
        fact = self._world.facts.get(key)
        if holding is Holding.SUSPENDED and fact is not None and _may_be_resumed(fact, admission):
            return True
        if fact is None and support_of(key).is_group:
            # Gated members of a group that is gone are not known as its own.
            return True
        return any(self._may_be_let_go(uid) for uid in self._world.pod_index.uids_of(key))

    def _lacks_no_pod(self, admission: Admission) -> bool:
        """Whether no pod of a gang that had started was to be made when the term began. One that goes back loses its
        pods by that; one that replaces another, and was sent just before the eviction, is not waited for.
        """
        if admission.state is AdmissionState.EVICTING:
            return True
        held = set(range(len(admission.seats))) - admission.ended
        return held <= self._with_pods(admission)

    def _may_be_let_go(self, uid: str) -> bool:
        """Whether a release of a pod may be under way. None is of one that was made again in this term."""
        pod = self._world.pods[uid]
        return awaits_seat(pod) and (pod.recreated_from is None or uid in self._recreated)


def _may_be_resumed(fact: WorkloadFact, admission: Admission) -> bool:
    """Whether a resumption for this admission could be carried out.

    One for a Job that asked something else, or was suspended for its eviction since, is for another
    ``metadata.generation``. A Job that was resumed and that its user has suspended is resumed again.
    """
    if fact.finished or fact.deleting:
        return False
    evicting = admission.state is AdmissionState.EVICTING
    if evicting and fact.directed == admission.id and not may_make_pods(fact, admission):
        return False
    same = pods_generation(admission.generation) in ("", pods_generation(fact.generation))
    return fact.suspended and same
