"""One workload as a whole: what it lacks, which of its seats are over, which admissions must go back.

Pure: everything that is known about the workload comes in as a ``WorkloadInputs``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from admission.engine.snapshot import Rollback, Unbooked
from admission.facts import PodFact
from admission.workloads.adoption import unbooked_of
from admission.workloads.ended_seats import seats_over, successors_of
from admission.workloads.inputs import DEFAULT_QUEUE, Timeouts, WorkloadInputs
from admission.workloads.kinds import Holding, KindSupport, support_of
from admission.workloads.pod_sets import elsewhere
from admission.workloads.rollback import (
    displaced_of,
    evictable_of,
    is_refused,
    refusing_nodes,
    strays_of,
    unplaced,
)
from admission.workloads.seats import SeatMap, is_live, occupancies_of
from admission.workloads.workload import is_hollow, wanted, workload_of
from queues.admissions import Admission, AdmissionState
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, Obstacle, Workload, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """What follows for one workload."""

    key: WorkloadKey
    namespace: str
    name: str
    #: The workload with all it wants.
    workload: Workload
    #: Whether seats are lacking: it waits.
    lacking: bool
    #: The owner ended or is gone; only what it holds is left of it.
    over: bool
    pods: tuple[PodFact, ...] = ()
    occupancies: tuple[SeatMap, ...] = ()
    ended: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)
    started: tuple[AdmissionId, ...] = ()
    evictable: Mapping[AdmissionId, Rollback] = field(default_factory=dict)
    #: Pods whose seat is lost though the gang has started: to be removed, their seats end then.
    misplaced: tuple[PodFact, ...] = ()
    #: Nodes that refuse pods of the workload now. Where pods are misplaced, the workload asks for other nodes already.
    refusing_nodes: frozenset[NodeName] = frozenset()
    #: Live pods of admissions that are closed: to be removed.
    strays: tuple[PodFact, ...] = ()
    #: Pods that must go though nobody would make them again: they are removed once that is provided for.
    displaced: tuple[PodFact, ...] = ()
    unbooked: Unbooked | None = None
    #: Looks different later though nothing changes: a grace time runs.
    timed: bool = False

    def decisive(self) -> tuple[object, ...]:
        """What a decision may depend on."""
        wants = self.workload if self.lacking or self.occupancies else None
        return (wants, self.ended, self.started, self.evictable, self.unbooked)

    def described(self) -> tuple[object, ...]:
        """What Postgres tells about a workload to whoever asks another replica."""
        workload = self.workload
        asked = (workload.asks(), workload.minimum, workload.run_time)
        return (workload.queue, workload.priority, *asked, self.over)


def derive_state(sight: WorkloadInputs, now: int, patience: Timeouts) -> WorkloadState | None:
    """The portrait of one workload; None: nothing of it is left, or it is not ours."""
    support = support_of(sight.key)
    if not _exists(sight, support) and not sight.admissions:
        return None
    occupancies = occupancies_of(sight.admissions, sight.pods)
    over = _over(sight, support)
    pod_sets = support.pod_sets(sight, occupancies)
    unbooked = unbooked_of(sight, occupancies) if not over else None
    successors = successors_of(sight.fact, support, sight.pods, pod_sets, occupancies, over=over)
    open_ = [place for place in occupancies if place.admission.state is AdmissionState.OPEN]
    misplaced = tuple(
        pod
        for place in open_
        if place.admission.started
        for pod in place.sitting.values()
        if is_refused(pod, sight, now, patience)
    )
    refusing = refusing_nodes(occupancies)
    avoided = sight.refusing_nodes | refusing if misplaced else sight.refusing_nodes
    ended: dict[AdmissionId, frozenset[int]] = {}
    for place in occupancies:
        if _may_end(sight, support, place.admission, over):
            # A directed Job's pods are made again for the same nodes, so it goes back whole instead.
            directed = sight.fact is not None and sight.fact.directed == place.admission.id
            dead = frozenset[NodeName]() if directed else sight.dead_nodes | avoided
            seats = seats_over(place, successors=successors, dead=dead)
            if seats or not place.admission.holding():
                ended[place.admission.id] = seats
    left = _left(occupancies, ended)
    if ended and support.is_group:
        # A group's sets are told by its seats as well, and nobody comes for those that end now.
        pod_sets = support.pod_sets(sight, left)
    workload = workload_of(sight, elsewhere(pod_sets, avoided), occupancies)
    refused = [pod for place in open_ for pod in unplaced(place) if pod.refused and not pod.node]
    strays = strays_of(sight, occupancies)
    held = sum(
        len(place.admission.holding())
        for place in (left if support.is_group else occupancies)
        if place.admission.state is AdmissionState.OPEN
    )
    return WorkloadState(
        key=sight.key,
        namespace=workload.namespace,
        name=workload.name,
        workload=workload,
        lacking=not over and unbooked is None and (wanted(pod_sets) > held or is_hollow(workload, held)),
        over=over,
        pods=tuple(sight.pods),
        occupancies=occupancies,
        ended=ended,
        started=tuple(
            place.admission.id for place in open_ if not place.admission.started and _all_bound(place)
        ),
        evictable={} if over else evictable_of(sight, open_, now, patience),
        misplaced=misplaced,
        refusing_nodes=refusing,
        strays=strays,
        displaced=displaced_of(sight, occupancies, (*strays, *misplaced)),
        unbooked=unbooked,
        timed=bool(refused),
    )


def underivable_state(sight: WorkloadInputs, error: Exception) -> WorkloadState | None:
    """What is left to say where ``derive_state`` failed: the workload waits with that as its reason, and keeps its
    seats."""
    fact, pod = sight.fact, next(iter(sight.pods), None)
    last = sight.admissions[-1] if sight.admissions else None
    named = fact or pod or last
    if named is None:
        return None
    workload = Workload(
        key=sight.key,
        namespace=named.namespace,
        name=named.name,
        queue=named.queue or DEFAULT_QUEUE,
        arrival=sight.arrival or 0,
        minimum=0,
        pod_sets=(),
        obstacle=Obstacle(
            ReasonCode.DEFECT,
            f"Muster cannot handle this object ({type(error).__name__}); its log tells more",
        ),
    )
    return WorkloadState(
        key=sight.key,
        namespace=workload.namespace,
        name=workload.name,
        workload=workload,
        lacking=True,
        over=False,
    )


def _exists(sight: WorkloadInputs, support: KindSupport) -> bool:
    if support.is_pod:
        return bool(sight.recreations) or any(is_live(pod) for pod in sight.pods)
    fact = sight.fact
    return fact is not None and (fact.queue is not None or not support.needs_queue)


def _over(sight: WorkloadInputs, support: KindSupport) -> bool:
    if support.is_pod:
        return not (sight.recreations or any(is_live(pod) and not pod.deleting for pod in sight.pods))
    fact = sight.fact
    return fact is None or fact.finished or fact.deleting or sight.job_over


def _left(occupancies: Sequence[SeatMap], ended: Mapping[AdmissionId, frozenset[int]]) -> tuple[SeatMap, ...]:
    """Who sits where once these seats are given back."""
    return tuple(
        replace(place, admission=replace(place.admission, ended=place.admission.ended | seats))
        if (seats := ended.get(place.admission.id))
        else place
        for place in occupancies
    )


def _may_end(sight: WorkloadInputs, support: KindSupport, admission: Admission, over: bool) -> bool:
    """Whether a missing pod proves that nobody will come for its seat."""
    if sight.busy:
        return False
    fact, leaving = sight.fact, over or admission.state is AdmissionState.EVICTING
    if leaving and support.holding is Holding.SUSPENDED and fact is not None:
        return fact.finished or fact.deleting or (fact.suspended and fact.active == 0)
    return True


def _all_bound(place: SeatMap) -> bool:
    held = len(place.admission.holding())
    return held > 0 and sum(pod.node is not None for pod in place.sitting.values()) >= held
