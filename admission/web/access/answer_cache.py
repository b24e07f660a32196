"""Answers that are kept for a short time: many clients that ask the same get one answer."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Generic, TypeVar

#: Old answers that are dropped with each question.
_DROPPED: Final = 8

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    answer: "asyncio.Task[V]"
    #: Of the monotonic clock. None while the answer is not there yet.
    until: float | None = None


class Kept(Generic[K, V]):
    """Answers by question. A question that is being asked is not asked a second time; failures are not kept."""

    def __init__(self, seconds: float, most: int, *, lasts: Callable[[V], float] | None = None) -> None:
        """``lasts``: seconds of one answer, if not all are kept as long. ``most``: questions that are remembered."""
        self._seconds = seconds
        self._most = most
        self._lasts = lasts
        self._entries: dict[K, _Entry[V]] = {}

    async def get(self, question: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The kept answer, or a new one. Raises what ``ask`` raises."""
        now = monotonic()
        self._forget(now)
        entry = self._entries.get(question)
        if entry is None or (entry.until is not None and now >= entry.until):
            self._entries.pop(question, None)
            while len(self._entries) >= self._most:
                del self._entries[next(iter(self._entries))]  # the oldest
            entry = _Entry(asyncio.ensure_future(self._asked(question, ask)))
            self._entries[question] = entry
            entry.answer.add_done_callback(_noticed)
        # A client that leaves must not take the answer from the others.
        return await asyncio.shield(entry.answer)

    def _forget(self, now: float) -> None:
        """Drop the oldest answers as far as their time is over."""
        for question, entry in list(itertools.islice(self._entries.items(), _DROPPED)):
            if entry.until is None or now < entry.until:
                break
            del self._entries[question]

    async def _asked(self, question: K, ask: Callable[[], Awaitable[V]]) -> V:
        try:
            answer = await ask()
        except BaseException:
            self._entries.pop(question, None)
            raise
        entry = self._entries.get(question)
        if entry is not None:
            entry.until = monotonic() + (self._seconds if self._lasts is None else self._lasts(answer))
        return answer


def _noticed(task: "asyncio.Task[Any]") -> None:
    """A failure without a waiting request is not reported as unseen: the next request asks again."""
    if not task.cancelled():
        task.exception()
