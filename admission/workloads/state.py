"""The state of one workload: whether it needs seats, which of its seats are given back, which admissions go back.

Pure: everything that is known about the workload comes in as a ``WorkloadInputs``.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from admission.decode.ignored_values import first_ignored
from admission.engine.preemption.protection import budgets_end
from admission.engine.snapshot import Rollback, Unbooked
from admission.facts.pods import PodFact
from admission.workloads.adoption import PodsWithoutSeat, foreign_obstacle, pods_without_seat, unbooked_of
from admission.workloads.ended_seats import as_controlled, pods_to_come, seats_over, with_children
from admission.workloads.inputs import DEFAULT_QUEUE, MissingSince, Timeouts, WorkloadInputs
from admission.workloads.kinds import Holding, KindSupport, support_of
from admission.workloads.kinds.job_syncs import NO_SYNCS, syncs_of
from admission.workloads.lost_pods import lost_pods
from admission.workloads.pod_sets import SetOnNode, as_made, elsewhere, enlarged
from admission.workloads.readiness.gang_readiness import GangReadiness, follows_policy, gang_readiness
from admission.workloads.readiness.missing_pods import MissingPods, missing_pods
from admission.workloads.refusals import refusals_of
from admission.workloads.request_changes import request_changes
from admission.workloads.rollback import (
    faulty_gangs,
    is_refused,
    leftover_pods,
    outgrowing_pods,
    pods_on_faulty_devices,
    pods_that_count_as_refused,
    pods_to_recreate,
    quota_lacks,
    rollbacks_of,
)
from admission.workloads.run_end import RunEnd, run_end, run_out
from admission.workloads.seats import SeatMap, is_live, seat_maps_of
from admission.workloads.workload import (
    held_by_owner,
    is_idle,
    only_has_an_obstacle,
    result_of,
    result_so_far,
    wanted,
    workload_of,
)
from queues.admissions import AdmissionState
from queues.plan import Reason
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName, Obstacle, Result, Workload, WorkloadKey

#: States share these: there may be 200,000 of them.
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
_NO_NODES: Final = frozenset[NodeName]()
_NO_ADMISSIONS: Final = frozenset[AdmissionId]()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """What follows from the inputs for one workload."""

    key: WorkloadKey
    #: The workload with all it wants.
    workload: Workload
    #: It waits for seats.
    needs_seats: bool
    #: It will wait for seats: what its pods ask is about to be known.
    is_untried: bool = False
    #: The owner ended or is gone; only what it holds is left of it.
    is_over: bool
    #: Its object is gone: what the object said is known from Postgres only.
    is_gone: bool = False
    #: How it ended, also of a group that is not over, with pods that have all ended; UNKNOWN if it has not, or if that
    #: is not known.
    result: Result = Result.UNKNOWN
    #: A group that Muster made for an owner without pods: it waits for nothing until pods come.
    is_idle: bool = False
    pods: tuple[PodFact, ...] = ()
    #: Each pod takes the seat of its ordinal or completion index only. False without seats.
    is_by_ordinal: bool = False
    seat_maps: tuple[SeatMap, ...] = ()
    ended: Mapping[AdmissionId, frozenset[int]] = field(default_factory=lambda: _NOTHING)
    started: tuple[AdmissionId, ...] = ()
    evictable: Mapping[AdmissionId, Rollback] = field(default_factory=lambda: _NOTHING)
    #: Vacant seats for which no pod is to be made, because it would ask more than they have.
    outgrown: Mapping[AdmissionId, frozenset[int]] = field(default_factory=lambda: _NOTHING)
    #: What pods of it ask that are larger than their seats, by pod set.
    larger: Mapping[str, Resources] = field(default_factory=lambda: _NOTHING)
    #: When it will have held its seats for as long as its queue allows; None if never, or if it holds none.
    run_end: RunEnd | None = None
    #: It was ended for that: its pods go in any case, and none is made again.
    is_run_out: bool = False
    #: Admissions that are evicted, and whose pods no disruption budget keeps: it has kept lent quota for long enough.
    beyond_budgets: frozenset[AdmissionId] = _NO_ADMISSIONS
    #: What keeps it from going on though it is admitted; None for nothing.
    problem: Reason | None = None
    #: Pods that lost their seat after the gang started: they are removed, and their seats end then.
    unschedulable: tuple[PodFact, ...] = ()
    #: Nodes on which the scheduler refuses pods of the workload now, with its words. Where pods are misplaced, the
    #: workload asks for other nodes already.
    refusing: Mapping[SetOnNode, str] = field(default_factory=lambda: _NOTHING)
    #: Nodes on which its pods have unhealthy devices.
    faulty_nodes: frozenset[NodeName] = _NO_NODES
    #: Live pods of admissions that are closed: to be removed.
    leftovers: tuple[PodFact, ...] = ()
    #: Pods that count as gone, on nodes that do not answer: their objects are removed by force.
    lost: tuple[PodFact, ...] = ()
    #: Pods to remove that no controller recreates: removed once their recreation is stored.
    to_recreate: tuple[PodFact, ...] = ()
    unbooked: Unbooked | None = None
    #: Pods that run without an admission and are not adopted: they are left alone, and the workload waits for its own.
    foreign: tuple[PodFact, ...] = ()
    #: Admissions with pods that have all been ready for the first time.
    ready: tuple[AdmissionId, ...] = ()
    #: Since when (seconds) the pods of admissions are ready together, until the ledger has them among those.
    running: Mapping[AdmissionId, int] = field(default_factory=lambda: _NOTHING)
    #: A grace time runs: the state will differ later although no input changes.
    awaits_timeout: bool = False
    #: The second from which on the state differs although no input changes; None if it is not known to.
    look_at: int | None = None
    #: Since when (seconds) a Job that leaves seats is being deleted, is suspended and has no pod, or is smaller, while
    #: its controller may still make some; 0: that is not so. Input for the next state.
    stopping_since: int = 0
    #: Since when (seconds) it is over and holds seats still; 0: that is not so. Input for the next state.
    over_since: int = 0
    #: A Job lacks no pod that could run at once, or lacked none when it began to leave its seats. Input for the next
    #: state.
    pods_seen: bool = False
    #: It is a Job that gives up seats, and its controller makes no pods for them any more. Some may not be seen yet.
    is_stopped: bool = False
    #: Since when its admissions lack pods that they had; empty: they lack none. Input for the next state.
    missing_since: Mapping[AdmissionId, MissingSince] = field(default_factory=lambda: _NOTHING)
    #: Another policy of its queue may make the state another one.
    follows_policy: bool = False
    #: Values that its object or its pods state and that cannot be read, as sentences.
    ignored: tuple[str, ...] = ()

    def decisive(self) -> tuple[object, ...]:
        """What a decision may depend on."""
        wants = self.workload if self.needs_seats or self.seat_maps else None
        return (
            *(wants, self.ended, self.started, self.ready, self.evictable, self.unbooked),
            self.leaving(),
        )

    def leaving(self) -> tuple[AdmissionId, ...]:
        """Open admissions whose pods end now, since it is over."""
        if not self.over_since:
            return ()
        open_ = AdmissionState.OPEN
        return tuple(each.admission.id for each in self.seat_maps if each.admission.state is open_)

    def lasting(self) -> tuple[object, ...]:
        """What steps of the turn see of the workload. Without times, which pass though nothing changes."""
        wants = self.workload if self.needs_seats or self.seat_maps else None
        return (wants, self.ended, self.started, frozenset(self.evictable), self.unbooked)

    def gives_back(self, seats: Mapping[AdmissionId, AbstractSet[int]]) -> bool:
        """Whether any of these seats (indices) is over."""
        return any(indices & self.ended.get(id_, frozenset()) for id_, indices in seats.items())

    def described(self) -> tuple[object, ...]:
        """The parts of the state that other replicas show, from Postgres."""
        workload = self.workload
        asked = (workload.asks(), workload.minimum, workload.run_time)
        ended = (self.is_over, self.is_idle, self.result)
        return (workload.queue, workload.priority, workload.user, *asked, *ended, self.ignored)


def derive_state(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> WorkloadState | None:
    """The state of one workload; None if nothing of it is left, or if it is not Muster's."""
    support = support_of(inputs.key)
    if not _exists(inputs, support) and not inputs.admissions:
        return None
    over = _over(inputs, support)
    if over and not inputs.admissions and not any(is_live(pod) for pod in inputs.pods):
        return _ended_state(inputs)
    inputs = with_children(_with_pods_as_made(inputs))
    if not (inputs.pods or inputs.admissions):
        return _waiting_state(inputs, support)
    return _held_state(inputs, support, now, timeouts, over=over)


