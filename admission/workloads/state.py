"""The state of one workload: whether it needs seats, which of its seats are given back, which admissions go back.

Pure: everything that is known about the workload comes in as a ``WorkloadInputs``.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from admission.decode.ignored_values import first_ignored
from admission.engine.preemption.protection import budgets_end
from admission.engine.snapshot import Rollback, Unbooked
from admission.facts.pods import PodFact
from admission.workloads.admission_checks import (
    NO_CHECKS,
    CheckProgress,
    next_check_look,
    refused_by_checks,
    to_ask,
)
from admission.workloads.ended_seats import HeldSeats, LostPods, held_seats, lost_pods, with_children
from admission.workloads.gang_readiness import (
    GangReadiness,
    follows_policy,
    gang_readiness,
    missing_pods,
)
from admission.workloads.inputs import (
    DEFAULT_QUEUE,
    NOTHING_REMEMBERED,
    Remembered,
    ShellHeartbeat,
    Timeouts,
    WorkloadInputs,
)
from admission.workloads.kinds import Holding, KindSupport, is_told_by_pods, support_of
from admission.workloads.mismatched_pods import (
    PodsWithoutSeat,
    foreign_obstacle,
    leftover_pods,
    pods_to_recreate,
    pods_without_seat,
    unbooked_of,
)
from admission.workloads.pod_sets import SetOnNode, as_made, elsewhere, enlarged
from admission.workloads.rollback import (
    RunEnd,
    faulty_gangs,
    pods_on_faulty_devices,
    pods_that_count_as_refused,
    quota_lacks,
    rollbacks_of,
    run_end,
    run_out,
)
from admission.workloads.seats import SeatMap, is_live
from admission.workloads.workload import (
    held_by_owner,
    is_idle,
    notes_on,
    only_has_an_obstacle,
    result_of,
    result_so_far,
    wanted,
    workload_of,
)
from queues import kind_names
from queues.admissions import AdmissionState
from queues.plan import Reason
from queues.quota.queue import ARRAY
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
    #: Pods with a shell that nobody is at any more: to be removed, whether they run or wait.
    abandoned: tuple[PodFact, ...] = ()
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
    #: The second from which on the state differs although no input changes; 0: a grace time runs, so that it may differ
    #: at any time; None if it is not known to.
    look_at: int | None = None
    #: Input for the next state.
    remembered: Remembered = NOTHING_REMEMBERED
    #: It is a Job that gives up seats, and its controller makes no pods for them any more. Some may not be seen yet.
    is_stopped: bool = False
    #: Another policy of its queue may make the state another one.
    follows_policy: bool = False
    #: Values that its object or its pods state and that cannot be read, as sentences.
    ignored: tuple[str, ...] = ()
    #: What is to be known of it while it runs, as sentences.
    notes: tuple[str, ...] = ()
    #: AdmissionChecks that are to be asked about it now.
    asks: tuple[CheckProgress, ...] = NO_CHECKS

    def decisive(self) -> tuple[object, ...]:
        """What a decision may depend on."""
        wants = self.workload if self.needs_seats or self.seat_maps else None
        return (
            *(wants, self.ended, self.started, self.ready, self.evictable, self.unbooked),
            self.leaving(),
        )

    def leaving(self) -> tuple[AdmissionId, ...]:
        """Open admissions whose pods end now, since it is over."""
        if not self.remembered.over_since:
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
        return (workload.queue, workload.priority, workload.user, *asked, *ended, self.ignored, self.notes)


def derive_state(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> WorkloadState | None:
    """The state of one workload; None if nothing of it is left, or if it is not Muster's."""
    support = support_of(inputs.key)
    if not _exists(inputs, support) and not inputs.admissions:
        return None
    over = _over(inputs)
    if over and not inputs.admissions and not any(is_live(pod) for pod in inputs.pods):
        return _ended_state(inputs)
    inputs = with_children(_with_pods_as_made(_started_by_policy(inputs)))
    if not (inputs.pods or inputs.admissions):
        return _waiting_state(inputs, support)
    return _held_state(inputs, support, now, timeouts, over=over)


