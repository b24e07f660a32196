"""Which requests are made, renewed and deleted, given what gangs wait for and what there is. Pure.

A gang that waits for nodes has one request. It goes as soon as the gang waits for something else or is admitted. One
that came to nothing stays as long as its pause lasts: people and a new leader see it, and the attempts are counted.

Requests in their pause take places as well. When there are too few, queues and namespaces have equal shares
(``in_turns``): what is beyond a share gives its place up, if it is open after a while.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final, TypeVar

from admission.provisioning.found_requests import FoundRequest, RequestPhase
from admission.provisioning.wishes import NodeWish

#: Requests of all queues together, those included that wait for their next attempt.
MOST_REQUESTS: Final = 200
#: Requests that one look makes, and that it deletes because their gangs ask no more: neither waits for the other.
MOST_CREATIONS: Final = 20
MOST_DELETIONS: Final = 20
#: Gangs without a request whose reason is shown.
MOST_TOLD: Final = 200
#: Seconds of the first pause after a failure, and of the longest; each is twice the one before.
FIRST_PAUSE: Final = 60
LONGEST_PAUSE: Final = 1800
#: Attempts in a row that came to nothing, the last one by the autoscaler's word: from then on the gang does not wait
#: for nodes. It asks all the same, after each pause.
MOST_REFUSALS: Final = 3
#: Seconds that an open request beyond a share is waited for, whatever time-out its queue states.
MOST_BEYOND: Final = 300

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Make the PodTemplates and the ProvisioningRequest of an attempt. That they exist is success."""

    wish: NodeWish
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """Delete a ProvisioningRequest with its PodTemplates; they may be gone."""

    request: FoundRequest


class WhyNot(StrEnum):
    """Why a gang that waits for nodes has no request."""

    #: As many requests of its queue are open as may be.
    MAX_OPEN = "MaxOpen"
    #: All requests are in use, and its queue and namespace have their share of them.
    SHARE = "Share"
    #: The API server refuses the request.
    REFUSED = "RequestRefused"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked:
    """A gang that has no request yet. Its reason says so."""

    wish: NodeWish
    why: WhyNot
    #: What the API server says; "": nothing.
    message: str = ""


Effect = CreateRequest | DeleteRequest | NotAsked


def pause_after(attempt: int) -> int:
    """Seconds between the end of an attempt that came to nothing and the next one."""
    return int(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt - 1, 10)))


def plan(
    wishes: Sequence[NodeWish],
    undecided: Collection[str],
    found: Iterable[FoundRequest],
    now: int,
    put_off: Collection[str] = (),
) -> list[Effect]:
    """The next steps: at most ``MOST_CREATIONS`` and ``MOST_DELETIONS`` of requests. ``now``: seconds since the epoch.

    ``undecided``: owners (``NodeWish.owner``) for whose reason to wait the answer comes soon; their requests stay.
    ``found``: requests that Muster made. ``put_off``: owners whose request could not be made just now.
    """
    wished = {wish.owner: wish for wish in wishes}
    kept: dict[str, FoundRequest] = {}
    ended: list[FoundRequest] = []
    for request in sorted(found, key=lambda each: (each.created, each.name)):
        wish = wished.get(request.owner)
        is_waiting = request.owner in undecided if wish is None else is_of(request, wish)
        if not is_waiting or request.owner in kept:
            ended.append(request)
            continue
        kept[request.owner] = request
    shares = _Shares([each for each in wishes if each.owner in kept or each.owner not in put_off], kept, now)
    gone = taking_turns([*ended, *shares.given_up], lambda each: each.namespace)[:MOST_DELETIONS]
    room = MOST_REQUESTS - len(kept) + sum(kept.get(each.owner) == each for each in gone)
    return [*(DeleteRequest(request=each) for each in gone), *_attempts(shares, room, put_off)]


def is_of(request: FoundRequest, wish: NodeWish) -> bool:
    """Whether it asks for what the gang asks for now. One that a user wrote with its label is another one."""
    same_place = request.namespace == wish.ref.namespace
    return request.attempt > 0 and same_place and request.name == wish.name(request.attempt)


def came_to_nothing(request: FoundRequest, wish: NodeWish, now: int) -> int | None:
    """When the request came to nothing, in seconds since the epoch. None if it may still help."""
    if request.phase not in (RequestPhase.OPEN, RequestPhase.PROVISIONED):
        return request.since
    # No answer, or room that the gang cannot use.
    end = request.since + wish.rules.timeout
    return end if now >= end else None


def is_refused_for_good(request: FoundRequest, wish: NodeWish, now: int) -> bool:
    """Whether the autoscaler has said so often that there are no such nodes that the gang waits for none."""
    ended = came_to_nothing(request, wish, now) is not None
    return ended and request.is_refused and request.attempt >= MOST_REFUSALS


