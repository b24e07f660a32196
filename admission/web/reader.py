"""Checks of the read API, and questions that it cannot answer."""

from collections.abc import Awaitable, Callable

from queues.errors import MusterError

#: Gives the problem as a sentence; None: there is none.
Check = Callable[[], Awaitable[str | None]]


class UnknownName(MusterError):
    """There is no {what} {name}{place}."""

    def __init__(self, *, what: str, name: str, place: str = "", near: tuple[str, ...] = ()) -> None:
        super().__init__(what=what, name=name, place=place)
        #: Existing names that look alike, best first.
        self.near = near


class NotLeading(MusterError):
    """This replica ({identity}) does not lead; {leader} does."""