def _held_state(
    inputs: WorkloadInputs, support: KindSupport, now: int, timeouts: Timeouts, *, over: bool
) -> WorkloadState:
    """The state of a workload with pods or admissions."""
    seat_maps = seat_maps_of(inputs.admissions, inputs.pods)
    inputs = as_controlled(inputs, seat_maps)
    pod_sets = enlarged(support.pod_sets(inputs, seat_maps), inputs.larger)
    extra = PodsWithoutSeat() if over else pods_without_seat(inputs, seat_maps, now)
    unbooked = unbooked_of(inputs, seat_maps, extra.adoptable)
    expected = partial(pods_to_come, inputs.fact, support, inputs.pods, pod_sets)
    to_come = expected(seat_maps) if seat_maps and not over else None
    open_ = [place for place in seat_maps if place.admission.state is AdmissionState.OPEN]
    misplaced = tuple(
        pod
        for place in open_
        if place.admission.started
        for pod in (*place.seated.values(), *outgrowing_pods(place))
        if is_refused(pod, place, inputs, now, timeouts)
    )
    refusing = refusals_of(seat_maps, inputs, now, timeouts)
    left_out = inputs.refused.with_places(refusing) if misplaced else inputs.refused
    avoided = inputs.avoided_nodes | left_out.nodes
    changes = request_changes(inputs, open_)
    ended: dict[AdmissionId, frozenset[int]] = {}
    #: Seats that no pod comes for, also those that are not given back yet.
    without_pod: dict[AdmissionId, frozenset[int]] = {}
    syncs = syncs_of(inputs, seat_maps, now, timeouts) if support.holding is Holding.SUSPENDED else NO_SYNCS
    keeps_seats = inputs.job_restarts and not over
    for place in seat_maps if not keeps_seats else ():
        # A directed Job's pods are made again for the same nodes, so it goes back whole instead.
        directed = inputs.fact is not None and inputs.fact.directed == place.admission.id
        dead = frozenset[NodeName]() if directed else inputs.dead_nodes | avoided
        # A Job that is suspended goes back whole as well.
        kept = support.holding is not Holding.NO_PODS
        outgrown = frozenset() if kept else changes.outgrown.get(place.admission.id, frozenset())
        awaited = inputs.awaited.get(place.admission.id, frozenset())
        # All pods of a directed Job come for its admission, also those after one that was adopted elsewhere.
        coming = expected([place]) if directed and not over else to_come
        seats = seats_over(place, to_come=coming, dead=dead, outgrown=outgrown, awaited=awaited)
        without_pod[place.admission.id] = seats
        if syncs.allow_end(place.admission) and (seats or not place.admission.holding()):
            ended[place.admission.id] = seats
    left = _left(seat_maps, ended)
    if ended and support.is_group:
        # The pod sets of a group follow from its seats too; seats that end now have no successor.
        pod_sets = support.pod_sets(inputs, left)
    lost = lost_pods(inputs, now, timeouts)
    placeable = elsewhere(pod_sets, left_out, inputs.avoided_nodes)
    workload = workload_of(inputs, placeable, seat_maps, lost.reason)
    if extra.foreign:
        workload = replace(workload, obstacle=foreign_obstacle(extra.foreign[0], inputs, now))
    refused = [
        pod for place in open_ for pod in pods_that_count_as_refused(place) if pod.refused and not pod.node
    ]
    strays = leftover_pods(inputs, seat_maps)
    kept_open = [
        place for place in _left(seat_maps, without_pod) if place.admission.state is AdmissionState.OPEN
    ]
    readiness = GangReadiness() if over else gang_readiness(inputs, kept_open, now, timeouts)
    missing = MissingPods() if over else missing_pods(inputs, kept_open, now, timeouts)
    rollbacks = {} if over else rollbacks_of(inputs, open_, changes, now, timeouts)
    faulty = {} if over else faulty_gangs(inputs, open_, now, timeouts)
    end = None if over else run_end(inputs, open_)
    held = sum(
        len(place.admission.holding())
        for place in (left if support.is_group else seat_maps)
        if place.admission.state is AdmissionState.OPEN
    )
    untried = _about_to_be_known(inputs, workload, over=over)
    return WorkloadState(
        key=inputs.key,
        workload=workload,
        is_untried=untried is not None,
        needs_seats=not over
        and untried is None
        and unbooked is None
        and (wanted(pod_sets) > held or only_has_an_obstacle(workload, held)),
        is_over=over,
        is_gone=inputs.fact is None and not (support.is_pod and inputs.pods),
        result=result_of(inputs) if over else result_so_far(inputs),
        pods=tuple(inputs.pods),
        is_by_ordinal=bool(seat_maps) and support.is_by_ordinal(inputs.fact),
        seat_maps=seat_maps,
        ended=ended or _NOTHING,
        started=tuple(
            place.admission.id for place in open_ if not place.admission.started and _all_bound(place)
        ),
        evictable={
            **missing.late,
            **readiness.late,
            **faulty,
            **rollbacks,
            **run_out(end, open_, now),
            **({} if over else held_by_owner(inputs, open_)),
        }
        or _NOTHING,
        run_end=end,
        is_run_out=inputs.setbacks.is_run_out,
        beyond_budgets=_beyond_budgets(inputs, now),
        outgrown=changes.outgrown or _NOTHING,
        larger=changes.larger() or _NOTHING,
        problem=changes.reason() or lost.reason or readiness.problem or missing.problem,
        unschedulable=misplaced,
        refusing=refusing or _NOTHING,
        faulty_nodes=frozenset(
            pod.node for place in open_ for pod in pods_on_faulty_devices(inputs, place) if pod.node
        ),
        leftovers=strays,
        lost=lost.gone,
        to_recreate=pods_to_recreate(inputs, seat_maps, (*strays, *misplaced)),
        unbooked=unbooked,
        foreign=extra.foreign,
        ready=readiness.ready,
        running=readiness.running,
        awaits_timeout=bool(refused or lost.awaited or any(quota_lacks(inputs, place) for place in open_)),
        stopping_since=syncs.since,
        over_since=(inputs.over_since or now) if over and seat_maps else 0,
        pods_seen=syncs.pods_seen,
        look_at=_next_look(
            now,
            readiness.look_at,
            missing.look_at,
            untried,
            syncs.until,
            None if end is None else end.next_look(now),
            _budgets_end(inputs),
        ),
        is_stopped=support.holding is Holding.SUSPENDED and syncs.are_over(inputs.admissions),
        missing_since=missing.since,
        ignored=_ignored(inputs),
        follows_policy=bool(missing.since or inputs.device_faults) or follows_policy(inputs, seat_maps),
    )


