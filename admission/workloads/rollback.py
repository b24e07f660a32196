"""Gangs that go back whole: a pod cannot start or was refused its place, or the time of the workload is over. Pure.

Muster pins each pod to the node of its seat, so the scheduler's words are about that node: of all others it says that
they are not the one. A refusal counts until its cause can have changed.

A queue may allow work to hold its seats for so long only (``access.maxRunTime``). The time runs since it holds seats
without a break. Members that join a gang, or follow others that ended, do not prolong it, nor do pods that outlive the
object with which they were admitted: their own admissions count from the same second on. After an eviction for others
the next admission has the whole time again, since its work may have been lost. When the time is over the workload is
evicted whole, and is not run again (``Setbacks.is_run_out``): a user who wants more time submits it anew.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from admission.engine.snapshot import Rollback
from admission.facts.pods import PodFact
from admission.workloads.inputs import Timeouts, WorkloadInputs, revision_of
from admission.workloads.kinds import Holding, support_of
from admission.workloads.mismatched_pods import RequestChanges, change_of
from admission.workloads.pod_sets import SetOnNode
from admission.workloads.seats import SeatMap
from queues.admissions import NEVER_AGAIN, AdmissionState
from queues.api import names
from queues.quota.namespace_quota import first_lack, requests_together
from queues.quota.queue import REPORT, RunLimit
from queues.reason_codes import ReasonCode
from queues.text_format import counted, span
from queues.workload import AdmissionId, NodeName, Obstacle, WorkloadKey

#: Words of the scheduler about pods that are on the node, or near it: they can have changed when a pod goes there.
_ABOUT_OTHER_PODS: Final = re.compile(
    r"insufficient|too many pods|free ports|affinity rules|existing pods anti-affinity|topology spread|max volume count"
    r"|ReadWriteOncePod|in use",
    re.IGNORECASE,
)
#: Words about one node alone: no other node near it is the less good for them.
_ABOUT_ONE_NODE: Final = re.compile(r"insufficient|too many pods|free ports|max volume count", re.IGNORECASE)
#: Words about pods that have to be near and are not (yet).
_LACKS_NEIGHBOUR: Final = re.compile(r"didn't match pod affinity rules", re.IGNORECASE)
#: Words about volumes that are being detached, with whose pods Muster does not count them any more.
_PASSES: Final = re.compile(r"max volume count", re.IGNORECASE)
#: A node that refused a workload is left out for so long (seconds), unless the cause can have changed before …
REFUSAL_MEMORY: Final = 6 * 3600
#: … or passes by itself.
_PASSING_MEMORY: Final = 300
#: After so many refusals in a row a workload is tried again only once a cause can have changed …
REFUSAL_LIMIT: Final = 20
#: … and so long (seconds) after the last one.
_REST: Final = 3600


def goes_with_pods(words: str) -> bool:
    """Whether the cause of a refusal can have gone when a pod has gone from that node or from one near it."""
    return bool(_ABOUT_OTHER_PODS.search(words))


def memory_of(words: str) -> int:
    """For how long (seconds) a refusal counts at most."""
    return _PASSING_MEMORY if _PASSES.search(words) else REFUSAL_MEMORY


def is_of_a_domain(words: str) -> bool:
    """Whether nodes near this one may be refused for the same cause: its rack, its zone."""
    return not _ABOUT_ONE_NODE.search(words)


def refusals_of(
    places: Iterable[SeatMap], inputs: WorkloadInputs, now: int, timeouts: Timeouts
) -> dict[SetOnNode, str]:
    """Nodes for which the scheduler refuses pods of a workload now, by pod set, with its words.

    A gang goes back as soon as the time of its first pod is over; pods that have been refused for half as long count. A
    pod that lacks a neighbour counts only where nothing else is refused: the neighbour may be what is refused.
    """
    found: dict[SetOnNode, str] = {}
    for place in places:
        on_nodes = [SetOnNode(seat.pod_set, seat.node) for seat in place.admission.seats]
        refused = {
            on_nodes[index]: pod.refused
            for index, pod in place.seated.items()
            if pod.refused and not pod.node
        }
        for pod in place.unseated:
            if pod.refused and not pod.node:
                # Pods of a directed Job may use any vacant seat.
                refused |= {on_nodes[index]: pod.refused for index in place.vacant()}
        since = max(inputs.pod_left_at, last_bound(place))
        found |= {
            on_node: words
            for on_node, (at, words) in refused.items()
            if now - max(at, since) >= timeouts.refusal_grace // 2
        }
    sure = {on_node: words for on_node, words in found.items() if not _LACKS_NEIGHBOUR.search(words)}
    return sure or found


def last_bound(place: SeatMap) -> int:
    """When (seconds) the last pod of an admission was bound: pods that need it near them are tried again then."""
    return max((pod.bound_at for pod in place.seated.values()), default=0)


def refusal_revision(inputs: WorkloadInputs) -> str:
    """The revision for which refusals are counted; no count of pods that were not ready is for the same."""
    return f"refused {revision_of(inputs.fact, inputs.pods)}"


def next_try_after_refusal(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> int:
    """When a gang is tried again that the scheduler refuses now."""
    usual = timeouts.next_try(inputs.setbacks.rollbacks, now)
    return usual if _refusals_in_a_row(inputs) + 1 < REFUSAL_LIMIT else max(usual, now + _REST)


def held_back_by_refusals(inputs: WorkloadInputs) -> Obstacle | None:
    """The obstacle of a workload that was refused too often; None if it may be tried."""
    times, unready, refused = _refusals_in_a_row(inputs), inputs.setbacks.unready, inputs.refused
    if times < REFUSAL_LIMIT or unready is None or refused.may_differ or not refused.words:
        return None
    message = (
        f"not tried again after {counted(times, 'refusal')} in a row by the stock scheduler, on "
        f"{refused.named()}, the last time: {unready.message}. Correct the cause, then change the object, or "
        f"give its annotation {names.RETRY} another value; it is tried again by itself when one of these nodes or its "
        f"volumes change, at the latest {span(REFUSAL_MEMORY)} after the last refusal"
    )
    return Obstacle(ReasonCode.BACKOFF_LIMIT_EXCEEDED, message)


def _refusals_in_a_row(inputs: WorkloadInputs) -> int:
    unready = inputs.setbacks.unready
    return unready.times if unready is not None and unready.revision == refusal_revision(inputs) else 0


def pods_that_count_as_refused(place: SeatMap) -> tuple[PodFact, ...]:
    """Pods whose refusal by nodes counts. While an occupant is being deleted, pods without a seat do not."""
    leaving = any(pod.deleting for pod in place.seated.values())
    return (*place.seated.values(), *(() if leaving else place.unseated))


def is_refused(pod: PodFact, place: SeatMap, inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> bool:
    """Whether the scheduler has had its time, from when there was room for the pod, and its siblings were bound."""
    if pod.refused is None or pod.node is not None:
        return False
    return now - max(pod.refused[0], inputs.pod_left_at, last_bound(place)) >= timeouts.refusal_grace


def rollbacks_of(
    inputs: WorkloadInputs,
    places: Sequence[SeatMap],
    changes: RequestChanges,
    now: int,
    timeouts: Timeouts,
) -> dict[AdmissionId, Rollback]:
    """Gangs that cannot fully start, or not as they were admitted, go back whole."""
    not_before = timeouts.next_try(inputs.setbacks.rollbacks, now)
    fact = inputs.fact
    found: dict[AdmissionId, Rollback] = {}
    for place in places:
        admission = place.admission
        directed = fact is not None and fact.directed == admission.id
        outgrown = changes.outgrown.get(admission.id)
        if outgrown and fact is not None and (fact.suspended or not admission.started):
            message = change_of(fact, place, outgrown)
            found[admission.id] = Rollback(ReasonCode.REQUEST_CHANGED, message, now)
            continue
        if admission.started and not directed:
            continue
        if (mismatch := changes.mismatches.get(admission.id)) is not None:
            found[admission.id] = Rollback(ReasonCode.SEAT_MISMATCH, str(mismatch), not_before)
            continue
        lost = inputs.dead_nodes & {admission.seats[index].node for index in place.vacant()}
        refusals = [
            pod for pod in pods_that_count_as_refused(place) if is_refused(pod, place, inputs, now, timeouts)
        ]
        if refusals and refusals[0].refused:
            message = f"the scheduler refuses pod {refusals[0].name}: {refusals[0].refused[1]}"
            again_at = next_try_after_refusal(inputs, now, timeouts)
            found[admission.id] = Rollback(ReasonCode.REFUSED, message, again_at, refusal_revision(inputs))
        elif lost:
            found[admission.id] = _lost(min(lost), min(lost) in inputs.taken_nodes, now)
        elif taken := _name_taken(inputs, place):
            # The gang itself is tried again as soon as the name is free (``admission.world.learned.held_back``).
            pause = now if place is places[0] else not_before
            found[admission.id] = Rollback(ReasonCode.NAME_TAKEN, taken, pause)
        elif (lacks := quota_lacks(inputs, place)) and now - _last_made(place) >= timeouts.refusal_grace:
            message = f"not all of its pods can be made. {lacks}"
            found[admission.id] = Rollback(ReasonCode.NAMESPACE_QUOTA, message, not_before)
    return with_joined(places, found)


def faulty_gangs(
    inputs: WorkloadInputs, places: Sequence[SeatMap], now: int, timeouts: Timeouts
) -> dict[AdmissionId, Rollback]:
    """Gangs with a pod on an unhealthy device, where the queue's policy evicts them; and those on a node that is being
    recovered, whatever the queue says. The gang gets another place at once, and comes first in its queue; one that is
    hit again before it was ready pauses."""
    if not (inputs.recovery or inputs.device_faults):
        return {}
    rollbacks = inputs.setbacks.rollbacks
    not_before = timeouts.next_try(rollbacks - 1, now) if rollbacks else now
    found: dict[AdmissionId, Rollback] = {}
    for place in places:
        leaves = sorted({seat.node for seat in place.admission.holding()} & inputs.recovery.keys())
        hit = pods_on_faulty_devices(inputs, place)
        if leaves:
            told = inputs.recovery[leaves[0]]
        elif hit and inputs.policy.on_fault != REPORT:
            told = inputs.device_faults[hit[0].uid].told(f"of node {hit[0].node}, under pod {hit[0].name}")
        else:
            continue
        found[place.admission.id] = Rollback(ReasonCode.GPU_UNHEALTHY, told, not_before)
    return with_joined(places, found)


def pods_on_faulty_devices(inputs: WorkloadInputs, place: SeatMap) -> list[PodFact]:
    """Pods with an unhealthy device for which a gang may be evicted, in the order of their seats."""
    return [pod for _, pod in sorted(place.seated.items()) if pod.uid in inputs.device_faults]


def with_joined(
    places: Sequence[SeatMap], found: Mapping[AdmissionId, Rollback]
) -> dict[AdmissionId, Rollback]:
    """What goes back of a workload's open ``places``, the gang first: with a gang all that joined it, which is too few
    to run alone; without it what joined, alone."""
    gang = found.get(places[0].admission.id) if places else None
    joined = {} if gang is None else {place.admission.id: gang for place in places}
    return joined | dict(found)


def quota_lacks(inputs: WorkloadInputs, place: SeatMap) -> str:
    """Why a ResourceQuota keeps the pods from being made that a gang needs to start; "": it does not."""
    fact, admission = inputs.fact, place.admission
    if fact is None or not inputs.quotas or not waits_for_pods(inputs.key, place):
        return ""
    done = sum(len(pods.done) for pods in fact.pod_sets)
    vacant = place.vacant()
    needed = min(len(vacant), fact.minimum - done - len(place.seated))
    if needed <= 0:
        return ""
    asked = requests_together(Counter(admission.seats[index].takes for index in vacant), needed)
    return first_lack(inputs.quotas, asked)


def _name_taken(inputs: WorkloadInputs, place: SeatMap) -> str:
    """Why a Volcano Job's gang cannot have the names of the pods that it needs to start; "": it can."""
    fact, refusal, admission = inputs.fact, inputs.refusal, place.admission
    if fact is None or refusal is None or refusal.code is not ReasonCode.NAME_TAKEN:
        return ""
    if refusal.facts.get("admission") != admission.id:
        return ""  # it is about an earlier one
    awaited = inputs.awaited.get(admission.id, frozenset())
    coming = len(awaited.intersection(place.vacant()))
    done = sum(len(pods.done) for pods in fact.pod_sets)
    return refusal.message if len(place.seated) + coming + done < fact.minimum else ""


