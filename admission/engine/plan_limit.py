"""How large one plan may be, and what a decision is busy with meanwhile.

The ledger takes a plan in one transaction, which has to stay short whatever the world looks like: 20,000 gangs that
ended while no leader looked, 35,000 pods for which new nodes have room. What a plan leaves out is decided in the next
turn.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from queues.plan import Admit
from queues.workload import WorkloadKey

T = TypeVar("T")

#: Seats that one plan gives, frees or evicts; an admission without seats counts as one.
SEATS_PER_PLAN: Final = 1000
#: For plans that no ledger has to take.
NO_LIMIT: Final = sys.maxsize


@dataclass(slots=True)
class PlanLimit:
    """What a plan may still hold. A change is never cut in two: the last one may go beyond the limit."""

    left: int
    _reached: bool = False

    def is_reached(self) -> bool:
        """Whether something was left out."""
        return self._reached

    def take(self, changes: Iterable[T], seats: Callable[[T], int]) -> tuple[T, ...]:
        """The first of these changes, as many as the plan holds. ``seats``: how many a change is about."""
        taken: list[T] = []
        for change in changes:
            if not self.has_room():
                break
            taken.append(change)
            self.left -= max(1, seats(change))
        return tuple(taken)

    def has_room(self) -> bool:
        """Whether the plan holds another change. False: it is left out."""
        if self.left <= 0:
            self._reached = True
        return not self._reached

    def admit(self, admit: Admit) -> None:
        """The plan holds one admission more."""
        self.left -= max(1, len(admit.seats))


@dataclass(slots=True)
class Progress:
    """Takes no part in a decision. The engine has no clock: its caller measures the time."""

    #: The workload that is being tried, or was last; None if none was yet.
    workload: WorkloadKey | None = None