def _budgets_end(inputs: WorkloadInputs) -> int | None:
    """The second from which on disruption budgets keep nothing of what is reclaimed; None if nothing is."""
    if not any(each.reclaimed for each in inputs.admissions):
        return None
    started = min(each.start for each in inputs.admissions)
    return budgets_end(started, inputs.held_by)


def _about_to_be_known(inputs: WorkloadInputs, workload: Workload, *, over: bool) -> int | None:
    """Until when what the workload asks is about to be known; None if nothing of that is awaited.

    A gang that is held back for a moment starts then, and one that is too large goes back.
    """
    if inputs.admissions:
        # Members that come are known by where their volumes are: seats for them are not asked for a second time.
        return inputs.volumes_awaited_until or None
    return None if over else _untried_until(inputs, workload)


def _beyond_budgets(inputs: WorkloadInputs, now: int) -> frozenset[AdmissionId]:
    """Admissions that are evicted, and whose pods no disruption budget keeps any more."""
    end = _budgets_end(inputs)
    if end is None or end > now:
        return _NO_ADMISSIONS
    return frozenset(each.id for each in inputs.admissions if each.reclaimed)


def _untried_until(inputs: WorkloadInputs, workload: Workload) -> int | None:
    """Until when a workload without seats waits for what its templates become, and where its volumes are; None if it
    does not. Not looked at in every turn: all that wait may wait for this when a term begins."""
    until = max(inputs.templates.awaited_until, inputs.volumes_awaited_until)
    return until or None if workload.obstacle is None else None


