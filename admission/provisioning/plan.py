"""Which requests are made, renewed and deleted, given what gangs wait for and what there is. Pure.

A gang that waits for nodes has one request. It goes as soon as the gang waits for something else or is admitted. One
that came to nothing stays as long as its pause lasts: people and a new leader see it, and the attempts are counted.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.provisioning.found_requests import FoundRequest, RequestPhase
from admission.provisioning.wishes import NodeWish
from queues.api.api_resources import ObjectRef
from queues.reason_codes import ReasonCode

#: Requests of all queues together, those included that wait for their next attempt.
MOST_REQUESTS: Final = 200
#: Writes of one look.
MOST_EFFECTS: Final = 20
#: Seconds of the first pause after a failure, and of the longest; each is twice the one before.
FIRST_PAUSE: Final = 60
LONGEST_PAUSE: Final = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Make the PodTemplates and the ProvisioningRequest of an attempt. That they exist is success."""

    wish: NodeWish
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """Delete a ProvisioningRequest with its PodTemplates; they may be gone."""

    request: FoundRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOwner:
    """An event of the workload. Told once for each request and phase."""

    ref: ObjectRef
    #: What it is about: uid of the request and phase.
    about: str
    reason: str
    message: str
    warning: bool = False


Effect = CreateRequest | DeleteRequest | TellOwner


def pause_after(attempt: int) -> int:
    """Seconds between the end of an attempt that came to nothing and the next one."""
    return int(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt - 1, 10)))


def plan(
    wishes: Sequence[NodeWish],
    undecided: Collection[str],
    found: Iterable[FoundRequest],
    now: int,
) -> list[Effect]:
    """The next steps, at most ``MOST_EFFECTS`` writes of requests. ``now``: seconds since the epoch.

    ``undecided``: owners (``NodeWish.owner``) of which it will be known soon what they wait for; their requests stay.
    """
    wished = {wish.owner: wish for wish in wishes}
    kept: dict[str, FoundRequest] = {}
    ended: list[Effect] = []
    told: list[Effect] = []
    for request in sorted(found, key=lambda each: (each.created, each.name)):
        wish = wished.get(request.owner)
        is_waiting = request.owner in undecided if wish is None else is_of(request, wish)
        if not is_waiting or request.owner in kept:
            ended.append(DeleteRequest(request=request))
            continue
        kept[request.owner] = request
        if wish is not None:
            told += _news(request, wish, now)
    # Deletions first: there are never more requests than are allowed.
    return [*ended, *_attempts(wishes, kept, now)][:MOST_EFFECTS] + told


def is_of(request: FoundRequest, wish: NodeWish) -> bool:
    """Whether it asks for what the gang asks for now. One that a user wrote with its label is another one."""
    same_place = request.namespace == wish.ref.namespace
    return request.attempt > 0 and same_place and request.name == wish.name(request.attempt)


def came_to_nothing(request: FoundRequest, wish: NodeWish, now: int) -> int | None:
    """When, in seconds since the epoch; None: it may still help."""
    if request.phase not in (RequestPhase.OPEN, RequestPhase.PROVISIONED):
        return request.since
    # No answer, or room that the gang cannot use.
    end = request.since + wish.rules.timeout
    return end if now >= end else None


def _attempts(wishes: Sequence[NodeWish], kept: Mapping[str, FoundRequest], now: int) -> list[Effect]:
    """First requests and further ones, in the order of arrival, as far as each queue and all together may have more."""
    ordered = sorted(wishes, key=lambda each: (each.arrival, each.owner))
    in_use = Counter(
        wish.queue
        for wish in ordered
        if (request := kept.get(wish.owner)) is not None and came_to_nothing(request, wish, now) is None
    )
    room = MOST_REQUESTS - len(kept)
    effects: list[Effect] = []
    for wish in ordered:
        request = kept.get(wish.owner)
        if in_use[wish.queue] >= wish.rules.max_open or not _is_due(request, wish, now):
            continue
        if request is not None:
            effects.append(DeleteRequest(request=request))
        elif room > 0:
            room -= 1
        else:
            continue
        in_use[wish.queue] += 1
        effects.append(CreateRequest(wish=wish, attempt=1 if request is None else request.attempt + 1))
    return effects


def _is_due(request: FoundRequest | None, wish: NodeWish, now: int) -> bool:
    """Whether the gang may be asked for again: it was not yet, or the pause after its last request is over."""
    if request is None:
        return True
    end = came_to_nothing(request, wish, now)
    return end is not None and now >= end + pause_after(request.attempt)


def _news(request: FoundRequest, wish: NodeWish, now: int) -> list[Effect]:
    """What the gang's user is told of a request that is there."""
    named = f"ProvisioningRequest {request.name}"
    pause = pause_after(request.attempt)
    again = f"asked again after {pause} s"
    match request.phase:
        case RequestPhase.OPEN if came_to_nothing(request, wish, now) is not None:
            phase, reason, warning = "NoAnswer", "ProvisioningTimedOut", True
            text = f"no answer to {named} in {wish.rules.timeout} s; {again}"
        case RequestPhase.OPEN:
            phase, reason, warning = "Open", "ProvisioningRequested", False
            pods = sum(each.count for each in wish.pods)
            text = f"asked for nodes for {pods} pods: {named} of class {wish.rules.class_name}"
        case RequestPhase.PROVISIONED if came_to_nothing(request, wish, now) is not None:
            phase, reason, warning = "Unused", "ProvisioningTimedOut", True
            text = f"{named} was provisioned {wish.rules.timeout} s ago, and the gang still has no place; {again}"
        case RequestPhase.PROVISIONED:
            phase, reason, warning = "Provisioned", "Provisioned", False
            text = f"{named} is provisioned; admitted when its nodes are ready and have room"
        case other:
            phase, reason, warning = str(other), f"{ReasonCode.PROVISIONING}{other}", True
            text = f"{named}: {other}{f' ({request.message})' if request.message else ''}; {again}"
    about = f"{request.uid}/{phase}"
    return [TellOwner(ref=wish.ref, about=about, reason=reason, message=text, warning=warning)]
