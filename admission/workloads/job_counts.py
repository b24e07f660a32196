"""Which pods the job controller will still make of a batch/v1 Job, and what a sync that goes on may make. Pure.

It goes by spec and status, and by pods that have ended and that it has not counted yet. An index that failed for good
gets no pod any more, nor does a Job that has met its success policy or is about to fail; of a work queue, a Job without
completions, no pod follows the first one that succeeds.

Source: ``syncJob``, ``manageJob`` and ``firstPendingIndexes`` in pkg/controller/job, Kubernetes 1.36.

One sync of the job controller makes up to 500 pods (``MaxPodCreateDeletePerSync``) and reads ``spec.suspend`` and
``spec.parallelism`` at its beginning only: it goes on when the Job is changed or deleted meanwhile. Until its end
``status.active`` is what it was before, 0 at a first start. At the end it writes the whole status at once, also the
condition Suspended, with a new ``lastTransitionTime`` if that changed; the write is refused if the Job was changed
meanwhile. Syncs of one Job follow each other, so a sync that read that the Job is suspended proves that no earlier one
makes pods any more. Which parallelism a sync has read is not known.

Source: ``syncJob``, ``manageJob`` and ``updateJobStatus`` in pkg/controller/job/job_controller.go, Kubernetes 1.36.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import IndexRanges, JobCounts, WorkloadFact
from admission.workloads.inputs import SeatIndices, Timeouts, WorkloadInputs
from admission.workloads.seats import SeatMap
from queues.admissions import Admission, AdmissionState
from queues.api.reading.user_values import number

_LIVE = (PodPhase.PENDING, PodPhase.RUNNING)


def pods_at_a_time(counts: JobCounts, active: int) -> int:
    """Pods of a Job that run at the same time from now on. ``active``: those that run now."""
    if counts.ends:
        return 0
    if counts.completions is None:
        return active if counts.succeeded else counts.parallelism
    done = counts.succeeded if counts.over is None else length(counts.over)
    return max(0, min(counts.parallelism, counts.completions - done))


def pods_at_first(counts: JobCounts) -> int:
    """Pods of a Job that run at the same time before any has ended."""
    return counts.parallelism if counts.completions is None else min(counts.parallelism, counts.completions)


def indexes_to_come(counts: JobCounts, active: Collection[int]) -> tuple[int, ...]:
    """Completion indexes that get a pod next, ascending. ``active``: those that have one. Empty if the Job is not
    Indexed."""
    if counts.over is None or counts.completions is None:
        return ()
    count = pods_at_a_time(counts, 0) - len(active)
    over, found, index = iter((*counts.over, (counts.completions, counts.completions))), list[int](), 0
    first, last = next(over)
    while len(found) < count and index < counts.completions:
        if index >= first:
            index, (first, last) = max(index, last + 1), next(over)
            continue
        if index not in active:
            found.append(index)
        index += 1
    return tuple(found)


def with_ended(counts: JobCounts, pods: Sequence[PodFact]) -> JobCounts:
    """The counts with pods that have succeeded and that the status does not count yet: it may do so seconds later."""
    succeeded = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED]
    if not succeeded:
        return counts
    if counts.over is not None:
        # The controller forgets indexes that a Job has no more; they get another pod if it has them again.
        active = {pod.index for pod in pods if pod.phase in _LIVE and not pod.deleting}
        indexes = {pod.index for pod in succeeded if pod.uncounted or pod.index not in active}
        over = union(counts.over, ((index, index) for index in indexes if index is not None))
        over = within(over, counts.completions or 0)
        return counts if over == counts.over else replace(counts, over=over)
    fresh = sum(pod.uncounted and pod.uid not in counts.counting for pod in succeeded)
    # Pods that the controller removes because they are too many lose its finalizer first, and count as nothing.
    shown = sum(pod.uncounted or not pod.deleting for pod in succeeded)
    found = max(counts.succeeded + fresh, shown)
    return counts if found == counts.succeeded else replace(counts, succeeded=found)


# ── completion indexes in ranges ────────────────────────────────────────────────────────────────────────────────


def index_ranges(text: str | None, *, below: int) -> IndexRanges:
    """Completion indexes of a Job's status: ``0-3,7``, ascending. What cannot be read or goes back is left out."""
    found: list[tuple[int, int]] = []
    next_ = 0
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        start, end = number(first), number(last or first)
        if start is not None and end is not None and next_ <= start <= end:
            next_ = end + 1
            found.append((start, end))
    return within(tuple(found), below)