def _with_pods_as_made(inputs: WorkloadInputs) -> WorkloadInputs:
    """The inputs with the pod sets that the API server makes of the templates."""
    fact, shapes = inputs.fact, inputs.templates.shapes
    if fact is None or not shapes:
        return inputs
    pod_sets = as_made(fact.pod_sets, shapes)
    same = all(made is written for made, written in zip(pod_sets, fact.pod_sets, strict=True))
    if same:
        return inputs
    return msgspec.structs.replace(inputs, fact=replace(fact, pod_sets=pod_sets))


def _ended_state(inputs: WorkloadInputs) -> WorkloadState:
    """The state of a workload that ended and holds nothing: it wants nothing. Clusters keep many of these."""
    return WorkloadState(
        key=inputs.key,
        workload=workload_of(inputs, (), ()),
        needs_seats=False,
        is_over=True,
        result=result_of(inputs),
        pods=tuple(inputs.pods),
    )


def _waiting_state(inputs: WorkloadInputs, support: KindSupport) -> WorkloadState:
    """The same state where there are no pods and no admissions: most of the workloads that wait are like that."""
    pod_sets = enlarged(support.pod_sets(inputs, ()), inputs.larger)
    placeable = elsewhere(pod_sets, inputs.refused, inputs.avoided_nodes)
    workload = workload_of(inputs, placeable, ())
    untried = _untried_until(inputs, workload)
    return WorkloadState(
        key=inputs.key,
        workload=workload,
        is_untried=untried is not None,
        needs_seats=untried is None and (wanted(pod_sets) > 0 or only_has_an_obstacle(workload, 0)),
        is_over=False,
        result=Result.IDLE if is_idle(inputs) else Result.UNKNOWN,
        is_idle=is_idle(inputs),
        is_run_out=inputs.setbacks.is_run_out,
        look_at=untried,
        follows_policy=follows_policy(inputs, ()),
        ignored=_ignored(inputs),
    )