def _held_state(
    inputs: WorkloadInputs, support: KindSupport, now: int, timeouts: Timeouts, *, over: bool
) -> WorkloadState:
    """The state of a workload with pods or admissions."""
    held = held_seats(inputs, support, now, timeouts, over=over)
    inputs = held.inputs
    lost = lost_pods(inputs, now, timeouts)
    wish = _wish(held, lost.reason, now)
    gang = _gang(held, now, timeouts)
    strays = leftover_pods(inputs, held.seat_maps)
    remembered = _remembered(held, gang, now)
    lost_at = remembered.heartbeat.lost_at
    return WorkloadState(
        key=inputs.key,
        workload=wish.workload,
        is_untried=wish.untried is not None,
        needs_seats=wish.needs_seats,
        is_over=over,
        is_gone=inputs.fact is None and not (inputs.key.kind == kind_names.POD and inputs.pods),
        result=result_of(inputs) if over else result_so_far(inputs),
        pods=tuple(inputs.pods),
        is_by_ordinal=bool(held.seat_maps) and support.is_by_ordinal(inputs.fact),
        seat_maps=held.seat_maps,
        ended=held.ended or _NOTHING,
        started=tuple(
            place.admission.id for place in held.open if not place.admission.started and place.has_started()
        ),
        evictable=gang.evictable or _NOTHING,
        run_end=gang.end,
        is_run_out=inputs.setbacks.is_run_out,
        beyond_budgets=_beyond_budgets(inputs, now),
        outgrown=held.changes.outgrown or _NOTHING,
        larger=held.changes.larger() or _NOTHING,
        problem=held.changes.reason() or lost.reason or gang.readiness.problem or gang.missing.problem,
        unschedulable=held.misplaced,
        refusing=held.refusing or _NOTHING,
        faulty_nodes=_faulty_nodes(inputs, held),
        leftovers=strays,
        abandoned=tuple(inputs.pods) if lost_at is not None and lost_at <= now else (),
        lost=lost.gone,
        to_recreate=pods_to_recreate(inputs, held.seat_maps, (*strays, *held.misplaced)),
        unbooked=wish.unbooked,
        foreign=wish.foreign,
        ready=gang.readiness.ready,
        running=gang.readiness.running,
        remembered=remembered,
        look_at=0
        if _awaits_timeout(held, lost)
        else _next_look(now, wish.untried, held.syncs.until, lost_at, *gang.looks(now), *_looks(inputs)),
        is_stopped=support.holding is Holding.SUSPENDED and held.syncs.are_over(inputs.admissions),
        ignored=_ignored(inputs),
        notes=() if over else tuple(notes_on(inputs)),
        asks=to_ask(inputs.checks, wish.workload.obstacle) if inputs.checks else NO_CHECKS,
        follows_policy=bool(gang.missing.missing_since or inputs.device_faults)
        or follows_policy(inputs, held.seat_maps),
    )


def _remembered(held: HeldSeats, gang: "_Gang", now: int) -> Remembered:
    before = held.inputs.remembered
    is_alone = held.inputs.key.kind == kind_names.POD
    text = next((pod.heartbeat for pod in held.inputs.pods if is_alone and not pod.controller), "")
    return Remembered(
        stopping_since=held.syncs.since,
        over_since=(before.over_since or now) if held.over and held.seat_maps else 0,
        pods_seen=held.syncs.pods_seen,
        missing_since=gang.missing.missing_since,
        heartbeat=before.heartbeat if text == before.heartbeat.text else ShellHeartbeat(text, now),
    )


def _faulty_nodes(inputs: WorkloadInputs, held: HeldSeats) -> frozenset[NodeName]:
    """Nodes with an unhealthy device that a pod of it has."""
    hit = (pod for place in held.open for pod in pods_on_faulty_devices(inputs, place))
    return frozenset(pod.node for pod in hit if pod.node)


def _looks(inputs: WorkloadInputs) -> Iterator[int | None]:
    """When budgets and checks may say something else though nothing changes."""
    yield _budgets_end(inputs)
    yield from _check_looks(inputs)


def _check_looks(inputs: WorkloadInputs) -> Iterator[int | None]:
    """When a check is further though no object changes; nothing where no check is asked."""
    if inputs.checks:
        yield next_check_look(inputs.checks)


class _Wish(NamedTuple):
    """What a workload with pods or admissions asks for."""

    workload: Workload
    needs_seats: bool
    #: Until when what it asks is about to be known; None if nothing of that is awaited.
    untried: int | None
    #: Pods that run without a seat: to be adopted, and those that are not Muster's.
    unbooked: Unbooked | None
    foreign: tuple[PodFact, ...]


def _wish(held: HeldSeats, lost: Reason | None, now: int) -> _Wish:
    """What is asked beyond the seats that are held. ``lost``: what lost pods keep the workload from."""
    inputs, over = held.inputs, held.over
    extra = PodsWithoutSeat() if over else pods_without_seat(inputs, held.seat_maps, now)
    unbooked = unbooked_of(inputs, held.seat_maps, extra.adoptable)
    placeable = elsewhere(held.pod_sets, held.left_out, inputs.avoided_nodes)
    workload = workload_of(inputs, placeable, held.seat_maps, lost)
    if extra.foreign:
        workload = replace(workload, obstacle=foreign_obstacle(extra.foreign[0], inputs, now))
    untried = _untried_until(inputs, workload, over=over)
    needs_seats = False
    if not over and untried is None and unbooked is None:
        seats = held.open_seats()
        needs_seats = wanted(held.pod_sets) > seats or only_has_an_obstacle(workload, seats)
    return _Wish(workload, needs_seats, untried, unbooked, extra.foreign)


