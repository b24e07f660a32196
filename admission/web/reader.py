"""What a user may see, checks of the read API, and questions that it cannot answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from queues.errors import MusterError
from queues.sql.read.rows import Seen

#: Gives the problem as a sentence. None if there is none.
Check = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one user may see."""

    #: Workloads, by kind and namespace. None for all.
    workloads: Seen | None = None
    #: Queues by name. None for all.
    queues: frozenset[str] | None = None

    def shows(self, kind: str, namespace: str) -> bool:
        """Whether the user may see workloads of a kind in a namespace."""
        if self.workloads is None:
            return True
        names = self.workloads.get(str(kind), ())
        return names is None or namespace in names

    def shows_namespace(self, namespace: str) -> bool:
        """Whether the user may see workloads of some kind in a namespace."""
        return self.workloads is None or any(
            names is None or namespace in names for names in self.workloads.values()
        )

    def shows_queue(self, name: str) -> bool:
        """Whether the user may see a queue."""
        return self.queues is None or name in self.queues


def together(one: Sight, other: Sight) -> Sight:
    """What is seen in one of two ways; queues as in the first."""
    if one.workloads is None or other.workloads is None:
        return Sight(workloads=None, queues=one.queues)
    kinds: dict[str, frozenset[str] | None] = {}
    for kind in (*one.workloads, *other.workloads):
        names = [sight.get(kind, ()) for sight in (one.workloads, other.workloads)]
        kinds[kind] = None if None in names else frozenset(each for some in names for each in some or ())
    return Sight(workloads=kinds, queues=one.queues)


#: What a platform administrator sees.
EVERYTHING = Sight()


class UnknownName(MusterError):
    """There is no {what} {name}{place}."""

    def __init__(self, *, what: str, name: str, place: str = "", near: tuple[str, ...] = ()) -> None:
        super().__init__(what=what, name=name, place=place)
        #: Existing names that look alike, best first.
        self.near = near


class PeriodTooLarge(MusterError):
    """Use in this period could not be added up within the time of an answer."""


class NotAllowed(MusterError):
    """{failure}"""


class TrialRefused(MusterError):
    """{failure}"""


class NotLeading(MusterError):
    """This replica ({identity}) does not lead; {leader} does."""