def _ignored(inputs: WorkloadInputs) -> tuple[str, ...]:
    """Of its object, or where there is none or it is a group, of its pods as well."""
    told = () if inputs.fact is None else inputs.fact.conduct.ignored
    support = support_of(inputs.key)
    if support.is_pod or support.is_group:
        told = (*told, *(sentence for pod in inputs.pods for sentence in pod.conduct.ignored))
    return first_ignored(told) if told else ()


def state_beside(inputs: WorkloadInputs, obstacle: Obstacle) -> WorkloadState | None:
    """The state of a workload that Muster fails on: it waits with the defect as its reason, and keeps its seats.

    None if nothing of it is left.
    """
    fact, pod = inputs.fact, next(iter(inputs.pods), None)
    last = inputs.admissions[-1] if inputs.admissions else None
    named = fact or pod or last
    if named is None:
        return None
    workload = Workload(
        key=inputs.key,
        namespace=named.namespace,
        name=named.name,
        queue=named.queue or DEFAULT_QUEUE,
        arrival=inputs.arrival or 0,
        minimum=0,
        pod_sets=(),
        obstacle=obstacle,
    )
    return WorkloadState(key=inputs.key, workload=workload, needs_seats=True, is_over=False)


def _exists(inputs: WorkloadInputs, support: KindSupport) -> bool:
    if support.is_pod:
        return bool(inputs.recreations) or any(is_live(pod) for pod in inputs.pods)
    fact = inputs.fact
    return fact is not None and (fact.queue is not None or not support.needs_queue)


def _over(inputs: WorkloadInputs, support: KindSupport) -> bool:
    if support.is_pod:
        return not (inputs.recreations or any(is_live(pod) and not pod.deleting for pod in inputs.pods))
    fact = inputs.fact
    return fact is None or fact.finished or fact.deleting or inputs.job_result is not None


def _left(seat_maps: Sequence[SeatMap], ended: Mapping[AdmissionId, frozenset[int]]) -> tuple[SeatMap, ...]:
    """The seat maps after these seats are given back."""
    return tuple(
        replace(place, admission=replace(place.admission, ended=place.admission.ended | seats))
        if (seats := ended.get(place.admission.id))
        else place
        for place in seat_maps
    )


def _next_look(now: int, *times: int | None) -> int | None:
    """The first of these that is still to come."""
    return min((each for each in times if each is not None and each > now), default=None)


def _all_bound(place: SeatMap) -> bool:
    held = len(place.admission.holding())
    return held > 0 and sum(pod.node is not None for pod in place.seated.values()) >= held
