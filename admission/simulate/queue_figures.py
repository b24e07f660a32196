"""What queues got in some span of time: waits, starts, use, evictions, and how far they lay below what they deserve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.workload import QueueName, WorkloadKey


class AskedUnits(NamedTuple):
    """What a workload asks for of the resource that figures are about."""

    queue: QueueName
    #: Of ``queues.resources``.
    units: int


@dataclass(slots=True)
class QueueFigures:
    """One queue. Units are those of ``queues.resources``, times are seconds."""

    #: Of each workload that started, from its arrival to its first start, ascending; without those that ran before.
    waits: list[int] = field(default_factory=list)
    #: Workloads that came, and that wait at the end without having started.
    arrived: int = 0
    waiting: int = 0
    evicted: int = 0
    #: Units × seconds.
    used: int = 0
    #: Units × seconds by which use was below what the queue deserves while as much of its work waited.
    short: int = 0

    def wait(self, percent: int) -> int | None:
        """The wait that so many percent of the workloads had at most (nearest rank); None: none started."""
        if not self.waits:
            return None
        return self.waits[max(0, -(-len(self.waits) * percent // 100) - 1)]


class QueueRecorder:
    """Adds up figures from events in the order of their times (seconds after the beginning)."""

    def __init__(self, deserved: Mapping[QueueName, int], not_counted: frozenset[WorkloadKey]) -> None:
        """``deserved``: by queue; empty: how far queues are below it is not counted. ``not_counted``: workloads of
        which no wait is counted."""
        self._deserved = deserved
        self._not_counted = not_counted
        self._figures: dict[QueueName, QueueFigures] = {}
        self._asked: dict[WorkloadKey, AskedUnits] = {}
        self._arrived: dict[WorkloadKey, int] = {}
        self._runs: set[WorkloadKey] = set()
        self._used: dict[QueueName, int] = {}
        self._wanted: dict[QueueName, int] = {}
        self._at: dict[QueueName, int] = {}
        #: Seconds from arrival to first start, by workload.
        self.waits: dict[WorkloadKey, int] = {}

    def arrive(self, at: int, key: WorkloadKey, asked: AskedUnits) -> None:
        """A workload begins to wait."""
        figures = self._reckon(asked.queue, at)
        self._asked[key], self._arrived[key] = asked, at
        self._wanted[asked.queue] = self._wanted.get(asked.queue, 0) + asked.units
        if key not in self._not_counted:
            figures.arrived += 1

    def start(self, at: int, key: WorkloadKey) -> None:
        """It has its seats; further members that join it later change nothing."""
        if key in self._runs:
            return
        queue, units = self._asked[key]
        figures = self._reckon(queue, at)
        self._runs.add(key)
        self._used[queue] = self._used.get(queue, 0) + units
        self._wanted[queue] -= units
        if key not in self.waits:
            self.waits[key] = at - self._arrived[key]
            if key not in self._not_counted:
                figures.waits.append(self.waits[key])

    def end(self, at: int, key: WorkloadKey, *, evicted: bool = False) -> None:
        """It has given its seats back; ``evicted``: it waits again."""
        if key not in self._runs:
            return
        queue, units = self._asked[key]
        figures = self._reckon(queue, at)
        self._runs.remove(key)
        self._used[queue] -= units
        if evicted:
            figures.evicted += 1
            self._wanted[queue] += units

    def close(self, at: int) -> dict[QueueName, QueueFigures]:
        """The figures when the span ends."""
        for queue in [*self._figures]:
            self._reckon(queue, at).waits.sort()
        for key, (queue, _) in self._asked.items():
            if key not in self.waits:
                self._figures[queue].waiting += 1
        return self._figures

    def _reckon(self, queue: QueueName, at: int) -> QueueFigures:
        """The figures of a queue, brought up to a time."""
        figures = self._figures.setdefault(queue, QueueFigures())
        seconds = at - self._at.get(queue, at)
        self._at[queue] = at
        used, wanted = self._used.get(queue, 0), self._wanted.get(queue, 0)
        figures.used += used * seconds
        if (deserved := self._deserved.get(queue)) is not None:
            figures.short += max(0, min(deserved - used, wanted)) * seconds
        return figures
