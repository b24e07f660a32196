"""Who has to go so that somebody refused can come in: reclaim, priority inside a queue, clearing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from admission.engine.claims import Held
from admission.engine.gangs import Need
from admission.engine.plan import Claim, Evict, Reason
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.ordering import Candidate
from queues.workload import WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refused:
    """Candidates of one queue and one shape that were refused together."""

    #: In the order in which they would be tried.
    members: Sequence[Candidate]
    #: What each of them lacks.
    need: Need
    reason: Reason


@dataclass(slots=True, eq=False)
class Room:
    """What a turn does for those it refused."""

    evicts: list[Evict] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: Better reasons for those who wait for victims now.
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)
    #: The second from which on the answer may be another though nothing else changed: a protection or a claim
    #: ends, somebody has starved for long enough. For ``Memo.until``; None: never.
    until: int | None = None


def make_room(snapshot: Snapshot, refused: Sequence[Refused], held: Held, trial: Trial) -> Room:
    """Evictions and claims for refused classes, given in the order in which their heads were tried.

    ``trial`` is the world after everything else of the turn, with the space of all claims held; it is as before
    afterwards.
    """
    return Room()
