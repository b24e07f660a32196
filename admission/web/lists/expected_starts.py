"""Expected starts next to lists that come from Postgres: the leader's forecast, as far as it can be had."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from admission.web.access.answer_cache import Kept
from admission.web.http import encode
from admission.web.leader.forwarding import LeaderQuestions
from admission.web.lists.expected import start_of, told_at
from admission.web.reader import Sight
from queues.errors import MusterError
from queues.read_api.bodies import ExpectedLine, ExpectedList, WaitingBody
from queues.reason_codes import NEEDS_A_CHANGE

_log = logging.getLogger(__name__)

#: Seconds for which the leader's answer is kept, and for which it is left in peace after none came.
_KEPT_SECONDS: Final = 5.0
#: Seconds that a list waits for it.
_PATIENCE: Final = 1.0

Lines = Mapping[tuple[str, str], ExpectedLine]


class ExpectedStarts:
    """The leader's forecast of all workloads; one question for all users."""

    def __init__(self, leader: LeaderQuestions, public: str) -> None:
        """``public``: path of the same in the read API."""
        self._leader = leader
        self._public = public
        self._kept: Kept[None, Lines] = Kept(_KEPT_SECONDS, 1)

    async def lines(self) -> Lines:
        """By kind and uid; empty: no forecast was made yet, or the leader cannot be asked at once."""
        try:
            return await asyncio.wait_for(self._kept.get(None, self._asked), _PATIENCE)
        except TimeoutError:
            return {}

    async def _asked(self) -> Lines:
        try:
            answer = await self._leader.ask("/expected", {}, public=self._public, forwarded=False)
            found = msgspec.json.decode(answer, type=ExpectedList)
        except (MusterError, msgspec.MsgspecError) as error:
            _log.debug("the leader tells no expected starts: %s", error)
            return {}
        return {(line.kind, line.uid): line for line in found.items}


def with_expected(items: Iterable[WaitingBody], lines: Lines, now: str) -> tuple[WaitingBody, ...]:
    """The lines of a list, each with its expected start as far as there is one that may still hold. ``now``: RFC 3339,
    the time of the list."""
    found = []
    for item in items:
        waits_for_people = item.reason is not None and item.reason.code in NEEDS_A_CHANGE
        line = None if waits_for_people else lines.get((item.kind, item.uid))
        expected = None if line is None else told_at(start_of(line), now)
        found.append(item if expected is None else msgspec.structs.replace(item, expected=expected))
    return tuple(found)


def in_sight(answer: bytes, namespace: str | None, sight: Sight) -> bytes:
    """The leader's answer without workloads that are out of sight, or in another namespace."""
    if namespace is None and sight.workloads is None:
        return answer
    found = msgspec.json.decode(answer, type=ExpectedList)
    seen = tuple(
        line
        for line in found.items
        if namespace in (None, line.namespace) and sight.shows(line.kind, line.namespace)
    )
    return encode(msgspec.structs.replace(found, items=seen))
