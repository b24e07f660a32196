"""Nodes that are kept for a queue in a window of time (Reservation), or taken out of service then (NodeDrain).

Both close nodes: from some second on they take only work that ends in time, at another one the rest is evicted, and
until the end only the holder's work, or none, is placed on them. Times are seconds since the epoch.
"""

from dataclasses import dataclass
from enum import StrEnum

from queues.resources import NOTHING, Resources
from queues.text_format import rfc3339
from queues.workload import NO_FLAVOR, FlavorName, NodeName, QueueName


class ClosureKind(StrEnum):
    """What closes nodes."""

    RESERVATION = "reservation"
    DRAIN = "nodedrain"


class ClosurePhase(StrEnum):
    """How far a closure is."""

    PLANNED = "Planned"
    ACTIVE = "Active"
    ENDED = "Ended"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClosure:
    """One Reservation or NodeDrain."""

    kind: ClosureKind
    name: str
    #: From this second on its nodes are chosen, and take only work that is known to end before ``clear_at``.
    lead_from: int
    #: From this second on what else is there is evicted.
    clear_at: int
    start: int
    #: The first second after it. None if it stays until the object is deleted.
    end: int | None
    #: The queue whose work is placed there in the window. None if no work is.
    queue: QueueName | None = None
    #: What a reservation keeps, in whole nodes.
    amounts: Resources = NOTHING
    #: Only nodes of this flavor; NO_FLAVOR: any.
    flavor: FlavorName = NO_FLAVOR
    #: Nodes of one domain of this level; "": any.
    level: str = ""
    #: Of a reservation those that were chosen so far, of a drain those that it names.
    nodes: tuple[NodeName, ...] = ()
    #: A drain is about the nodes with all of these labels as well. Empty: only those that it names.
    selector: tuple[tuple[str, str], ...] = ()
    #: Made by an administrator of a tenant: it stays within what the tenant deserves, and lets work rest that was
    #: evicted before.
    of_tenant: bool = False

    @property
    def id(self) -> str:
        """``reservation/night-run``: no other closure has it."""
        return f"{self.kind}/{self.name}"

    def phase(self, now: int) -> ClosurePhase:
        """How far it is."""
        if self.has_ended(now):
            return ClosurePhase.ENDED
        return ClosurePhase.ACTIVE if now >= self.start else ClosurePhase.PLANNED

    def has_ended(self, now: int) -> bool:
        """Whether it means nothing any more."""
        return self.end is not None and now >= self.end

    def closes_nodes(self, now: int) -> bool:
        """Whether nodes are closed for it now."""
        return self.lead_from <= now and not self.has_ended(now)

    def next_change(self, now: int) -> int | None:
        """The next second at which it means something else than now. None if there is none."""
        times = (self.lead_from, self.clear_at, self.start, self.end)
        return min((each for each in times if each is not None and each > now), default=None)

    def closes_beside(self, other: "NodeClosure") -> bool:
        """Whether both close nodes at some second: the lead time counts, for no other work is admitted then."""
        return (self.end is None or other.lead_from < self.end) and (
            other.end is None or self.lead_from < other.end
        )

    def window(self) -> str:
        """``from … to …``, as messages say it."""
        return f"from {rfc3339(self.start)} " + ("on" if self.end is None else f"to {rfc3339(self.end)}")

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.window()}"
