"""When a workload is to be looked at again though nothing of it changes, and when its time is over. Pure.

A queue may allow work to hold its seats for so long only (``access.maxRunTime``). The time runs since it holds seats
without a break. Members that join a gang, or follow others that ended, do not prolong it, nor do pods that outlive the
object with which they were admitted: their own admissions count from the same second on. After an eviction for others
the next admission has the whole time again, since its work may have been lost. When the time is over the workload is
evicted whole, and is not run again (``Setbacks.is_run_out``): a user who wants more time submits it anew.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from admission.engine.snapshot import Rollback
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.seats import SeatMap
from queues.admissions import NEVER_AGAIN
from queues.quota.access import RunLimit
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, Obstacle, WorkloadKey


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
    """One time for each workload, of those that wait for their pods to get ready."""

    def __init__(self) -> None:
        self._at: dict[WorkloadKey, int] = {}
        #: Soonest first; what is not in ``_at`` is outdated.
        self._heap: list[tuple[int, WorkloadKey]] = []
        #: Workloads for which another outcome follows from another policy of their queue.
        self.policy_dependents: set[WorkloadKey] = set()

    def put(self, key: WorkloadKey, at: int | None, *, follows_policy: bool) -> None:
        """The second at which a workload is to be looked at again; None if not before something changes."""
        (self.policy_dependents.add if follows_policy else self.policy_dependents.discard)(key)
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            heappush(self._heap, (at, key))

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.put(key, None, follows_policy=False)

    def due(self, now: int) -> set[WorkloadKey]:
        """Workloads that are to be looked at now, each named once."""
        found = set()
        while self._heap and self._heap[0][0] <= now:
            at, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.add(key)
        return found
