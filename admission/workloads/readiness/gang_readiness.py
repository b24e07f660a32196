"""Whether the pods of a gang get ready in time. If not, it goes back whole, and is held back in the end.

The time (``policy.readyWithin``) runs from the last pod bound, as long as not all pods have been ready together for a
while: a container that starts and crashes at once is ready for a moment. While no pod of a gang is bound it runs from
the admission: its pods are not made, or not bound. A gang that was ready is left alone while it has its pods
(``missing_pods``): what fails then is the matter of its restart policy, and of its owner. Kueue calls it
waitForPodsReady (KEP-349), with ``backoffLimitCount`` for ``policy.readyBackoffLimit``. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from admission.engine.snapshot import Rollback
from admission.facts.pods import PodFact, PodPhase
from admission.workloads.inputs import Timeouts, WorkloadInputs, revision_of
from admission.workloads.kinds import support_of
from admission.workloads.rollback import with_joined
from admission.workloads.seats import SeatMap, awaits_seat, vacant_and_due
from queues.api import names
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.text_format import counted, listed, rfc3339, span
from queues.workload import AdmissionId, Obstacle

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReadiness:
    """How far the gangs of one workload are that have not been ready yet."""

    #: Admissions with pods that have been ready together for long enough.
    ready: tuple[AdmissionId, ...] = ()
    #: Since when (seconds) the pods of admissions are ready together that are not among ``ready`` in the ledger yet.
    running: Mapping[AdmissionId, int] = field(default_factory=lambda: _NOTHING)
    #: Admissions that go back because pods were not ready in time.
    late: Mapping[AdmissionId, Rollback] = field(default_factory=lambda: _NOTHING)
    #: Pods that something keeps from getting ready, while there is time left; None if there are none.
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
    judged = places[:1] if support_of(inputs.key).holding.is_suspended else places
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
    late = _late(inputs, places, [gang for gang in unready if deadlines[gang.place.admission.id] <= now])
    rollback_at = timeouts.next_try(inputs.setbacks.rollbacks, now)
    return GangReadiness(
        ready=tuple(id_ for id_, at in steady.items() if at <= now and id_ not in late),
        running={gang.place.admission.id: gang.ready_since() for gang in ready} or _NOTHING,
        late={id_: rollback._replace(not_before=rollback_at) for id_, rollback in late.items()} or _NOTHING,
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
    return inputs.setbacks.unready is not None or any(map(_is_awaited, places))


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


def _late(
    inputs: WorkloadInputs, places: Sequence[SeatMap], gangs: Sequence[_AwaitedGang]
) -> dict[AdmissionId, Rollback]:
    """Admissions that go back: a gang with all that joined it; else what joined alone."""
    revision, within = revision_of(inputs.fact, inputs.pods), inputs.policy.ready_within or 0
    found = {
        gang.place.admission.id: Rollback(
            ReasonCode.NOT_READY,
            gang.told_late(within),
            0,
            revision,
        )
        for gang in gangs
    }
    return with_joined(places, found)


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
