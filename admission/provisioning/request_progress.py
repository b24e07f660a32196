"""What is shown of a waiting gang's request for nodes: how far it is, until when, and what comes next. Pure.

The decision does not know of requests. Where it says that a gang lacks nodes, what is stored and shown also says
what was done about it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.provisioning.found_requests import FoundRequest, RequestPhase
from admission.provisioning.plan import (
    MOST_REQUESTS,
    NotAsked,
    WhyNot,
    came_to_nothing,
    is_of,
    is_refused_for_good,
    pause_after,
)
from admission.provisioning.wishes import NodeWish
from queues.plan import NODES_REFUSED, Reason
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339
from queues.workload import WorkloadKey

#: What a gang waits for that has quota and no place; no node has such devices at all while a pool is empty.
_FOR_NODES: Final = (ReasonCode.NO_FIT, ReasonCode.UNKNOWN_RESOURCE)
#: Where the facts of a reason describe the request.
FACT: Final = "provisioning"


def is_for_nodes(reason: Reason) -> bool:
    """Whether more nodes would help a gang that has this reason from the engine. Also if they were refused for good."""
    return reason.code in _FOR_NODES or (
        reason.code is ReasonCode.NEVER_FITS and bool(reason.facts.get(NODES_REFUSED))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestProgress:
    """How far the request of one gang is. Times are seconds since the epoch."""

    request: str
    class_name: str
    attempt: int
    phase: RequestPhase
    #: When it entered the phase.
    since: int
    #: When it is given up.
    until: int
    #: When the next attempt may be made. None if this one may still help.
    next_at: int | None
    #: What the autoscaler says; "": nothing.
    message: str
    #: The autoscaler has refused the nodes so often that the gang does not wait for them.
    refused: bool = False

    def told(self, reason: Reason) -> Reason:
        """A reason for which the gang waits for nodes, with what was done about it."""
        facts = {**reason.facts, FACT: self._facts()}
        if self.next_at is None and reason.code is ReasonCode.NEVER_FITS:
            return replace(reason, message=f"{reason.message}; {self._awaited()}", facts=facts)
        if self.next_at is None:
            message = f"{self._awaited()}; {reason.message}"
            return Reason(code=ReasonCode.PROVISIONING, message=message, facts=facts)
        message = f"{reason.message}; {self._in_vain()}, asked again from {rfc3339(self.next_at)} on"
        return replace(reason, message=message, facts=facts)

    def _awaited(self) -> str:
        named, until = f"ProvisioningRequest {self.request}", rfc3339(self.until)
        if self.phase is RequestPhase.PROVISIONED:
            since = rfc3339(self.since)
            return f"{named} is provisioned since {since}, admitted when its nodes are ready, given up at {until}"
        return f"nodes are asked for by {named} since {rfc3339(self.since)}, given up at {until}"

    def _in_vain(self) -> str:
        named, said = f"ProvisioningRequest {self.request}", f" ({self.message})" if self.message else ""
        match self.phase:
            case RequestPhase.OPEN if said:
                return f"{named} found no room until {rfc3339(self.until)}{said}"
            case RequestPhase.OPEN:
                return f"{named} had no answer until {rfc3339(self.until)}"
            case RequestPhase.PROVISIONED:
                since, until = rfc3339(self.since), rfc3339(self.until)
                return f"{named} was provisioned at {since} and gave it no place until {until}"
            case phase:
                return f"{named} ended at {rfc3339(self.since)}: {phase}{said}"

    def _facts(self) -> Mapping[str, Any]:
        facts: dict[str, Any] = {
            "request": self.request,
            "className": self.class_name,
            "attempt": self.attempt,
            "phase": str(self.phase),
            "since": rfc3339(self.since),
        }
        if self.next_at is None:
            return facts | {"until": rfc3339(self.until)}
        return facts | {"nextAt": rfc3339(self.next_at)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRequest:
    """Why a gang that waits for nodes has no request. The same as long as that is why: reasons are stored."""

    why: WhyNot
    #: Requests of its queue that may be open.
    max_open: int
    #: What the API server says of the request; "": nothing.
    message: str = ""

    def told(self, reason: Reason) -> Reason:
        """The reason for which the gang waits for nodes, with why nodes are not asked for yet."""
        match self.why:
            case WhyNot.MAX_OPEN:
                text = f"its queue has as many open requests as it may have (maxOpen {self.max_open})"
            case WhyNot.SHARE:
                text = f"all {MOST_REQUESTS} requests are in use, shared evenly by queues and namespaces"
            case WhyNot.REFUSED:
                text = f"the API server refuses the request: {self.message}"
        message = f"{reason.message}; nodes are not asked for yet: {text}"
        return replace(reason, message=message, facts={**reason.facts, FACT: {"notAsked": str(self.why)}})


#: What is shown to a gang that waits for nodes.
NodesAsked = RequestProgress | NoRequest


def no_requests(waits: Iterable[NotAsked]) -> dict[WorkloadKey, NodesAsked]:
    """Of gangs that have no request yet."""
    return {
        each.wish.key: NoRequest(why=each.why, max_open=each.wish.rules.max_open, message=each.message)
        for each in waits
    }


def progress_of(
    wishes: Sequence[NodeWish], found: Iterable[FoundRequest], now: int
) -> dict[WorkloadKey, NodesAsked]:
    """Of the gangs that have a request. ``now``: seconds since the epoch."""
    wished = {wish.owner: wish for wish in wishes}
    known: dict[WorkloadKey, NodesAsked] = {}
    for request in found:
        wish = wished.get(request.owner)
        if wish is None or not is_of(request, wish):
            continue
        ended = came_to_nothing(request, wish, now)
        known[wish.key] = RequestProgress(
            request=request.name,
            class_name=wish.rules.class_name,
            attempt=request.attempt,
            phase=request.phase,
            since=request.since,
            until=request.since + wish.rules.timeout,
            next_at=None if ended is None else ended + pause_after(request.attempt),
            message=request.message,
            refused=is_refused_for_good(request, wish, now),
        )
    return known
