"""Which pods the job controller will still make of a batch/v1 Job. Pure.

It goes by spec and status, and by pods that have ended and that it has not counted yet. An index that failed for good
gets no pod any more, nor does a Job that has met its success policy or is about to fail; of a work queue, a Job without
completions, no pod follows the first one that succeeds.

Source: ``syncJob``, ``manageJob`` and ``firstPendingIndexes`` in pkg/controller/job, Kubernetes 1.36.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import IndexRanges, JobCounts
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
