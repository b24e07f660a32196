"""The source of the read API's answers. The product's one is ``SqlReader``."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from admission.web.bodies import ExplanationBody, PendingList, QueueList
from queues.errors import MusterError

#: Gives the problem as a sentence; None: there is none.
Check = Callable[[], Awaitable[str | None]]


class Reader(Protocol):
    """Answers the questions of users, on any replica. Every method may raise DatabaseUnavailable."""

    async def queues(self) -> QueueList:
        """All queues, parents first."""
        ...

    async def pending(self, *, queue: str | None, namespace: str | None, limit: int) -> PendingList:
        """The first ``limit`` pending workloads: of a queue and its subtree, of a namespace. Raises UnknownName."""
        ...

    async def explain(self, *, namespace: str, name: str, kind: str | None) -> tuple[ExplanationBody, ...]:
        """Workloads of that name (one for each kind), live ones first. Raises UnknownName."""
        ...


class UnknownName(MusterError):
    """There is no {what} {name}{place}."""

    def __init__(self, *, what: str, name: str, place: str = "", near: tuple[str, ...] = ()) -> None:
        super().__init__(what=what, name=name, place=place)
        #: Existing names that look alike, best first.
        self.near = near


class NotLeading(MusterError):
    """This replica ({identity}) does not lead; {leader} does."""
