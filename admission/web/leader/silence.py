"""What is said of a leader that has been silent for a while, to a question that has no answer.

An object that was created meanwhile is not known yet, which is not the same as that there is none.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from admission.web.http import json_answer, muster_problem, problem
from admission.web.leader.channel import ChannelBroken
from admission.web.leader.forwarding import LeaderFailed
from admission.web.reader import NotLeading, UnknownName
from queues.errors import MusterError
from queues.read_api import bodies
from queues.reason_codes import did_you_mean
from queues.sql.leadership import Heartbeat
from queues.text_format import duration, rfc3339

#: Seconds without a heartbeat from which that is said; the same from which the plugin shows an answer's age.
_SILENCE: Final = 15.0


def telling_silence(
    heartbeat: Callable[[], Awaitable[Heartbeat | None]], clock: Callable[[], float] = time.time
) -> Any:
    """A middleware. ``heartbeat``: the last one of any leader, None if no replica has led yet."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
            return answer
        except (UnknownName, ChannelBroken, LeaderFailed, NotLeading) as error:
            try:
                last = await heartbeat()
            except MusterError:
                raise error from None
            if last is None or last.age < _SILENCE:
                raise
            return _unknown(error, last, clock()) if isinstance(error, UnknownName) else _unanswered(last)

    return middleware


def _unknown(error: UnknownName, last: Heartbeat, now: float) -> web.Response:
    usual = muster_problem(error)
    near = f" {did_you_mean(error.near)}" if error.near else ""
    age = duration(int(last.age))
    body = bodies.AgedProblemBody(
        error=f"{str(error).rstrip('.')}, as of {age} ago; what was created since is not known yet.",
        hint=f"{_silent(last)}.{near}",
        now=rfc3339(now),
        as_of=rfc3339(now - last.age),
        behind=last.behind,
    )
    return json_answer(body, usual.status)


def _unanswered(last: Heartbeat) -> web.Response:
    hint = "Ask again when a replica leads: the pods of Muster and their logs show what became of it."
    return problem(503, f"No leader answers: {_silent(last)}.", hint=hint)


def _silent(last: Heartbeat) -> str:
    return (
        last.behind
        or f"{last.holder} led last, and has not told of the cluster for {duration(int(last.age))}"
    )
