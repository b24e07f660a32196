"""How much Postgres is given at once: half as much after each time that it did not get done, until it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from queues.errors import DatabaseTooSlow

#: How often a limit is halved at the most: then a transaction is about few rows.
MOST_HALVINGS: Final = 10


class Halvings:
    """How often limits are halved by now. Doubled again, step by step, by what is done in time."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, limit: int) -> int:
        """What is left of a limit."""
        return max(1, limit >> self._count)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts whether what is stored in the block is done in time."""
        try:
            yield
        except DatabaseTooSlow:
            self._count = min(self._count + 1, MOST_HALVINGS)
            raise
        self._count = max(0, self._count - 1)
