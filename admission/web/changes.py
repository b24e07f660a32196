"""Server-sent events that say when something has changed, so that clients need not ask again and again.

An event carries no data that a user would need rights for: only that the ledger is not what it was. What has changed
follows from the questions that the client asks then, with the rights of its user. One look a second at a mark in
Postgres serves all clients. While no client listens there are no looks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from admission.web.access.limits import Gate, RequestLimits, counted_as
from admission.web.http import BadQuery
from queues.errors import MusterError

_log = logging.getLogger(__name__)

#: A mark is short; what a client sends may not be.
_LONGEST_MARK: Final = 64
#: Streams of all users, of one, and those of all that only a user gets who has none.
_STREAMS: Final = RequestLimits(at_once=200, waiting=0, of_one=8, newcomers=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How many streams there are, and for how long. Times in seconds."""

    at_once: RequestLimits = _STREAMS
    #: Between two looks at the mark, and so between two events.
    every: float = 1.0
    #: After which a stream without an event says that it is there.
    silence: float = 15.0
    #: After which a stream ends: the client comes again, with the rights that its user has then.
    longest: float = 600.0


@dataclass(slots=True, kw_only=True)
class Changes:
    """The streams of one replica."""

    #: The mark of the present state. Raises MusterError.
    read: Callable[[], Awaitable[str]]
    limits: StreamLimits = field(default_factory=StreamLimits)
    _mark: str = ""
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _watching: asyncio.Task[None] | None = None
    #: How many there are.
    _streams: int = 0
    _gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        self._gate = Gate(self.limits.at_once)

    async def stream(self, request: web.Request, user: str) -> web.StreamResponse:
        """Send events until the client leaves or its time is over. Raises TooBusy."""
        async with self._gate.entered(counted_as(user)):
            self._streams += 1
            try:
                self._see(await self.read())
                if self._watching is None:
                    self._watching = asyncio.create_task(self._watch(), name="changes")
                return await self._send(request)
            finally:
                self._streams -= 1
                if not self._streams and self._watching is not None:
                    self._watching.cancel()
                    self._watching = None

    async def _send(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        await answer.prepare(request)
        told = request.headers.get("Last-Event-ID", "")[:_LONGEST_MARK]
        await answer.write(b"retry: 2000\n\n")
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(self.limits.longest):
                while True:
                    moved = self._moved
                    if self._mark != told:
                        told = self._mark
                        await answer.write(f"event: change\nid: {told}\ndata: {{}}\n\n".encode())
                        continue
                    try:
                        async with asyncio.timeout(self.limits.silence):
                            await moved.wait()
                    except TimeoutError:
                        await answer.write(b": nothing has changed\n\n")
        return answer

    async def _watch(self) -> None:
        """Look at the mark as long as a client listens."""
        while True:
            await asyncio.sleep(self.limits.every)
            try:
                mark = await self.read()
            except MusterError as error:
                _log.debug("changes could not be looked up: %s", error)
                continue
            self._see(mark)

    def _see(self, mark: str) -> None:
        if mark != self._mark:
            self._mark = mark
            self._moved.set()
            self._moved = asyncio.Event()


def require_watch(request: web.Request) -> None:
    """Raises BadQuery: without ``watch=true`` the API server would cut the stream off after a minute."""
    if request.query.get("watch") != "true":
        raise BadQuery("watch is missing", expected="watch=true: the answer is a stream of events")
