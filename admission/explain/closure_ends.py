"""The end of reservations and drains as what lets one pending workload in. Pure."""

from dataclasses import dataclass
from typing import Final

from admission.explain.what_if import WhatIf, WhatIfOutcome
from queues.closures.node_closures import ClosureKind, NodeClosure
from queues.text_format import listed, rfc3339

#: Moments that are tried: each is a decision.
_TRIED: Final = 6


@dataclass(frozen=True, slots=True)
class ClosureEnd:
    """The first moment at which so many closures have ended that the workload gets a place."""

    #: Seconds since the epoch.
    at: int
    #: Those that end then. Of a reservation not its name: it may be one of another tenant.
    names: tuple[str, ...]
    outcome: WhatIfOutcome

    @property
    def text(self) -> str:
        """``at 2026-11-21T16:28:41Z, when nodedrain maintenance ends``."""
        return f"at {rfc3339(self.at)}, when {listed(self.names)} end{'s' if len(self.names) == 1 else ''}"


def first_closure_end(what_if: WhatIf) -> ClosureEnd | None:
    """The first end of a closure that lets the workload in, or gets it victims. None if no closure of nodes does."""
    snapshot = what_if.snapshot
    closing = [each for each in snapshot.closures if each.end is not None and each.closes_nodes(snapshot.now)]
    for at in sorted({each.end for each in closing if each.end is not None})[:_TRIED]:
        left = tuple(each for each in snapshot.closures if each.end is None or each.end > at)
        outcome = what_if.outcome(closures=left)
        if outcome:
            return ClosureEnd(
                at, tuple(dict.fromkeys(_name(each) for each in closing if each.end == at)), outcome
            )
    return None


def _name(closure: NodeClosure) -> str:
    return "a reservation" if closure.kind is ClosureKind.RESERVATION else f"{closure.kind} {closure.name}"