def waits_for_pods(key: WorkloadKey, place: SeatMap) -> bool:
    """Whether the controller of a workload has pods to make before an admission of it starts.

    A gang that has started may still get pods for vacant seats, or has no more to make: its pods have ended.
    """
    admission = place.admission
    if support_of(key).holding is Holding.GATED or admission.started:
        return False
    return admission.state is AdmissionState.OPEN and bool(place.vacant())


def _last_made(place: SeatMap) -> int:
    """When (seconds) the last pod of an admission was made; without any, when it was admitted."""
    pods = (*place.seated.values(), *place.unseated)
    return max((place.admission.opened_at, *(pod.created for pod in pods)))


def _lost(node: NodeName, taken: bool, now: int) -> Rollback:
    if taken:
        return Rollback(
            ReasonCode.SEAT_TAKEN, f"pods of others have taken the room of a seat on node {node}", now
        )
    return Rollback(ReasonCode.NODE_LOST, f"node {node} of a seat cannot take pods any more", now)


class RunEnd(NamedTuple):
    """Until when a workload may hold its seats. Seconds since the epoch."""

    limit: RunLimit
    at: int
    #: From when on it is warned.
    warning: int

    def next_look(self, now: int) -> int | None:
        """The next second at which something follows; None if all has."""
        return next((each for each in (self.warning, self.at) if each > now), None)


