"""The thread beside the loop in which decisions are made: one at a time, each for a bounded time."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from queues.errors import MusterError

R = TypeVar("R")

#: Looks that are taken at a decision until its time is over.
LOOKS: Final = 200


class DecisionTooLong(MusterError):
    """A decision has taken longer than {seconds:g} s. This replica leads no more until it has ended. One that
    never ends is a defect of Muster; a restart of the replica ends it."""


class DecisionThread:
    """Runs decisions of all terms of this process."""

    def __init__(self, limit: float) -> None:
        """``limit``: seconds that one decision may take."""
        self._limit = limit
        self._thread: threading.Thread | None = None
        #: The last one that took longer.
        self._late: threading.Thread | None = None

    async def problem(self) -> str | None:
        """A decision that has taken too long and still runs, for readiness; None: there is none."""
        if self._late is None or not self._late.is_alive():
            return None
        return f"a decision has run for longer than {self._limit:g} s; a restart of this replica ends it"

    def is_busy(self) -> bool:
        """Whether a decision runs, also one with a result that is not awaited any more."""
        return self._thread is not None and self._thread.is_alive()

    async def run(self, decision: Callable[[], R], look: Callable[[], None] = lambda: None) -> R:
        """What the decision returns or raises. Raises DecisionTooLong; the thread cannot be stopped, and runs on.

        ``look`` is called ``LOOKS`` times while the time of a decision runs, if it takes that long.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()

        def work() -> None:
            try:
                finish = partial(_succeed, answer, decision())
            except BaseException as error:
                finish = partial(_fail, answer, error)
            with suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(finish)

        # A daemon: a decision that never ends does not keep the process from ending.
        self._thread = threading.Thread(target=work, name="decision", daemon=True)
        self._thread.start()

        next_look: asyncio.TimerHandle | None = None

        def keep_waiting() -> None:
            nonlocal next_look
            next_look = loop.call_later(self._limit / LOOKS, keep_looking)

        def keep_looking() -> None:
            look()
            keep_waiting()

        keep_waiting()
        try:
            async with asyncio.timeout(self._limit):
                return await answer
        except TimeoutError:
            if answer.done() and not answer.cancelled():
                raise
            self._late = self._thread
            raise DecisionTooLong(seconds=self._limit) from None
        finally:
            if next_look is not None:
                next_look.cancel()


def _succeed(answer: asyncio.Future[R], result: R) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[R], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
