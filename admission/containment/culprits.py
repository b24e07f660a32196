"""Workloads that a step fails on, found by trying the step with fewer of them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from queues.workload import WorkloadKey

#: Tries of one search: enough for a few culprits among 100,000 workloads. The next turn goes on where this one stops.
MOST_TRIES: Final = 64

#: Whether the step passes with just these workloads.
Passes = Callable[[Sequence[WorkloadKey]], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Culprits:
    """What a search found."""

    #: Workloads that the step fails on.
    found: tuple[WorkloadKey, ...]
    #: Workloads with which, together, the step was seen to pass.
    harmless: tuple[WorkloadKey, ...]
    #: False: the tries were used up before the step passed with all other workloads.
    complete: bool


async def find_culprits(
    workloads: Sequence[WorkloadKey], passes: Passes, *, tries: int = MOST_TRIES
) -> Culprits | None:
    """The workloads that make a step fail: without them it passes. None if it fails without any workload too.

    Keeps a number of first workloads with which the step passes, and one with which it fails, and halves what is
    between: the workload that makes the difference is a culprit, also if it is one only together with others.
    """
    if not await passes(()):
        return None
    rest, found, low, left = list(workloads), list[WorkloadKey](), 0, tries - 1
    while left > 0:
        high = len(rest)
        while high - low > 1 and left > 0:
            middle, left = (low + high) // 2, left - 1
            if await passes(rest[:middle]):
                low = middle
            else:
                high = middle
        if high - low > 1 or not rest:
            break
        found.append(rest.pop(high - 1))
        left -= 1
        if low == len(rest) or await passes(rest):
            return Culprits(tuple(found), tuple(rest), complete=True)
    return Culprits(tuple(found), tuple(rest[:low]), complete=False)
