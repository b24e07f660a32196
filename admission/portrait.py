"""One workload as a whole: what it lacks, which of its seats are over, which admissions must go back.

Pure: everything that is known about the workload comes in as a ``Sight``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from admission.compose import (
    BARE,
    Occupancy,
    awaits_seat,
    bare_pod_set,
    group_pod_sets,
    is_by_ordinal,
    is_live,
    numbered,
    occupancies_of,
    seats_over,
    shape_name,
    successors_of,
    taken_places,
    task_of,
)
from admission.engine.snapshot import Unbooked
from admission.facts import Conduct, PodFact, PodPhase, WorkloadFact
from admission.refusals import elsewhere
from queues.recreation import Recreation
from queues.resources import Resources
from queues.workload import (
    Admission,
    AdmissionId,
    AdmissionState,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadKind,
)

#: Where Volcano puts what names no queue.
DEFAULT_QUEUE = QueueName("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait before drawing conclusions. Seconds."""

    #: A refusal by the stock scheduler counts after this.
    refusal_grace: int = 10
    #: A gang that went back whole waits this long, doubled each time …
    backoff: int = 10
    #: … up to this.
    backoff_limit: int = 600

    @property
    def detour(self) -> int:
        """Nodes that refused a gang are left out for so long after its pause: as long as it takes to notice again."""
        return 3 * self.refusal_grace


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that is known about one workload."""

    key: WorkloadKey
    #: None: the object is gone, or it is a bare pod.
    fact: WorkloadFact | None
    #: Its pods, by name.
    pods: Sequence[PodFact]
    #: Its admissions that are not closed, oldest first.
    admissions: Sequence[Admission]
    #: None: not numbered yet.
    arrival: int | None
    #: Terminal outcomes of a Volcano Job's seats.
    outcomes: Mapping[tuple[str, int], PodPhase] = field(default_factory=dict)
    #: A Volcano Job that reached a final phase.
    job_over: bool = False
    #: Not before (seconds since the epoch), rollbacks so far.
    backoff: tuple[int, int] = (0, 0)
    #: Evictions for others so far, second of the last.
    setback: tuple[int, int] = (0, 0)
    #: Nodes of its seats on which a pod that is not there yet can no longer start …
    #: When (seconds) one of its bound pods was last seen to go, which made room; 0: not in this term.
    left_at: int = 0
    dead_nodes: frozenset[NodeName] = frozenset()
    #: Nodes that refused its pods a moment ago: it is not to be seated there.
    refusing_nodes: frozenset[NodeName] = frozenset()
    #: … among them those that are well, but others have taken the room.
    taken_nodes: frozenset[NodeName] = frozenset()
    #: Pods are being created right now: a missing pod means nothing yet.
    busy: bool = False
    #: Admission ids on pods that the ledger has closed: such pods are removed, not adopted.
    closed: frozenset[AdmissionId] = frozenset()
    #: Pods of it that were taken back, or are about to be, and are to be made again.
    recreations: tuple[Recreation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
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
    occupancies: tuple[Occupancy, ...] = ()
    ended: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)
    started: tuple[AdmissionId, ...] = ()
    evictable: Mapping[AdmissionId, tuple[str, str, int]] = field(default_factory=dict)
    #: Pods whose seat is lost though the gang has started: to be removed, their seats end then.
    misplaced: tuple[PodFact, ...] = ()
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


def portray(sight: Sight, now: int, patience: Patience) -> Portrait | None:
    """The portrait of one workload; None: nothing of it is left, or it is not ours."""
    if not _exists(sight) and not sight.admissions:
        return None
    occupancies = occupancies_of(sight.admissions, sight.pods)
    over = _over(sight)
    pod_sets = _pod_sets(sight, occupancies)
    unbooked = _unbooked(sight, pod_sets, occupancies) if not over else None
    successors = successors_of(sight.fact, sight.key.kind, sight.pods, pod_sets, occupancies, over=over)
    ended: dict[AdmissionId, frozenset[int]] = {}
    for place in occupancies:
        if _may_end(sight, place.admission, over):
            # A directed Job's pods are made again for the same nodes, so it goes back whole instead.
            directed = sight.fact is not None and sight.fact.directed == place.admission.id
            dead = frozenset[NodeName]() if directed else sight.dead_nodes | sight.refusing_nodes
            seats = seats_over(place, successors=successors, dead=dead)
            if seats or not place.admission.holding():
                ended[place.admission.id] = seats
    left = _left(occupancies, ended)
    if ended and sight.key.kind is WorkloadKind.POD_GROUP:
        # A group's sets are told by its seats as well, and nobody comes for those that end now.
        pod_sets = _pod_sets(sight, left)
    workload = _workload(sight, elsewhere(pod_sets, sight.refusing_nodes), occupancies)
    open_ = [place for place in occupancies if place.admission.state is AdmissionState.OPEN]
    refused = [pod for place in open_ for pod in _unplaced(place) if pod.refused and not pod.node]
    strays = _strays(sight, occupancies)
    misplaced = tuple(
        pod
        for place in open_
        if place.admission.started
        for pod in place.sitting.values()
        if _refused(pod, sight, now, patience)
    )
    held = sum(
        len(place.admission.holding())
        for place in (left if sight.key.kind is WorkloadKind.POD_GROUP else occupancies)
        if place.admission.state is AdmissionState.OPEN
    )
    return Portrait(
        key=sight.key,
        namespace=workload.namespace,
        name=workload.name,
        workload=workload,
        lacking=not over and unbooked is None and (_wanted(pod_sets) > held or _is_hollow(workload, held)),
        over=over,
        pods=tuple(sight.pods),
        occupancies=occupancies,
        ended=ended,
        started=tuple(
            place.admission.id for place in open_ if not place.admission.started and _all_bound(place)
        ),
        evictable={} if over else _evictable(sight, open_, now, patience),
        misplaced=misplaced,
        strays=strays,
        displaced=_displaced(sight, occupancies, (*strays, *misplaced)),
        unbooked=unbooked,
        timed=bool(refused),
    )


def _displaced(
    sight: Sight, occupancies: Sequence[Occupancy], others: Sequence[PodFact]
) -> tuple[PodFact, ...]:
    """Of the pods that must go those without a controller. Whom somebody deletes himself he does not want back."""
    if sight.key.kind not in (WorkloadKind.POD_GROUP, WorkloadKind.POD):
        return ()
    leaving = [
        pod
        for place in occupancies
        if place.admission.state is AdmissionState.EVICTING
        for pod in (*place.sitting.values(), *place.standing)
    ]
    found = {pod.uid: pod for pod in (*leaving, *others) if not (pod.controlled or pod.deleting)}
    return tuple(found.values())


def unportrayed(sight: Sight, error: Exception) -> Portrait | None:
    """What is left to say where ``portray`` failed: the workload waits with that as its reason, and keeps its seats."""
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
        obstacle=("Defect", f"Muster cannot handle this object ({type(error).__name__}); its log tells more"),
    )
    return Portrait(
        key=sight.key,
        namespace=workload.namespace,
        name=workload.name,
        workload=workload,
        lacking=True,
        over=False,
    )


def _strays(sight: Sight, occupancies: Sequence[Occupancy]) -> tuple[PodFact, ...]:
    """Live pods of admissions that are closed, and those that came for a seat that another pod has.

    What an adopted pod carries may be of another ledger, so it is none while it has a seat.
    """
    seated = {pod.uid for place in occupancies for pod in place.sitting.values()}
    late = {pod.uid for place in occupancies for pod in place.standing if pod.seat is not None}
    return tuple(
        pod
        for pod in sight.pods
        if is_live(pod) and pod.uid not in seated and (pod.admission in sight.closed or pod.uid in late)
    )


def _exists(sight: Sight) -> bool:
    match sight.key.kind:
        case WorkloadKind.POD:
            return bool(sight.recreations) or any(is_live(pod) for pod in sight.pods)
        case WorkloadKind.JOB:
            return sight.fact is not None and sight.fact.queue is not None
        case _:
            return sight.fact is not None


def _over(sight: Sight) -> bool:
    if sight.key.kind is WorkloadKind.POD:
        return not (sight.recreations or any(is_live(pod) and not pod.deleting for pod in sight.pods))
    fact = sight.fact
    return fact is None or fact.finished or fact.deleting or sight.job_over


def _left(
    occupancies: Sequence[Occupancy], ended: Mapping[AdmissionId, frozenset[int]]
) -> tuple[Occupancy, ...]:
    """Who sits where once these seats are given back."""
    return tuple(
        replace(place, admission=replace(place.admission, ended=place.admission.ended | seats))
        if (seats := ended.get(place.admission.id))
        else place
        for place in occupancies
    )


def _pod_sets(sight: Sight, occupancies: Sequence[Occupancy]) -> tuple[PodSet, ...]:
    fact = sight.fact
    if sight.key.kind is WorkloadKind.POD:
        return tuple(bare_pod_set(pod) for pod in sight.pods[:1])
    if fact is None:
        return ()
    if sight.key.kind is WorkloadKind.POD_GROUP:
        return group_pod_sets(fact, sight.pods, occupancies)
    if sight.key.kind is WorkloadKind.VOLCANO_JOB:
        return tuple(_without_done(pods, sight.outcomes) for pods in fact.pod_sets)
    if fact.indexed:
        return fact.pod_sets
    return tuple(
        numbered(pods, held, max(pods.count, len(held)))
        for pods in fact.pod_sets
        for held in [_held_ordinals(pods.name, occupancies)]
    )


def _without_done(pods: PodSet, outcomes: Mapping[tuple[str, int], PodPhase]) -> PodSet:
    # Who is done counts as present in the gang, so the minimum stays.
    done = frozenset(ordinal for name, ordinal in outcomes if name == pods.name)
    return replace(pods, done=done) if done else pods


def _held_ordinals(name: str, occupancies: Sequence[Occupancy]) -> set[int]:
    return {
        seat.ordinal
        for place in occupancies
        if place.admission.state is AdmissionState.OPEN
        for seat in place.admission.holding()
        if seat.pod_set == name
    }


def _wanted(pod_sets: Sequence[PodSet]) -> int:
    return sum(pods.count - len(pods.done) for pods in pod_sets)


def _is_hollow(workload: Workload, held: int) -> bool:
    """A group that waits for its pods, or an object that cannot be used: it has a reason but asks for nothing."""
    return held == 0 and workload.obstacle is not None


def _workload(sight: Sight, pod_sets: tuple[PodSet, ...], occupancies: Sequence[Occupancy]) -> Workload:
    fact = sight.fact
    arrival = sight.arrival or 0
    if fact is None:
        return _workload_of_pod(sight, pod_sets, arrival)
    draining = any(place.admission.state is AdmissionState.EVICTING for place in occupancies)
    obstacle = fact.obstacle or (
        ("Evicting", "its pods of an earlier admission are still ending") if draining else None
    )
    if sight.key.kind is WorkloadKind.POD_GROUP and not sight.admissions and obstacle is None:
        obstacle = _too_few_pods(sight, fact, pod_sets)
    return Workload(
        key=sight.key,
        namespace=fact.namespace,
        name=fact.name,
        queue=fact.queue or DEFAULT_QUEUE,
        priority=max([fact.priority, *(pod.priority for pod in _members(sight))]),
        arrival=arrival,
        created=fact.created,
        minimum=_minimum(sight, fact),
        pod_sets=pod_sets,
        generation=fact.generation,
        obstacle=obstacle,
        not_before=sight.backoff[0],
        **_interruption(sight, fact.conduct),
    )


class _Interruption(TypedDict):
    user: str
    run_time: int | None
    checkpoint_interval: int | None
    min_run_time: int
    cooldown: int
    preemptable: bool
    evictions: int
    waiting_since: int


def _interruption(sight: Sight, conduct: Conduct) -> _Interruption:
    """What is known about interrupting the work. Pods that nobody makes again go only where that is asked for."""
    said = [conduct.preemptable, *(pod.conduct.preemptable for pod in _members(sight))]
    alone = any(not pod.controlled for pod in sight.pods) and sight.key.kind in (
        WorkloadKind.POD,
        WorkloadKind.POD_GROUP,
    )
    evictions, waiting_since = sight.setback
    return {
        "user": conduct.user,
        "run_time": conduct.run_time,
        "checkpoint_interval": conduct.checkpoint_interval,
        "min_run_time": conduct.min_run_time,
        "cooldown": conduct.cooldown,
        "preemptable": False not in said and (True in said or not alone),
        "evictions": evictions,
        "waiting_since": waiting_since,
    }


def _members(sight: Sight) -> Sequence[PodFact]:
    """Pods of a group: they alone tell what it takes."""
    return sight.pods if sight.key.kind is WorkloadKind.POD_GROUP else ()


def _minimum(sight: Sight, fact: WorkloadFact) -> int:
    """The gang size. As in Volcano, members of a group that succeeded are part of the gang still."""
    return max(0, fact.minimum - sum(pod.phase is PodPhase.SUCCEEDED for pod in _members(sight)))


def _too_few_pods(sight: Sight, fact: WorkloadFact, pod_sets: Sequence[PodSet]) -> tuple[str, str] | None:
    exist, needed = _wanted(pod_sets), _minimum(sight, fact)
    if not exist and any(not is_live(pod) for pod in sight.pods):
        return None  # it is done
    if exist < needed or not exist:
        held = sum(pod.held_by_others for pod in sight.pods if awaits_seat(pod))
        beside = f"; {held} more wait for scheduling gates of others" if held else ""
        if sight.recreations:
            beside += f"; {len(sight.recreations)} were taken back and are being made again"
        return ("NotEnoughPods", f"{exist} of {max(needed, 1)} pods exist{beside}")
    for task, least in sorted(fact.task_minimums.items()):
        of_task = sum(len(pods.wanted()) for pods in pod_sets if task_of(pods.name) == task)
        if of_task < least:
            return ("NotEnoughPods", f"{of_task} of {least} pods of task {task} exist")
    return None


def _workload_of_pod(sight: Sight, pod_sets: tuple[PodSet, ...], arrival: int) -> Workload:
    """A bare pod, there or to be made again; or the remains of an object that is gone, known from its admissions."""
    pod = sight.pods[0] if sight.pods and sight.key.kind is WorkloadKind.POD else None
    last = sight.admissions[-1] if sight.admissions else None
    again = next(iter(sight.recreations), None)
    obstacle = None
    if again is not None:
        obstacle = ("BeingRecreated", "the pod was taken back and is being made again")
    elif pod is not None and pod.group is not None:
        obstacle = ("PodGroupMissing", f"PodGroup {pod.group} does not exist in namespace {pod.namespace}")
    elif pod is not None and pod.held_by_others:
        obstacle = (
            "OtherGates",
            "the pod carries scheduling gates of others; it waits until they are removed",
        )
    elif pod is not None and not pod.gated and last is None:
        obstacle = ("NotGated", "the pod was not gated when it was created; it enters the books once it runs")
    named = pod or last or again
    return Workload(
        key=sight.key,
        namespace=named.namespace if named else "",
        name=named.name if named else "",
        # The default of its namespace is known only as long as the pod is gated.
        queue=next((each.queue for each in (pod, last, again) if each and each.queue), DEFAULT_QUEUE),
        priority=pod.priority if pod else last.priority if last else 0,
        arrival=arrival,
        created=pod.created if pod else 0,
        minimum=1 if pod else 0,
        pod_sets=pod_sets,
        generation=pod.uid if pod else "",
        obstacle=obstacle,
        not_before=sight.backoff[0],
        **_interruption(sight, pod.conduct if pod else Conduct()),
    )


def _may_end(sight: Sight, admission: Admission, over: bool) -> bool:
    """Whether a missing pod proves that nobody will come for its seat."""
    if sight.busy:
        return False
    leaving = over or admission.state is AdmissionState.EVICTING
    if leaving and sight.key.kind is WorkloadKind.JOB and sight.fact is not None:
        fact = sight.fact
        return fact.finished or fact.deleting or (fact.suspended and fact.active == 0)
    return True


def _all_bound(place: Occupancy) -> bool:
    held = len(place.admission.holding())
    return held > 0 and sum(pod.node is not None for pod in place.sitting.values()) >= held


def _unplaced(place: Occupancy) -> tuple[PodFact, ...]:
    """Pods whose refusal counts. One without a seat of its own waits while an earlier occupant is on its way out."""
    leaving = any(pod.deleting for pod in place.sitting.values())
    return (*place.sitting.values(), *(() if leaving else place.standing))


def _refused(pod: PodFact, sight: Sight, now: int, patience: Patience) -> bool:
    """Whether the scheduler has had its time, from when there was room for the pod."""
    if pod.refused is None or pod.node is not None:
        return False
    return now - max(pod.refused[0], sight.left_at) >= patience.refusal_grace


def _evictable(
    sight: Sight,
    places: Sequence[Occupancy],
    now: int,
    patience: Patience,
) -> dict[AdmissionId, tuple[str, str, int]]:
    """Gangs that cannot fully start go back whole."""
    rollbacks = sight.backoff[1]
    not_before = now + min(patience.backoff_limit, patience.backoff * 2 ** min(rollbacks, 10))
    found: dict[AdmissionId, tuple[str, str, int]] = {}
    for place in places:
        admission = place.admission
        directed = sight.fact is not None and sight.fact.directed == admission.id
        if admission.started and not directed:
            continue
        lost = sorted(
            {
                admission.seats[index].node
                for index in place.vacant()
                if admission.seats[index].node in sight.dead_nodes
            }
        )
        refusals = [pod for pod in _unplaced(place) if _refused(pod, sight, now, patience)]
        if refusals and refusals[0].refused:
            message = f"the scheduler refuses pod {refusals[0].name}: {refusals[0].refused[1]}"
            found[admission.id] = ("Refused", message, not_before)
        elif lost:
            found[admission.id] = _lost(lost[0], lost[0] in sight.taken_nodes, now)
    return found


def _lost(node: NodeName, taken: bool, now: int) -> tuple[str, str, int]:
    if taken:
        return ("SeatTaken", f"pods of others have taken the room of a seat on node {node}", now)
    return ("NodeLost", f"node {node} of a seat cannot take pods any more", now)


def _unbooked(sight: Sight, pod_sets: Sequence[PodSet], occupancies: Sequence[Occupancy]) -> Unbooked | None:
    """Pods that run in a queue without a seat: without an admission, or more than their Job was directed for."""
    ids = {admission.id for admission in sight.admissions}
    seated = {pod.uid for place in occupancies for pod in place.sitting.values()}
    surplus = {
        pod.uid
        for place in occupancies
        if place.admission.state is AdmissionState.OPEN
        for pod in place.standing
        if pod.seat is None
    }
    found = [
        pod
        for pod in sight.pods
        if is_live(pod)
        and pod.node is not None
        and pod.admission not in sight.closed
        and pod.uid not in seated
        and (pod.admission not in ids or pod.uid in surplus)
    ]
    if not found:
        return None
    fact, first = sight.fact, found[0]
    if is_by_ordinal(sight.key.kind, fact):
        taken = taken_places(occupancies)
    else:
        taken = {(seat.pod_set, seat.ordinal) for each in sight.admissions for seat in each.holding()}
    pods: list[tuple[str, str, int, NodeName, Resources]] = []
    for pod in found:
        name = _set_of(sight, pod, pod_sets)
        ordinal = pod.index if pod.index is not None and (name, pod.index) not in taken else 0
        while (name, ordinal) in taken:
            ordinal += 1
        taken.add((name, ordinal))
        if pod.node is not None:
            pods.append((pod.uid, name, ordinal, pod.node, pod.takes))
    return Unbooked(
        workload=sight.key,
        namespace=first.namespace,
        name=fact.name if fact is not None else first.name,
        queue=(fact.queue if fact is not None else first.queue) or DEFAULT_QUEUE,
        priority=fact.priority if fact is not None else first.priority,
        pods=tuple(pods),
    )


def _set_of(sight: Sight, pod: PodFact, pod_sets: Sequence[PodSet]) -> str:
    match sight.key.kind:
        case WorkloadKind.POD:
            return BARE
        case WorkloadKind.POD_GROUP:
            return shape_name(pod, sight.fact)
        case WorkloadKind.VOLCANO_JOB:
            return pod.task
        case _:
            return pod_sets[0].name if pod_sets else BARE