def within(ranges: IndexRanges, below: int) -> IndexRanges:
    """The ranges without indexes from ``below`` on."""
    if not ranges or ranges[-1][1] < below:
        return ranges
    return tuple((first, min(last, below - 1)) for first, last in ranges if first < below)


def union(ranges: IndexRanges, more: Iterable[tuple[int, int]]) -> IndexRanges:
    """All indexes of both, as few ranges as possible."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((*ranges, *more)):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def length(ranges: IndexRanges) -> int:
    """Number of indexes in ranges that do not overlap."""
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    return sum(last - first + 1 for first, last in ranges)


def indexes_in(ranges: IndexRanges) -> frozenset[int]:
    """Each index of some ranges."""
    return frozenset(index for first, last in ranges for index in range(first, last + 1))


#: ``MaxPodCreateDeletePerSync``.
MOST_PODS_OF_A_SYNC = 500


def may_make_pods(fact: WorkloadFact, admission: Admission, suspended_before: int = 0) -> bool:
    """Whether a sync may go on that makes pods for the seats of this admission, which is being evicted.

    Only pods of a Job that was resumed with the nodes of the admission count: others come up behind a gate. It was
    suspended when the admission was opened, so a later transition to True says that a sync found it resumed, and
    another one suspended again. The first sync of a new Job may come as late as after the opening, so the transition
    must not be from before the eviction either. Times are whole seconds; a gang that is evicted in the second of its
    opening counts as suspended by a transition in that second, which its controller mostly writes then: unless that is
    ``suspended_before``, the transition in the Job's status when it was last seen resumed (0: none, or not known). True
    may be the answer for good: syncs that found the Job resumed could not write, because it was suspended again.
    """
    if fact.directed != admission.id:
        return False
    if suspended_before and fact.suspended_at == suspended_before:
        return True
    return fact.suspended_at < max(admission.opened_at, admission.evicted_at)


def longest_sync(fact: WorkloadFact | None, admission: Admission, timeouts: Timeouts) -> int:
    """Seconds after which no sync that found the Job resumed goes on, whatever its status says. The Job may have been
    made smaller since, or be gone (None), so the seats that it had count too."""
    pods = min(max(0 if fact is None else fact.parallelism, len(admission.seats)), MOST_PODS_OF_A_SYNC)
    return timeouts.job_sync + ceil(timeouts.job_sync_per_pod * pods)


def seats_given_up(fact: WorkloadFact | None, admissions: Iterable[Admission]) -> SeatIndices:
    """Seats (indices) that may end before the controller says that the Job has finished, whether they have pods or
    not: the Job is gone or being deleted, these admissions are evicted, or it was made smaller than they are.

    A Job that has finished has no pods any more: its controller says so after the last one has ended.
    """
    if fact is not None and fact.finished:
        return {}
    gone = fact is None or fact.deleting
    return {
        each.id: frozenset(range(len(each.seats)))
        for each in admissions
        if gone or each.state is AdmissionState.EVICTING or _is_made_smaller(fact, each)
    }


def _is_made_smaller(fact: WorkloadFact | None, admission: Admission) -> bool:
    """Whether a Job got more seats than it has pods at a time now. Only those of one whose pods are not gated count: a
    sync that read the number of before makes pods that start."""
    return fact is not None and fact.directed == admission.id and len(admission.seats) > fact.parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSyncs:
    """What the job controller may be doing for a Job that leaves its seats. Without fields: it is no batch/v1 Job."""

    #: None if it is gone.
    fact: WorkloadFact | None = None
    #: As in ``WorkloadInputs``.
    suspended_before: int = 0
    #: No pod was missing, or about to be replaced, when the Job began to leave its seats.
    pods_seen: bool = False
    #: Since when (seconds) the Job is suspended, being deleted or smaller while a sync may go on; 0: that is not so.
    since: int = 0
    #: From when on none goes on in any case; None if that is not known.
    until: int | None = None
    #: By now it is so late.
    late: bool = False

    def allow_end(self, admission: Admission) -> bool:
        """True if a missing pod proves that no pod will come for its seat, as far as the controller is concerned."""
        fact = self.fact
        if self.late or not seats_given_up(fact, (admission,)):
            return True
        if fact is None or not _is_to_stop(fact, admission):
            return self.pods_seen
        return _is_idle(fact) and not may_make_pods(fact, admission, self.suspended_before)

    def are_over(self, admissions: Iterable[Admission]) -> bool:
        """Whether the Job gives up seats of these admissions, and no sync makes pods for them any more."""
        leaving = [each for each in admissions if seats_given_up(self.fact, (each,))]
        return bool(leaving) and all(map(self.allow_end, leaving))


def syncs_of(inputs: WorkloadInputs, places: Sequence[SeatMap], now: int, timeouts: Timeouts) -> JobSyncs:
    """What the job controller may be doing for a batch Job with these seats."""
    fact = inputs.fact
    found = JobSyncs(
        fact=fact, suspended_before=inputs.suspended_before, pods_seen=_pods_seen(inputs, places)
    )
    waits = [
        longest_sync(fact, each, timeouts)
        for each in inputs.admissions
        if not found.allow_end(each) and (fact is None or not _is_to_stop(fact, each) or _is_idle(fact))
    ]
    if not waits:
        return found
    since = inputs.remembered.stopping_since or now
    until = since + max(waits)
    return replace(found, since=since, until=until, late=until <= now)


def _pods_seen(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> bool:
    """As it was before the Job began to leave its seats: a pod that ends later is not replaced. A sync that began
    before makes no pod for a seat that has one, unless that one is being deleted: its successor comes at once."""
    fact = inputs.fact
    if seats_given_up(fact, inputs.admissions):
        # A resumption that is under way may be carried out after what the Job's status says.
        if inputs.remembered.pods_seen or fact is None or any(inputs.awaited.values()):
            return inputs.remembered.pods_seen
        return _tells_of_none(fact, inputs)
    return bool(places) and all(
        _is_gated(fact, place.admission) or not _lacks_pods(place) for place in places
    )


def _lacks_pods(place: SeatMap) -> bool:
    ending = sum(pod.deleting for pod in place.seated.values())
    coming = sum(not pod.deleting for pod in place.unseated)
    return len(place.vacant()) + ending > coming


def _is_gated(fact: WorkloadFact | None, admission: Admission) -> bool:
    """Whether pods come up behind a gate. A Job that is suspended may be resumed with the nodes of its admission."""
    return fact is not None and not fact.suspended and fact.directed != admission.id


def _tells_of_none(fact: WorkloadFact, inputs: WorkloadInputs) -> bool:
    """Whether all admissions of a Job are evicted, and its status proves that no sync makes pods for them."""
    return _is_idle(fact) and not any(
        each.state is not AdmissionState.EVICTING or may_make_pods(fact, each, inputs.suspended_before)
        for each in inputs.admissions
    )


def _is_to_stop(fact: WorkloadFact, admission: Admission) -> bool:
    """Whether a Job is suspended, or about to be: some time its status says so."""
    return admission.state is AdmissionState.EVICTING and not fact.deleting


def _is_idle(fact: WorkloadFact) -> bool:
    return fact.suspended and fact.active == 0
