"""Decides turns, whatever a workload brings to light in the engine: one that it fails on is left out.

The workloads that a step fails on are found by trying the step with fewer of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from admission.containment.child_process import ChildEnded, ChildFailed
from admission.containment.decision_child import DecisionChild
from admission.containment.decision_thread import LOOKS, DecisionSamples, DecisionThread, DecisionTooLong
from admission.engine import decide as engine
from admission.engine.decide import Memo
from admission.engine.memo import QueueBooks, books_after
from admission.engine.plan_limit import SEATS_PER_PLAN
from admission.engine.snapshot import Snapshot
from admission.turn_report import Decided
from queues.plan import Plan
from queues.plugins.guard import PluginFault
from queues.plugins.registry import plugins
from queues.quota.queue import Queue
from queues.quota.queue_policies import is_served_by_others
from queues.workload import QueueName, Workload, WorkloadKey

#: Tries of one search: enough for a few culprits among 100,000 workloads. The next turn goes on where this one stops.
MOST_TRIES: Final = 64

#: Whether the step passes with just these workloads.
Passes = Callable[[Sequence[WorkloadKey]], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Culprits:
    """What a search found."""

    #: Workloads that the step fails on.
    found: tuple[WorkloadKey, ...]
    #: False: the tries were used up before the step passed with all other workloads.
    complete: bool


async def find_culprits(
    workloads: Sequence[WorkloadKey], passes: Passes, *, tries: int = MOST_TRIES
) -> Culprits | None:
    """The workloads that make a step fail: without them it passes. None if it fails without any workload too.

    Keeps a number of first workloads with which the step passes, and one with which it fails, and halves what is
    between: the workload that makes the difference is a culprit, also if it is one only together with others.
    """
    if not await passes(()):
        return None
    rest, found, low, left = list(workloads), list[WorkloadKey](), 0, tries - 1
    while left > 0:
        high = len(rest)
        while high - low > 1 and left > 0:
            middle, left = (low + high) // 2, left - 1
            if await passes(rest[:middle]):
                low = middle
            else:
                high = middle
        if high - low > 1 or not rest:
            break
        found.append(rest.pop(high - 1))
        left -= 1
        if low == len(rest) or await passes(rest):
            return Culprits(tuple(found), complete=True)
    return Culprits(tuple(found), complete=False)


_log = logging.getLogger(__name__)

#: Seconds in which a child process has to start.
_START_WITHIN: Final = 120.0
#: A decision is reported if it takes more than a tenth of the time that it may take.
LONG: Final = 10


class _Decision(NamedTuple):
    """What the engine came to."""

    plan: Plan
    #: One that a child process keeps is not here.
    memo: Memo
    until: int | None
    books: QueueBooks | None


class Decider:
    """The decisions of one term, and what they remember of one another."""

    def __init__(self, thread: DecisionThread, keep: Callable[[Snapshot], Path | None]) -> None:
        """``keep`` stores the snapshot of a turn that cannot be decided; called in a thread."""
        self._thread = thread
        self._keep = keep
        self.memo = Memo()
        #: The last plan holds until this second, if nothing changes (for ever if None).
        self.until: int | None = None
        #: Queues after the last decision.
        self.books: QueueBooks | None = None
        #: Decisions that raised.
        self.failures = 0
        self._child: DecisionChild | None = None
        #: Queues, and whether one of them is served by plug-ins of others.
        self._asked: tuple[Mapping[QueueName, Queue] | None, bool] = (None, False)

    async def decide(self, snapshot: Snapshot, limit: int = SEATS_PER_PLAN) -> Decided:
        """The plan for a snapshot; an error is tried once more without memo, then without the workload that causes it.
        ``limit``: seats that the plan is about at the most.

        Raises PluginFault, for a plug-in that has to be set aside; DecisionTooLong, with the workloads that took the
        time if they are known; and the engine's error if it fails without any workload too.
        """
        failure: Exception
        for again in (False, True):
            try:
                return self._noted(snapshot, await self._decided(snapshot, limit))
            except PluginFault:
                self.memo, self.failures = Memo(), self.failures + 1
                raise
            except ChildEnded as error:
                # Nothing that was decided on is to blame.
                self.memo, self.failures, failure = Memo(), self.failures + 1, error
                _log.error("the process that decides has ended", extra={"again": again, "why": str(error)})
                if again:
                    raise
            except DecisionTooLong:
                self.memo = Memo()
                # Not in the thread of decisions, in which this one may still run.
                kept = await asyncio.to_thread(self._kept, snapshot)
                _log.error("decision took too long", extra={"kept": str(kept or "")})
                raise
            except Exception as error:
                # What the failed decision left in it cannot be trusted.
                self.memo, self.failures, failure = Memo(), self.failures + 1, error
                _log.error("decision failed", extra={"again": again}, exc_info=error)
        return await self._without_culprits(snapshot, limit, failure)

    def _noted(self, snapshot: Snapshot, decision: _Decision) -> Decided:
        plan, self.memo, self.until, self.books = decision
        return Decided(snapshot=snapshot, plan=plan)

    async def _decided(self, snapshot: Snapshot, limit: int) -> _Decision:
        """The engine's answer. Reports which workloads took the time of one that took long or too long."""
        samples, child = DecisionSamples(), self._child_for(snapshot)

        def decide_here() -> _Decision:
            plan, memo = engine.decide(snapshot, self.memo, limit, progress=samples.progress)
            return _Decision(plan, memo, memo.until, books_after(self.books, memo))

        def decide_there() -> _Decision:
            assert child is not None
            outcome = child.decide(snapshot, limit)
            return _Decision(outcome.plan, Memo(), outcome.until, outcome.books)

        def look_there() -> None:
            if child is not None and (busy := child.busy()) is not None:
                samples.note(*busy)

        try:
            if child is None:
                answer = await self._thread.run(decide_here, samples.look)
            else:
                await _start(child)
                answer = await self._thread.run(decide_there, look_there)
        except (ChildFailed, PluginFault, DecisionTooLong, asyncio.CancelledError) as error:
            if isinstance(error, DecisionTooLong | asyncio.CancelledError) or not (
                child and child.is_alive()
            ):
                self._end_child()
            if not isinstance(error, DecisionTooLong):
                raise
            error.fault = samples.fault(error.facts["seconds"])
            # A note, so that the same failure is known as such whatever it was that took the time.
            error.add_note(samples.slowest(snapshot.pending))
            error.culprits = _alike(samples.culprit(), snapshot.pending)
            raise
        if samples.count() >= LOOKS // LONG:
            _log.warning("decision took long", extra={"why": samples.slowest(snapshot.pending)})
        return answer

    def _child_for(self, snapshot: Snapshot) -> DecisionChild | None:
        """The process that decides this snapshot; None if this one does: no queue is served by plug-ins of others."""
        if self._asked[0] is not snapshot.queues:
            served = any(map(is_served_by_others, snapshot.queues.values())) if plugins() else False
            self._asked = (snapshot.queues, served)
        if not self._asked[1]:
            self._end_child()
        elif self._child is None:
            self._child = DecisionChild()
        return self._child

    def close(self) -> None:
        """The term is over: nothing is decided any more."""
        self._end_child()

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    async def _without_culprits(self, snapshot: Snapshot, limit: int, error: Exception) -> Decided:
        kept = await self._thread.run(lambda: self._kept(snapshot))
        workloads = await self._thread.run(lambda: sorted(snapshot.workloads()))
        culprits = await find_culprits(workloads, lambda some: self._passes(snapshot, workloads, some))
        if culprits is None:
            raise error
        # Beyond what could be tried, nothing is admitted in this turn: the order of the queues holds.
        left_out = frozenset(culprits.found if culprits.complete else workloads)
        smaller = await self._thread.run(lambda: snapshot.without(left_out))
        decided = self._noted(smaller, await self._decided(smaller, limit))
        _log.error(
            "decided without workloads that the engine fails on",
            extra={"workloads": [str(key) for key in culprits.found], "kept": str(kept or "")},
        )
        return replace(decided, culprits=dict.fromkeys(culprits.found, error))

    def _kept(self, snapshot: Snapshot) -> Path | None:
        try:
            return self._keep(snapshot)
        except Exception:
            # What the engine fails on may be nothing that can be written either.
            _log.exception("failed turn not kept")
            return None

    async def _passes(
        self, snapshot: Snapshot, workloads: Sequence[WorkloadKey], some: Sequence[WorkloadKey]
    ) -> bool:
        part = await self._thread.run(lambda: snapshot.without(frozenset(workloads) - frozenset(some)))
        try:
            await self._decided(part, SEATS_PER_PLAN)
        except (PluginFault, ChildEnded, DecisionTooLong):
            raise
        except Exception:
            return False
        return True


async def _start(child: DecisionChild) -> None:
    """Raises ChildEnded if it does not start in time."""
    if child.has_started:
        return
    try:
        async with asyncio.timeout(_START_WITHIN):
            await asyncio.to_thread(child.await_start)
    except TimeoutError:
        child.end()
        raise ChildEnded(found=f"it had not started after {_START_WITHIN:g} s") from None


def _alike(culprit: WorkloadKey | None, pending: Mapping[WorkloadKey, Workload]) -> tuple[WorkloadKey, ...]:
    """The workload, and those of its namespace and queue that ask for the same: a decision does not get done with the
    request. (): it is not known."""
    found = None if culprit is None else pending.get(culprit)
    if found is None:
        return ()
    return tuple(
        key
        for key, each in pending.items()
        if (each.namespace, each.queue, each.minimum) == (found.namespace, found.queue, found.minimum)
        and each.pod_sets == found.pod_sets
    )