class _Shares:
    """Who may have one of the ``MOST_REQUESTS`` places."""

    def __init__(self, wishes: Sequence[NodeWish], kept: Mapping[str, FoundRequest], now: int) -> None:
        in_order = sorted(wishes, key=lambda each: (each.arrival, each.owner))
        #: The request of each gang that has one.
        self.kept = kept
        self.now = now
        is_open = {
            wish.owner
            for wish in in_order
            if (request := kept.get(wish.owner)) is not None and came_to_nothing(request, wish, now) is None
        }
        #: Requests that are open, by queue.
        self.open = Counter(wish.queue for wish in in_order if wish.owner in is_open)
        next_ones, self.behind = self._next([each for each in in_order if each.owner not in kept])
        with_place = sorted(
            (each for each in in_order if each.owner in kept), key=lambda e: e.owner not in is_open
        )
        line = in_turns([*with_place, *next_ones])
        beyond = line[MOST_REQUESTS:]
        #: The gangs that may ask, the earliest of each queue and namespace first, and those that have no share left.
        self.entitled = in_turns(sorted(line[:MOST_REQUESTS], key=lambda each: (each.arrival, each.owner)))
        self.beyond = [each for each in beyond if each.owner not in kept]
        #: Requests that are in the way of others. One that is open may still help: it is waited for a while.
        self.given_up = [
            request
            for each in beyond
            if (request := kept.get(each.owner)) is not None
            and (each.owner not in is_open or now >= request.since + MOST_BEYOND)
        ]

    def _next(self, without: Sequence[NodeWish]) -> tuple[list[NodeWish], list[NodeWish]]:
        """Of the gangs without a request those that their queue lets ask next, and the others."""
        free = {wish.queue: wish.rules.max_open - self.open[wish.queue] for wish in without}
        next_ones: list[NodeWish] = []
        behind: list[NodeWish] = []
        for wish in in_turns(without):
            free[wish.queue] -= 1
            (next_ones if free[wish.queue] >= 0 else behind).append(wish)
        return next_ones, behind


def _attempts(shares: _Shares, room: int, put_off: Collection[str]) -> list[Effect]:
    """First requests and further ones, as far as each queue and all together may have more, and who has to wait."""
    attempts: list[Effect] = []
    waits: list[Effect] = []
    creations, open_ = 0, shares.open.copy()
    for wish in shares.entitled:
        request = shares.kept.get(wish.owner)
        if wish.owner in put_off or not _is_due(request, wish, shares.now):
            continue
        if open_[wish.queue] >= wish.rules.max_open:
            why = WhyNot.MAX_OPEN
        elif request is None and room <= 0:
            why = WhyNot.SHARE
        else:
            if creations == MOST_CREATIONS:
                continue  # the next look
            if request is None:
                room -= 1
            else:
                attempts.append(DeleteRequest(request=request))
            creations += 1
            open_[wish.queue] += 1
            attempts.append(CreateRequest(wish=wish, attempt=1 if request is None else request.attempt + 1))
            continue
        if request is None:
            waits.append(NotAsked(wish=wish, why=why))
    waits += [NotAsked(wish=each, why=WhyNot.SHARE) for each in shares.beyond]
    waits += [NotAsked(wish=each, why=WhyNot.MAX_OPEN) for each in shares.behind]
    return attempts + waits[:MOST_TOLD]


def _is_due(request: FoundRequest | None, wish: NodeWish, now: int) -> bool:
    """Whether the gang may be asked for again: it was not yet, or the pause after its last request is over."""
    if request is None:
        return True
    end = came_to_nothing(request, wish, now)
    return end is not None and now >= end + pause_after(request.attempt)


def in_turns(wishes: Sequence[NodeWish]) -> list[NodeWish]:
    """One of each queue in turn, from the root of their tree on, and of each namespace within a queue.

    Those of one queue and namespace keep their order. No tenant's gangs keep those of another one from asking, however
    many there are, and into however many queues and namespaces they are split.
    The first so many of them are a fair share: no queue has more than another one that would have more.
    """
    return _below(wishes, 0)


def taking_turns(each_of: Iterable[T], whose: Callable[[T], Hashable]) -> list[T]:
    """One of each in turn, as long as it has some; their own order stays."""
    lines: dict[Hashable, list[T]] = {}
    for one in each_of:
        lines.setdefault(whose(one), []).append(one)
    return _merged(list(lines.values()))


def _below(wishes: Sequence[NodeWish], level: int) -> list[NodeWish]:
    lines: dict[str | None, list[NodeWish]] = {}
    for wish in wishes:
        place = wish.place
        lines.setdefault(place[level] if level < len(place) else None, []).append(wish)
    if None in lines:
        return list(wishes)  # all of one queue and namespace
    return _merged([_below(line, level + 1) for line in lines.values()])


def _merged(lines: Sequence[Sequence[T]]) -> list[T]:
    if len(lines) == 1:
        return list(lines[0])
    boxed = zip_longest(*([(one,) for one in line] for line in lines), fillvalue=())
    return [one for each in boxed for box in each for one in box]
