"""What workloads wait for: others of their namespace, by kind and name, and what the ledger knows of those.

A name becomes a uid: of the workloads of that name the newest that came before the successor is meant, and if there is
none, the first that came after it. Objects and ledger say which one that is, whenever they are asked, so nothing is
stored about it.
"""

from typing import NamedTuple

from queues.kind_names import KindName
from queues.workload import Result, WorkloadKey


class Dependency(NamedTuple):
    """A workload that another one waits for."""

    kind: KindName
    name: str
    #: It may end in whatever way; else it has to succeed.
    any_end: bool = False

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Arrived(NamedTuple):
    """When a workload came."""

    #: Of its object, in seconds: two that are made by one command may have the same.
    created: int
    #: Its number; None if it has none yet, so that it comes after those that have one.
    number: int | None

    def is_before(self, successor: "Arrived") -> bool:
        """Whether a workload of that name is meant by one that came then, before any later one."""
        if self.created <= successor.created:
            return True
        return self.number is not None and (successor.number is None or self.number < successor.number)

    def order(self) -> tuple[bool, int, int]:
        """Sorts workloads by when they came."""
        return self.number is None, self.number or 0, self.created


class PredecessorQuestion(NamedTuple):
    """Which workload of the ledger a successor means by a kind and a name."""

    successor: WorkloadKey
    arrived: Arrived
    namespace: str
    kind: KindName
    name: str


class Predecessor(NamedTuple):
    """A workload of the ledger that a successor means."""

    key: WorkloadKey
    arrived: Arrived
    #: How it ended; None if the ledger has not got that it has.
    result: Result | None
