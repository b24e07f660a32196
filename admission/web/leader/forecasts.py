"""When pending workloads should start: worked out in the leader, again and again, from what it learned.

It learns from the ledger when it begins to lead, and then from what ends and starts. Looked at are the last decisions,
so that no turn does more for it. All of it is lost when the term ends: the next leader reads what has ended,
and learns the rest anew.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from time import monotonic, thread_time
from typing import Any, Final, NamedTuple, NoReturn

from msgspec import structs

from admission.containment.child_process import has_plugins, in_child
from admission.forecast.calibration import Interval
from admission.forecast.ensemble import Ensemble
from admission.forecast.forward import SimulationBounds, Starts
from admission.forecast.learned import Learned
from admission.forecast.run_times import Likeness, Run, RunTimes, WorkloadShape
from admission.forecast.trust import as_shown
from admission.reconcile.expected_starts import ExpectedStart
from admission.turn_report import Decided
from admission.web.http import encode
from admission.web.lists.expected import start_of, told_at
from queues.errors import DatabaseError, MusterError
from queues.read_api.bodies import ExpectedLine, ExpectedList, ExpectedStartBody
from queues.reason_codes import NEEDS_A_CHANGE
from queues.sql.history.ended_runs import EndedRun
from queues.text_format import rfc3339
from queues.workload import Workload, WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between two looks at the last decision.
_LOOK: Final = 2.0
#: Seconds from the end of a forecast to the next one, at least.
_EVERY: Final = 30.0
#: Seconds of processor time of one forecast at most, and of one slice of it.
_WORK: Final = 16.0
_SLICE: Final = 0.1
#: After each slice, or after a child process, it rests for so many times as long as that worked: turns go first, and
#: it takes a 20th of a processor at most.
_REST: Final = 19.0
#: Seconds of a forecast in a child process, and by how much others go before it.
_LONGEST: Final = 60.0
_NICE: Final = 10
#: How far simulations go.
LIMITS: Final = SimulationBounds(horizon=14 * 86_400, decisions=3000, precision=10, grace=30)
#: Seconds within which the low end of an interval without a high end says nothing.
_SAYS_NOTHING: Final = 60
#: Closed admissions that are read when a term begins.
LEARNED: Final = 5000

#: Reads that many closed admissions.
Learn = Callable[[int], Awaitable[Iterable[EndedRun]]]
#: Runs something in the thread of questions, when no question waits for it.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
#: The workloads for which no start can be expected, whatever the engine does: they wait for pods of their own.
StartsUnknown = Callable[[], Container[WorkloadKey]]
#: Takes the expected starts of all waiting workloads, as of one forecast, for their objects.
Tell = Callable[[Mapping[WorkloadKey, ExpectedStart]], None]


class _Forecast(NamedTuple):
    """One forecast, as it was worked out."""

    lines: Mapping[WorkloadKey, ExpectedLine]
    #: The same for the objects of the workloads.
    starts: Mapping[WorkloadKey, ExpectedStart]
    #: When it was worked out (RFC 3339). None if there is none.
    computed: str | None


_NOTHING: Final = _Forecast({}, {}, None)


class Forecasts:
    """The forecast of this replica: the last one as long as it leads, else none."""

    def __init__(
        self,
        last: Callable[[], Decided | None],
        learn: Learn,
        in_thread: InThread,
        tell: Tell = lambda starts: None,
        unknown: StartsUnknown = frozenset,
    ) -> None:
        """``last``: the last decision, None if this replica does not lead. ``tell``: writes a forecast to objects."""
        self._last = last
        self._learn = learn
        self._in_thread = in_thread
        self._tell = tell
        self._unknown = unknown
        self._made = _NOTHING
        #: What was learned in this term. None if this replica does not lead.
        self.learned: Learned | None = None

    def encoded(self) -> bytes:
        """All expected starts, as JSON: of what waits still, as they are to be shown now."""
        if (last := self._last()) is None:
            return encode(ExpectedList(computed=None))
        now, pending = rfc3339(last.snapshot.now), last.snapshot.pending
        items = tuple(told_at(line, now) for key, line in self._made.lines.items() if key in pending)
        return encode(ExpectedList(computed=self._made.computed, items=items))

    def of(self, key: WorkloadKey) -> ExpectedStartBody | None:
        """The expected start of a workload. None if it does not wait, or came after the last forecast."""
        line, last = self._made.lines.get(key), self._last()
        return None if line is None or last is None or key not in last.snapshot.pending else start_of(line)

    async def run(self) -> NoReturn:
        """Look at the decisions of each term until cancelled. What goes wrong is logged, and ends nothing."""
        while True:
            try:
                if (last := self._last()) is not None:
                    await self._term(last)
            except Exception:
                _log.exception("the forecast of starts failed; it begins anew")
                await asyncio.sleep(_EVERY)
            finally:
                self._made, self.learned = _NOTHING, None
            await asyncio.sleep(_LOOK)

    async def _term(self, last: Decided) -> None:
        """As long as this replica leads."""
        learned = Learned(last.snapshot)
        learned.add_runs(
            Run(
                Likeness(each.user, each.queue, WorkloadShape.of(each.pods), each.image),
                each.seconds,
                not each.evicted,
            )
            for each in await self._ended_runs()
        )
        self.learned = learned
        due, latest = monotonic(), self._last()
        while latest is not None:
            learned.observe(latest.snapshot)
            if not latest.snapshot.pending:
                self._made = _NOTHING
            elif monotonic() >= due:
                rest = await self._forecast(latest, learned)
                due = monotonic() + max(_EVERY, rest)
            await asyncio.sleep(_LOOK)
            latest = self._last()

    async def _ended_runs(self) -> Iterable[EndedRun]:
        try:
            return await self._learn(LEARNED)
        except DatabaseError as error:
            _log.warning("run times of ended work could not be read: %s", error)
            return ()

    async def _forecast(self, last: Decided, learned: Learned) -> float:
        """Make a forecast; gives the seconds of rest that follow from its work."""
        ensemble = learned.ensemble(last.snapshot, last.plan, LIMITS)
        rest = 0.0
        if has_plugins():
            began = monotonic()
            try:
                simulate = partial(in_child, partial(_simulated, ensemble), 2 * _LONGEST)
                worked, ensemble.made = await asyncio.to_thread(simulate)
            except MusterError as error:
                _log.warning("no starts are forecast", extra={"why": str(error)})
                self._made = _NOTHING
                return _REST * (monotonic() - began)
            rest = _REST * worked
        else:
            await self._in_slices(ensemble)
        if (newest := self._last()) is not None:
            now, unknown = newest.snapshot.now, self._unknown()
            self._made = await self._in_thread(lambda: _lines(last, learned, ensemble, unknown, now))
            self._tell(self._made.starts)
        return rest

    async def _in_slices(self, ensemble: Ensemble) -> None:
        steps, worked = ensemble.steps(), 0.0
        while worked < _WORK:
            taken, is_over = await self._in_thread(lambda: _slice(steps))
            worked += taken
            if is_over:
                break
            await asyncio.sleep(_REST * taken)
        ensemble.stop()


def _simulated(ensemble: Ensemble) -> tuple[float, list[Starts]]:
    """In a child process: seconds of processor time, and what the simulations came to."""
    os.nice(_NICE)
    ends, began = monotonic() + _LONGEST, thread_time()
    for _ in ensemble.steps():
        if thread_time() - began >= _WORK or monotonic() >= ends:
            break
    ensemble.stop()
    return thread_time() - began, ensemble.made


def _slice(steps: Iterator[None]) -> tuple[float, bool]:
    """Go on for a short time: seconds of processor time, and whether it is over."""
    began = thread_time()
    for _ in steps:
        if thread_time() - began >= _SLICE:
            return thread_time() - began, False
    return thread_time() - began, True


def _lines(
    last: Decided, learned: Learned, ensemble: Ensemble, unknown: Container[WorkloadKey], now: int
) -> _Forecast:
    """What the simulations came to. ``now``: seconds since the epoch; they began some time before."""
    snapshot = last.snapshot
    run_times = ensemble.run_times
    intervals = {
        key: as_shown(interval, snapshot.pending[key], run_times)
        for key, interval in learned.intervals(ensemble).items()
        if key not in unknown
        and ((reason := last.plan.reasons.get(key)) is None or reason.code not in NEEDS_A_CHANGE)
    }
    lines = {
        key: ExpectedLine(
            kind=str(key.kind),
            namespace=snapshot.pending[key].namespace,
            uid=key.uid,
            **structs.asdict(body_of(snapshot.now, interval, snapshot.pending[key], run_times, learned.runs)),
        )
        for key, interval in intervals.items()
    }
    starts = {key: _start(snapshot.now, interval, now) for key, interval in intervals.items()}
    return _Forecast(lines, starts, rfc3339(snapshot.now))


def _start(begun: int, interval: Interval, now: int) -> ExpectedStart:
    """For the object. ``begun``: when the simulations began."""
    low, high = begun + interval.low, None if interval.high is None else begun + interval.high
    # "Now or later" says nothing: the command shows it as unknown, too. And so does an interval that has passed.
    if interval.never or (high is None and interval.low < _SAYS_NOTHING) or (high is not None and high < now):
        return ExpectedStart(begun, None)
    return ExpectedStart(begun, low, high)


def body_of(
    now: int, interval: Interval, workload: Workload, run_times: RunTimes, runs: int
) -> ExpectedStartBody:
    """The start of a workload as simulations that began at ``now`` (seconds since the epoch) came to it. ``interval``:
    as it is shown; ``runs``: what run times were learned from."""
    likeness = Likeness.of_workload(workload)
    assumed = run_times.median(likeness, workload.run_time)
    so_far = run_times.longest_so_far(likeness) if workload.run_time is None else 0
    return ExpectedStartBody(
        computed=rfc3339(now),
        earliest=rfc3339(now + interval.low),
        latest=None if interval.high is None else rfc3339(now + interval.high),
        never=interval.never,
        not_yet=interval.not_yet,
        class_runs=run_times.ended(likeness, workload.run_time),
        basis=str(run_times.basis(likeness, workload.run_time)),
        run_time=max(assumed, so_far),
        at_least=so_far > assumed,
        runs=runs,
    )
