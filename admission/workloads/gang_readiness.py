"""Whether the pods of a gang get ready in time, and whether lost ones come again. If not, it goes back whole. Pure.

A gang that keeps going back is held back in the end.

The time (``policy.readyWithin``) runs from the last pod bound, as long as not all pods have been ready together for a
while: a container that starts and crashes at once is ready for a moment. While no pod of a gang is bound it runs from
the admission: its pods are not made, or not bound. A gang that was ready is left alone while it has its pods
(``missing_pods``): what fails then is the matter of its restart policy, and of its owner. Kueue calls it
waitForPodsReady (KEP-349), with ``backoffLimitCount`` for ``policy.readyBackoffLimit``.

A controller makes lost pods again within seconds, unless it cannot: the service account of the pods was deleted, a
webhook refuses them, a ResourceQuota of the namespace has no room. Then the gang holds seats and gets nothing done. So
after ``policy.readyWithin`` it goes back as a gang that never got ready does, and is counted in the same way. The time
runs from when the first pod that it needs was seen to be missing, and begins anew once none is. Kueue calls it
``recoveryTimeout`` (KEP-349).

A gang that has as many pods as it needs goes on: missing pods beyond these are reported, and their seats are kept. What
joined a gang goes back alone once it has no pod at all. A Job goes back only once its controller knows that the pods
are gone: while the controller is away, they may have succeeded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from admission.engine.snapshot import Rollback
from admission.facts.pods import PodFact, PodPhase
from admission.workloads.inputs import NOT_MISSING, MissingSince, Timeouts, WorkloadInputs, revision_of
from admission.workloads.job_counts import indexes_to_come
from admission.workloads.kinds import SUSPENDED, support_of
from admission.workloads.rollback import with_joined
from admission.workloads.seats import SeatMap, awaits_seat, is_live, vacant_and_due
from queues.api import names
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.text_format import counted, duration, listed, rfc3339, span
from queues.workload import AdmissionId, Obstacle

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReadiness:
    """How far the gangs of one workload are that have not been ready yet, or what those lack that have started."""

    #: Admissions with pods that have been ready together for long enough.
    ready: tuple[AdmissionId, ...] = ()
    #: Since when (seconds) the pods of admissions are ready together that are not among ``ready`` in the ledger yet.
    running: Mapping[AdmissionId, int] = field(default_factory=lambda: _NOTHING)
    #: Since when admissions lack pods; empty: they lack nothing.
    missing_since: Mapping[AdmissionId, MissingSince] = field(default_factory=lambda: _NOTHING)
    #: Admissions that go back because pods were not ready in time, or nothing made lost ones again.
    late: Mapping[AdmissionId, Rollback] = field(default_factory=lambda: _NOTHING)
    #: Pods that something keeps from getting ready while there is time left, or that have been missing for a while;
    #: None if there are none.
    problem: Reason | None = None
    #: The second from which on the answer is another one though nothing changes; None if it stays.
    look_at: int | None = None


@dataclass(frozen=True, slots=True)
class _AwaitedGang:
    """An admission with pods that have not been ready together yet."""

    place: SeatMap
    #: In the order of their seats.
    unready: Sequence[PodFact]
    #: Seats that wait for a pod.
    vacant: int
    #: Gates of others on pods that could have such a seat.
    gates: Sequence[str] = ()

    def is_ready(self) -> bool:
        return not self.unready and not self.vacant

    def ready_since(self) -> int:
        return max(pod.ready_since or 0 for pod in self.place.seated.values())

    def begins(self) -> int:
        """The second from which the time runs."""
        return max((self.place.admission.opened_at, *(pod.bound_at for pod in self.place.seated.values())))

    def told_late(self, within: int) -> str:
        """The sentence for people once the time (seconds) is over."""
        is_bound = any(pod.node is not None for pod in self.place.seated.values())
        since = "the last one was bound" if is_bound else "the gang got its seats, none was bound"
        return self.told(f" {span(within)} after {since}")

    def told(self, when: str) -> str:
        """The sentence for people; ``when``: words that say at what time."""
        pods = len(self.place.admission.holding())
        named = [f"{pod.name} ({_waits_for(pod)})" for pod in self.unready]
        if self.vacant:
            gates = f" (scheduling gates of others: {listed(self.gates)})" if self.gates else ""
            named.append(f"{counted(self.vacant, 'seat')} without a pod{gates}")
        missing = len(self.unready) + self.vacant
        return f"{missing} of {counted(pods, 'pod')} not ready{when}: {listed(named)}"


def gang_readiness(
    inputs: WorkloadInputs, places: Sequence[SeatMap], now: int, timeouts: Timeouts
) -> GangReadiness:
    """The readiness of the open admissions of a workload, the oldest first, without the seats that end now."""
    # A Job is suspended whole, so members that join it later cannot go back alone.
    judged = places[:1] if support_of(inputs.key).holding in SUSPENDED else places
    gangs = [_awaited_gang(place, inputs, places) for place in judged if _is_awaited(place)]
    # Where no pod is left, all have succeeded.
    gangs = [gang for gang in gangs if gang.place.seated or gang.vacant]
    if not gangs:
        return GangReadiness()
    within = inputs.policy.ready_within or 0
    ready = [gang for gang in gangs if gang.is_ready() and gang.place.admission.started]
    unready = [gang for gang in gangs if not gang.is_ready()] if within else []
    deadlines = {gang.place.admission.id: gang.begins() + within for gang in unready}
    steady = {gang.place.admission.id: gang.ready_since() + timeouts.ready_for for gang in ready}
    not_before = timeouts.next_try(inputs.setbacks.rollbacks, now)
    late = {
        id_: Rollback(
            ReasonCode.NOT_READY, gang.told_late(within), not_before, revision_of(inputs.fact, inputs.pods)
        )
        for gang in unready
        if deadlines[id_ := gang.place.admission.id] <= now
    }
    late = with_joined(places, late)
    return GangReadiness(
        ready=tuple(id_ for id_, at in steady.items() if at <= now and id_ not in late),
        running={gang.place.admission.id: gang.ready_since() for gang in ready} or _NOTHING,
        late=late or _NOTHING,
        problem=_problem(unready, deadlines),
        look_at=min((at for at in (*steady.values(), *deadlines.values()) if at > now), default=None),
    )


def held_back(inputs: WorkloadInputs) -> Obstacle | None:
    """The obstacle of a workload that failed to get ready as often as its queue allows; None if it may be tried."""
    unready, policy = inputs.setbacks.unready, inputs.policy
    limit = policy.ready_backoff_limit or 0
    if unready is None or unready.times <= limit or not policy.ready_within:
        return None
    if unready.revision != revision_of(inputs.fact, inputs.pods):
        return None
    message = (
        f"not tried again after {counted(unready.times, 'failure')} in a row to get ready "
        f"(policy.readyBackoffLimit is {limit}), the last time: {unready.message}. Change the object, "
        f"or give its annotation {names.RETRY} another value, to have it tried again"
    )
    return Obstacle(ReasonCode.BACKOFF_LIMIT_EXCEEDED, message)


def follows_policy(inputs: WorkloadInputs, places: Iterable[SeatMap]) -> bool:
    """Whether another policy of its queue may change what follows for a workload."""
    starts_so = inputs.fact is not None and inputs.fact.whole_by_default
    return starts_so or inputs.setbacks.unready is not None or any(map(_is_awaited, places))


def _is_awaited(place: SeatMap) -> bool:
    admission = place.admission
    if admission.ready or not admission.holding():
        return False
    return bool(place.seated) or not admission.started


def _awaited_gang(place: SeatMap, inputs: WorkloadInputs, places: Sequence[SeatMap]) -> _AwaitedGang:
    unready = [pod for _, pod in sorted(place.seated.items()) if pod.ready_since is None]
    vacant = vacant_and_due(place, inputs.fact, places)
    if vacant:
        vacant = vacant[_succeeded(place, vacant, inputs) :]
    held = [pod for pod in inputs.pods if pod.other_gates and awaits_seat(pod)] if vacant else []
    gates = sorted({gate for pod in held for gate in pod.other_gates})
    return _AwaitedGang(place, unready, len(vacant), gates)


def _succeeded(place: SeatMap, vacant: Sequence[int], inputs: WorkloadInputs) -> int:
    """Pods that have done their work and left these seats."""
    admission = place.admission
    places = {(admission.seats[index].pod_set, admission.seats[index].ordinal) for index in vacant}
    stored = {each for each in places if inputs.outcomes.get(each) is PodPhase.SUCCEEDED}
    shown = [pod for pod in inputs.pods if pod.phase is PodPhase.SUCCEEDED and pod.admission == admission.id]
    stored |= {pod.seat for pod in shown if pod.seat in places}
    return len(stored) + sum(pod.seat is None for pod in shown)


def _problem(gangs: Iterable[_AwaitedGang], deadlines: Mapping[AdmissionId, int]) -> Reason | None:
    """What a gang shows while something holds its pods up. A gang that only starts shows nothing."""
    for gang in gangs:
        if gang.gates or any(pod.waits_for or pod.other_gates for pod in gang.unready):
            at = rfc3339(deadlines[gang.place.admission.id])
            message = f"{gang.told('')}; the gang goes back at {at} unless they get ready"
            return Reason(code=ReasonCode.NOT_READY, message=message)
    return None


def _waits_for(pod: PodFact) -> str:
    if pod.waits_for:
        return pod.waits_for
    if pod.other_gates:
        return f"scheduling gates of others: {listed(pod.other_gates)}"
    if pod.node is None:
        return "it is not bound"
    return (
        "its containers are not created" if pod.phase is PodPhase.PENDING else "its containers are not ready"
    )


#: The job controller waits so long at most (seconds) before it replaces a pod that failed
#: (``MaxJobPodFailureBackOff`` in pkg/controller/job/job_controller.go, Kubernetes 1.36).
JOB_FAILURE_BACKOFF: Final = 600


@dataclass(frozen=True, slots=True)
class _LackingGang:
    """An admission with seats that have lost their pods."""

    inputs: WorkloadInputs
    place: SeatMap
    vacant: Sequence[int]
    since: MissingSince
    #: Why it keeps its seats; "": it goes back.
    stays: str

    def deadline(self) -> int | None:
        """When (seconds) it goes back; None if it does not."""
        if self.stays:
            return None
        return self.since.needed + (self.inputs.policy.ready_within or 0) + _failure_backoff(self.inputs)

    def told_late(self, now: int) -> str:
        """The sentence for people when the time is over."""
        return self._told(f"{duration(now - self.since.needed)} after the first of them was lost")

    def told_before(self) -> str:
        """The sentence for people while there is time left, or none runs."""
        told, deadline = self._told(f"since {rfc3339(self.since.needed or self.since.seat)}"), self.deadline()
        if deadline is None:
            return f"{told}; {self.stays}"
        return f"{told}; the gang goes back at {rfc3339(deadline)} unless they are there again"

    def _told(self, when: str) -> str:
        pods = len(self.place.admission.holding())
        return f"{len(self.vacant)} of {counted(pods, 'pod')} missing {when}: {self._named()}"

    def _indexes(self) -> Sequence[int]:
        """Completion indexes of the pods that are missing of an Indexed Job; empty: it is another object."""
        fact = self.inputs.fact
        if fact is None or fact.counts is None:
            return ()
        active = {pod.index for pod in self.inputs.pods if is_live(pod) and pod.index is not None}
        return indexes_to_come(fact.counts, active)

    def _named(self) -> str:
        inputs, seats = self.inputs, self.place.admission.seats
        named = f"{counted(len(self.vacant), 'seat')} without a pod"
        if support_of(inputs.key).is_by_ordinal(inputs.fact):
            named = listed([f"{seats[index].pod_set}/{seats[index].ordinal}" for index in self.vacant])
        elif indexes := self._indexes():
            named = listed([f"{seats[0].pod_set}/{index}" for index in indexes])
        gates = {gate for pod in inputs.pods if awaits_seat(pod) for gate in pod.other_gates}
        if gates:
            return f"{named} (scheduling gates of others: {listed(sorted(gates))})"
        if inputs.refusal is not None:
            return f"{named} ({inputs.refusal.message})"
        if support_of(inputs.key).holding in SUSPENDED:
            return f"{named} (events of the Job say why its controller makes none)"
        return named


def missing_pods(
    inputs: WorkloadInputs, places: Sequence[SeatMap], now: int, timeouts: Timeouts
) -> GangReadiness:
    """What the open admissions of a workload lack, the oldest first, without the seats that end now."""
    lacking = [
        (place, vacant)
        for place in places
        if _may_lack_pods(place) and (vacant := vacant_and_due(place, inputs.fact, places))
    ]
    if not lacking:
        return GangReadiness()
    gangs = [_lacking_gang(place, vacant, inputs, places, now) for place, vacant in lacking]
    not_before = timeouts.next_try(inputs.setbacks.rollbacks, now)
    late = {
        gang.place.admission.id: Rollback(
            ReasonCode.NOT_READY, gang.told_late(now), not_before, revision_of(inputs.fact, inputs.pods)
        )
        for gang in gangs
        if (deadline := gang.deadline()) is not None and deadline <= now
    }
    told = [gang.told_before() for gang in gangs if gang.since.seat + timeouts.ready_for <= now]
    times = [gang.deadline() for gang in gangs] + [gang.since.seat + timeouts.ready_for for gang in gangs]
    return GangReadiness(
        missing_since={gang.place.admission.id: gang.since for gang in gangs},
        late=with_joined(places, late) or _NOTHING,
        problem=Reason(code=ReasonCode.NOT_READY, message=told[0]) if told else None,
        look_at=min((at for at in times if at is not None and at > now), default=None),
    )


def _may_lack_pods(place: SeatMap) -> bool:
    """Whether an admission has started, has no pod in some seat, and is not waited for to get ready."""
    admission = place.admission
    if not admission.started or len(place.seated) + len(admission.ended) >= len(admission.seats):
        return False
    return admission.ready or not place.seated


def _lacking_gang(
    place: SeatMap, vacant: Sequence[int], inputs: WorkloadInputs, places: Sequence[SeatMap], now: int
) -> _LackingGang:
    before = inputs.remembered.missing_since.get(place.admission.id, NOT_MISSING)
    goes_on = _goes_on(place, inputs, places)
    since = MissingSince(seat=before.seat or now, needed=0 if goes_on else before.needed or now)
    if goes_on:
        stays = "the others go on, and the seats are kept"
    elif not inputs.policy.ready_within:
        stays = "the gang keeps its seats, because policy.readyWithin is 0"
    else:
        stays = _unnoticed(inputs, places)
    return _LackingGang(inputs, place, vacant, since, stays)


def _goes_on(place: SeatMap, inputs: WorkloadInputs, places: Sequence[SeatMap]) -> bool:
    """Whether no more pods are missing than a gang, or what joined it, can do without."""
    if place is not places[0]:
        # A Job is suspended whole, so what joined it cannot go back alone.
        return bool(place.seated) or support_of(inputs.key).holding in SUSPENDED
    live = _live(places)
    return live > 0 and (inputs.fact is None or live + _done(inputs) >= inputs.fact.minimum)


def _live(places: Iterable[SeatMap]) -> int:
    return sum(len(place.seated) for place in places)


def _done(inputs: WorkloadInputs) -> int:
    """Members that are done: they are part of the gang still."""
    if support_of(inputs.key).is_group:
        return sum(pod.phase is PodPhase.SUCCEEDED for pod in inputs.pods)
    asked = inputs.fact.pod_sets if inputs.fact is not None else ()
    return len(inputs.outcomes) + sum(len(pods.done) for pods in asked)


def _unnoticed(inputs: WorkloadInputs, places: Iterable[SeatMap]) -> str:
    """Why a Job stays whose controller counts pods that are gone: they may have succeeded. "": it counts none."""
    fact = inputs.fact
    if fact is None or support_of(inputs.key).holding not in SUSPENDED or fact.active <= _live(places):
        return ""
    return f"the seats are kept: the Job's status still says {counted(fact.active, 'active pod')}"


def _failure_backoff(inputs: WorkloadInputs) -> int:
    """Seconds that a controller may wait on purpose before it makes a pod again."""
    if support_of(inputs.key).holding not in SUSPENDED:
        return 0
    failed = any(pod.phase is PodPhase.FAILED for pod in inputs.pods)
    return JOB_FAILURE_BACKOFF if failed else 0