def run_end(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> RunEnd | None:
    """When a workload is ended that has these open admissions; None if never, or if it has none."""
    limit = inputs.run_limit
    if limit is None or not places:
        return None
    started = min(each.start for each in inputs.admissions)
    return RunEnd(limit, limit.end(started), limit.warning(started))


def run_out(end: RunEnd | None, places: Sequence[SeatMap], now: int) -> dict[AdmissionId, Rollback]:
    """Open admissions that are ended now: none, or all of the workload's."""
    if end is None or now < end.at:
        return {}
    ended = Rollback(ReasonCode.MAX_RUN_TIME, end.limit.used_up(), NEVER_AGAIN)
    return {place.admission.id: ended for place in places}


def obstacle_of_run_out(inputs: WorkloadInputs) -> Obstacle | None:
    """The obstacle of a workload that was ended; None if it was not."""
    if not inputs.setbacks.is_run_out:
        return None
    message = (
        "it has run for as long as its queue allows (access.maxRunTime) and is not run again; submit it anew"
    )
    return Obstacle(ReasonCode.MAX_RUN_TIME, message)


class Deadlines:
    """One time for each workload at which it is to be looked at though nothing changes."""

    def __init__(self) -> None:
        self._at: dict[WorkloadKey, int] = {}
        #: Soonest first; what is not in ``_at`` is outdated.
        self._heap: list[tuple[int, WorkloadKey]] = []

    def put(self, key: WorkloadKey, at: int | None) -> None:
        """The second at which a workload is to be looked at again, the next time if it is over; None if not before
        something changes."""
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            heappush(self._heap, (at, key))

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.put(key, None)

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that are to be looked at now, each named once."""
        found = set()
        while self._heap and self._heap[0][0] <= now:
            at, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.add(key)
        return found
