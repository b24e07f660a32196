"""Device-seconds of queues and of the cluster: use and idleness, summed up over time.

A turn only leaves a reference here, every few seconds; the sums are made when metrics are read, in another thread.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from admission.engine.memo import QueueAmounts
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.resources import WHOLE
from queues.workload import NO_FLAVOR, QueueName

#: Seconds between two states that are kept.
RESOLUTION: Final = 5.0
#: States that are kept between two readings, for an hour; of more, the oldest ones are not counted.
MOST_STATES: Final = 720


class DeviceState(NamedTuple):
    """Use since a moment."""

    #: Seconds since the epoch.
    since: float
    #: None if nothing is known, for another replica leads.
    tree: QueueTree | None
    used: QueueAmounts
    deserved: QueueAmounts


class DeviceSeconds:
    """Sums since this process began, while it led. ``note`` and ``sum_up`` may run in two threads."""

    def __init__(self) -> None:
        #: Appended to by ``note`` alone, taken from by ``sum_up`` alone; the last one stays.
        self._states: deque[DeviceState] = deque(maxlen=MOST_STATES)
        self._counted_until = 0.0
        #: By queue, resource, and whether the queue deserves it (owned) or borrows it.
        self.of_queues: defaultdict[tuple[QueueName, str, str], float] = defaultdict(float)
        #: By resource and state: used, idle.
        self.of_cluster: defaultdict[tuple[str, str], float] = defaultdict(float)

    def note(self, state: DeviceState) -> None:
        """From now on this is used. A state that follows another one too soon is left to a later call."""
        last = self._states[-1] if self._states else None
        if last is not None and last.tree is state.tree:
            same = last.used is state.used and last.deserved is state.deserved
            if same or state.since < last.since + RESOLUTION:
                return
        self._states.append(state)

    def sum_up(self, now: float) -> None:
        """Count all up to now, in seconds since the epoch."""
        while len(self._states) > 1:
            state = self._states.popleft()
            self._count(state, self._states[0].since)
        if self._states:
            self._count(self._states[0], now)

    def keep(self, tree: QueueTree) -> None:
        """Forget queues that are gone."""
        for key in [key for key in self.of_queues if key[0] not in tree.paths]:
            del self.of_queues[key]

    def _count(self, state: DeviceState, until: float) -> None:
        seconds = until - max(state.since, self._counted_until)
        self._counted_until = max(until, self._counted_until)
        tree = state.tree
        if tree is None or seconds <= 0:
            return
        for queue, resource, units, due in _devices(state):
            if queue == ROOT:
                self.of_cluster[resource, "used"] += units / WHOLE * seconds
            elif tree.leaf(queue):
                owned = min(units, due)
                self.of_queues[queue, resource, "owned"] += owned / WHOLE * seconds
                self.of_queues[queue, resource, "borrowed"] += (units - owned) / WHOLE * seconds
        for account, units in tree.capabilities[ROOT].items():
            if account.flavor == NO_FLAVOR and "/" in account.resource:
                idle = max(0, units - state.used.get((ROOT, account), 0))
                self.of_cluster[account.resource, "idle"] += idle / WHOLE * seconds


def _devices(state: DeviceState) -> Iterator[tuple[QueueName, str, int, int]]:
    """Use of devices of all flavors together, and what is deserved."""
    for key, units in state.used.items():
        queue, account = key
        if account.flavor == NO_FLAVOR and "/" in account.resource:
            yield queue, account.resource, units, state.deserved.get(key, 0)
