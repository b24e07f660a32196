"""How long a workload has waited, and which rules for waiting gangs hold for it."""

from bisect import bisect_left
from typing import Final

from admission.engine.placement.need import MissingMembers
from queues.plugins.built_in import gives_way
from queues.quota.tree import QueueTree
from queues.workload import Workload, WorkloadKey

#: Seconds of waiting after which a gang counts as passed over, whatever the rules.
LONG_WAIT: Final = 7 * 86_400

#: Declared run times count as the next of these (seconds), so that workloads of one shape stay few classes.
_RUN_TIMES: Final = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 345600, 604800)


def arrival_order(workload: Workload) -> tuple[int, WorkloadKey]:
    """Sort key: the workload that arrived first comes first."""
    return workload.arrival, workload.key


def waits_since(workload: Workload) -> tuple[int, int, WorkloadKey]:
    """Sort key: the workload that has waited longest comes first. The first item is in seconds since the epoch."""
    return workload.waiting_since or workload.created, *arrival_order(workload)


def run_time_class(workload: Workload) -> int | None:
    """The declared run time rounded up to one of few steps; None if unknown."""
    seconds = workload.run_time
    if seconds is None:
        return None
    step = bisect_left(_RUN_TIMES, seconds)
    return _RUN_TIMES[step] if step < len(_RUN_TIMES) else -(-seconds // 604800) * 604800


def starves_at(workload: Workload, need: MissingMembers, tree: QueueTree) -> int | None:
    """From which second on a place is cleared for a gang; None if never, as for single pods."""
    clear_after = tree.policy(workload.queue).clear_after
    if clear_after is None or not workload.preempts or not need.of_gang:
        return None
    return (workload.waiting_since or workload.created) + clear_after


def is_passed_over(workload: Workload, need: MissingMembers, tree: QueueTree, now: int) -> bool:
    """Whether a gang is left behind by smaller work: no place is cleared for it in a day, by the rules or in fact."""
    since = passed_over_from(workload, need, tree)
    return since is not None and since <= now


def passed_over_from(workload: Workload, need: MissingMembers, tree: QueueTree) -> int | None:
    """From which second on a gang counts as passed over; None if never, as for single pods."""
    if not need.of_gang:
        return None
    if not workload.preempts or not gives_way(tree.policy(workload.queue).clear_after):
        return 0
    return (workload.waiting_since or workload.created) + LONG_WAIT


def affects_reservation(workload: Workload) -> bool:
    """Whether its end is known, or it could settle on a place from which it cannot be cleared."""
    return workload.run_time is not None or not workload.preemptable or bool(workload.min_run_time)


def soonest(*seconds: int | None) -> int | None:
    """The earliest of these seconds; None stands for never."""
    first: int | None = None
    for each in seconds:
        if each is not None and (first is None or each < first):
            first = each
    return first
