"""Workloads that are expected to come: as many, and of the kinds, that came in the last day at that time of day. Pure.

Without them a forecast would be too early: work that comes later may come first, by priority or by the share of its
queue. In each draw another part of what came in the past comes again (a bootstrap).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from admission.forecast.run_times import SHARES, share_of
from queues.workload import Workload, WorkloadKey

#: Seconds of the past that are expected to come again and again.
WINDOW: Final = 86_400
#: With less of the past than this (seconds) nothing is expected to come.
LEAST: Final = 3600
#: Arrivals that are kept, the latest ones.
KEPT: Final = 20_000
#: Shares of ``SHARES`` below which a workload of the past comes 0, 1, 2 or 3 times, on average once.
_TIMES: Final = (0.3679, 0.7358, 0.9197, 0.981)


class Arrival(NamedTuple):
    """A workload that comes, or came, at a second (since the epoch)."""

    second: int
    workload: Workload


@dataclass(frozen=True, slots=True)
class RecentArrivals:
    """What came since some second, in that order."""

    since: int
    arrivals: tuple[Arrival, ...] = ()

    def expected(self, now: int, draw: int, draws: int, first_number: int) -> Iterator[Arrival]:
        """What comes after ``now`` in one of so many draws, without an end. ``first_number``: of arrivals."""
        window = min(WINDOW, now - self.since)
        if window < LEAST or not self.arrivals:
            return
        number, again = first_number, 0
        past = [each for each in self.arrivals if now - window <= each.second < now]
        while past:
            again += 1
            for second, workload in past:
                for copy in range(_times(f"{workload.key}/{again}", draw, draws)):
                    number += 1
                    at = second + again * window
                    yield Arrival(at, _another(workload, at, number, f"{again}.{copy}"))


#: Nothing is expected to come.
NO_ARRIVALS: Final = RecentArrivals(1 << 40)


class ArrivalHistory:
    """What came lately, as it was seen."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._arrivals: deque[Arrival] = deque(maxlen=KEPT)

    def add(self, workload: Workload, second: int) -> None:
        """A workload came at that second, not before the one that was added last."""
        if len(self._arrivals) == KEPT:
            self._since = self._arrivals[0].second + 1
        self._arrivals.append(Arrival(second, workload))

    def recent(self, now: int) -> RecentArrivals:
        """What came in the last ``WINDOW``."""
        while self._arrivals and self._arrivals[0].second < now - WINDOW:
            self._arrivals.popleft()
        return RecentArrivals(max(self._since, now - WINDOW), tuple(self._arrivals))


def _times(identity: str, draw: int, draws: int) -> int:
    share = share_of(identity, draw, draws) / SHARES
    return sum(share >= bound for bound in _TIMES)


def _another(workload: Workload, second: int, number: int, copy: str) -> Workload:
    """One like it that comes at that second."""
    return replace(
        workload,
        key=WorkloadKey(workload.key.kind, f"{workload.key.uid}+{copy}"),
        arrival=number,
        created=second,
        waiting_since=second,
        not_before=0,
        evictions=0,
    )
