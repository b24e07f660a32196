"""The thread in which decisions are made while the loop goes on: one at a time, each for a bounded time.

Looks at a decision show which workloads it spends its time on.

A decision whose time is over is interrupted: Python raises an exception in its thread, as it does in the main thread
for a signal. Nothing of a decision outlives its term, so it may be interrupted anywhere. Only what never comes back to
the interpreter cannot be: one call of a library that does not end.
"""

import asyncio
import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from admission.engine.plan_limit import Progress
from queues.errors import MusterError
from queues.plugins.guard import AskedPolicy, PluginFault
from queues.text_format import listed
from queues.workload import Workload, WorkloadKey

R = TypeVar("R")

#: Looks that are taken at a decision until its time is over.
LOOKS: Final = 200
#: Looks that it takes to blame a workload.
FEWEST: Final = 20
#: Characters of a workload's name that are shown.
_LONGEST: Final = 100


class DecisionTooLong(MusterError):
    """A decision has taken longer than {seconds:g} s. It is interrupted, and this replica leads no more until it
    has ended."""

    #: The workload that most of the time went into, and those that ask for the same; (): there is none.
    culprits: tuple[WorkloadKey, ...] = ()
    #: The plug-in that most of the time went into; None if none did.
    fault: PluginFault | None = None


class _Interrupted(BaseException):
    """Ends a decision whose time is over. No error that code for errors may catch."""


class _Decision(threading.Thread):
    """A thread with one decision."""

    def __init__(self, work: Callable[[], None]) -> None:
        # A daemon: a decision that never ends does not keep the process from ending.
        super().__init__(name="decision", daemon=True)
        self._work = work
        #: Held while the thread ends, or is interrupted: its number may be another thread's afterwards.
        self._ending = threading.Lock()
        self._is_over = False

    def run(self) -> None:
        try:
            self._work()
        except _Interrupted:
            pass  # just when its result was being handed over
        finally:
            with self._ending:
                self._is_over = True

    def interrupt(self) -> None:
        """Have it end as soon as it is back in the interpreter."""
        with self._ending:
            if self.ident is not None and not self._is_over:
                raised = ctypes.py_object(_Interrupted)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), raised)


class DecisionThread:
    """Runs decisions of all terms of this process."""

    def __init__(self, limit: float) -> None:
        """``limit``: seconds that one decision may take."""
        self._limit = limit
        self._thread: _Decision | None = None
        #: The last one that took longer.
        self._late: _Decision | None = None

    async def problem(self) -> str | None:
        """A decision that has taken too long and still runs, for readiness. None if there is none."""
        if self._late is None or not self._late.is_alive():
            return None
        return f"a decision has run for longer than {self._limit:g} s; a restart of this replica ends it"

    def is_busy(self) -> bool:
        """Whether a decision runs, also one with a result that is not awaited any more."""
        return self._thread is not None and self._thread.is_alive()

    async def run(self, decision: Callable[[], R], look: Callable[[], None] = lambda: None) -> R:
        """What the decision returns or raises. Raises DecisionTooLong; the decision may take a moment more to end.

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

        thread = self._thread = _Decision(work)
        thread.start()

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
            self._late = thread
            thread.interrupt()
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


class DecisionSamples:
    """Looks taken at one decision. A decision that is over before the first look has none."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._seen: Counter[WorkloadKey | None] = Counter()
        self._asked: Counter[AskedPolicy] = Counter()

    def look(self) -> None:
        """Note what the decision is busy with now."""
        self.note(self.progress.workload)

    def note(self, workload: WorkloadKey | None, asked: AskedPolicy | None = None) -> None:
        """A decision is busy with a workload now, and with the plug-in that it asks; None if it asks none."""
        self._seen[workload] += 1
        if asked is not None:
            self._asked[asked] += 1

    def fault(self, seconds: float) -> PluginFault | None:
        """The plug-in that was being asked at most of the looks at a decision that took so long; None if none was."""
        for asked, seen in self._asked.most_common(1):
            if self.count() >= FEWEST and 2 * seen > self.count():
                return asked.fault(f"kept a decision from ending for {seconds:g} s")
        return None

    def count(self) -> int:
        """Looks taken so far."""
        return self._seen.total()

    def culprit(self) -> WorkloadKey | None:
        """The workload that was being tried at most of the looks. None if none was, or there were too few looks."""
        found = next(iter(self._seen.most_common(1)), (None, 0))
        return found[0] if self.count() >= FEWEST and 2 * found[1] > self.count() else None

    def slowest(self, workloads: Mapping[WorkloadKey, Workload]) -> str:
        """The workloads that took most of the time, for people. ``workloads``: all that are pending."""
        tried = [(key, seen) for key, seen in self._seen.most_common() if key is not None]
        if not tried:
            return "It had not begun to try a workload."
        named = [
            f"{_name(key, workloads)} ({100 * seen // self.count()} % of the time)" for key, seen in tried
        ]
        last = self.progress.workload
        told = f"It tried {listed(named)}."
        return (
            told if last is None or last == tried[0][0] else f"{told} The last was {_name(last, workloads)}."
        )


def _name(key: WorkloadKey, workloads: Mapping[WorkloadKey, Workload]) -> str:
    name = str(workloads.get(key, key))
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