class _Gang(NamedTuple):
    """How the gangs of a workload fare, and which of its admissions go back for it."""

    readiness: GangReadiness
    missing: GangReadiness
    end: RunEnd | None
    evictable: Mapping[AdmissionId, Rollback]

    def looks(self, now: int) -> Iterator[int | None]:
        """When they may fare otherwise though nothing changes."""
        yield self.readiness.look_at
        yield self.missing.look_at
        if self.end is not None:
            yield self.end.next_look(now)


def _gang(held: HeldSeats, now: int, timeouts: Timeouts) -> _Gang:
    """Readiness, missing pods, refusals, faults, run time and its owner's wish, in order of precedence upwards."""
    if held.over:
        return _Gang(GangReadiness(), GangReadiness(), None, _NOTHING)
    inputs, awaiting = held.inputs, held.awaiting_pods()
    readiness = gang_readiness(inputs, awaiting, now, timeouts)
    missing = missing_pods(inputs, awaiting, now, timeouts)
    end = run_end(inputs, held.open)
    evictable = {
        **missing.late,
        **readiness.late,
        **faulty_gangs(inputs, held.open, now, timeouts),
        **rollbacks_of(inputs, held.open, held.changes, now, timeouts),
        **run_out(end, held.open, now),
        **held_by_owner(inputs, held.open),
    }
    if inputs.checks:
        evictable |= refused_by_checks(inputs.checks, held.open)
    return _Gang(readiness, missing, end, evictable)


def _awaits_timeout(held: HeldSeats, lost: LostPods) -> bool:
    """Whether a grace time runs: for lost pods, for pods that the scheduler refuses, for quota of others."""
    if lost.awaited or any(quota_lacks(held.inputs, place) for place in held.open):
        return True
    return any(
        pod.refused and not pod.node for place in held.open for pod in pods_that_count_as_refused(place)
    )


def _budgets_end(inputs: WorkloadInputs) -> int | None:
    """The second from which on disruption budgets keep nothing of what is reclaimed; None if nothing is."""
    if not any(each.reclaimed for each in inputs.admissions):
        return None
    started = min(each.start for each in inputs.admissions)
    return budgets_end(started, inputs.held_by)


def _beyond_budgets(inputs: WorkloadInputs, now: int) -> frozenset[AdmissionId]:
    """Admissions that are evicted, and whose pods no disruption budget keeps any more."""
    end = _budgets_end(inputs)
    if end is None or end > now:
        return _NO_ADMISSIONS
    return frozenset(each.id for each in inputs.admissions if each.reclaimed)


def _untried_until(inputs: WorkloadInputs, workload: Workload, *, over: bool = False) -> int | None:
    """Until when what the workload asks is about to be known, by its templates and volumes; None if nothing of that is
    awaited. Not looked at in every turn: all that wait may wait for this when a term begins.

    A gang that is held back for a moment starts then, and one that is too large goes back.
    """
    if inputs.admissions:
        # Members that come are known by where their volumes are: seats for them are not asked for a second time.
        return inputs.volumes_awaited_until or None
    if over or workload.obstacle is not None:
        return None
    return max(inputs.templates.awaited_until, inputs.volumes_awaited_until) or None


def _started_by_policy(inputs: WorkloadInputs) -> WorkloadInputs:
    """The inputs with a Job that leaves it to its queue whether its pods start together."""
    fact = inputs.fact
    if fact is None or not fact.whole_by_default or inputs.policy.jobs != ARRAY:
        return inputs
    return msgspec.structs.replace(inputs, fact=replace(fact, minimum=min(fact.minimum, 1)))


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
        look_at=min(filter(None, (untried, *_check_looks(inputs))), default=None),
        follows_policy=follows_policy(inputs, ()),
        ignored=_ignored(inputs),
        asks=to_ask(inputs.checks, workload.obstacle) if inputs.checks else NO_CHECKS,
    )


def _ignored(inputs: WorkloadInputs) -> tuple[str, ...]:
    """Of its object, or where there is none or it is a group, of its pods as well."""
    told = () if inputs.fact is None else inputs.fact.conduct.ignored
    if is_told_by_pods(inputs.key):
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
    if inputs.key.kind == kind_names.POD:
        return bool(inputs.recreations) or any(is_live(pod) for pod in inputs.pods)
    fact = inputs.fact
    return fact is not None and (fact.queue is not None or not support.needs_queue)


def _over(inputs: WorkloadInputs) -> bool:
    if inputs.key.kind == kind_names.POD:
        return not (inputs.recreations or any(is_live(pod) and not pod.deleting for pod in inputs.pods))
    fact = inputs.fact
    return fact is None or fact.finished or fact.deleting or inputs.job_result is not None


def _next_look(now: int, *times: int | None) -> int | None:
    """The first of these that is still to come."""
    return min((each for each in times if each is not None and each > now), default=None)
