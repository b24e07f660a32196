"""A thread that hands traces to the collector, so that the turns never wait for it.

What waits is bounded. A trace that finds no room, or that the collector does not take, is dropped and counted: traces
are sent once, and never keep anything from being admitted.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from admission.tracing.spans import GangSpan, spans_of
from queues.sql.read.over_time.traced import TracedAdmission

_log = logging.getLogger(__name__)

#: Traces that wait at most.
MOST: Final = 2000
#: Traces of one request.
BATCH: Final = 32
#: How many times as long as it worked the thread rests: it shares the interpreter with the turns.
_RESTS: Final = 2.0

#: Why traces are dropped: too many waited, the collector did not take them, or the ledger could not be read.
Why = Literal["queue", "collector", "ledger"]
REASONS: Final[tuple[Why, ...]] = ("queue", "collector", "ledger")
#: Spans of most traces, for those that are dropped before their spans are made.
SPANS: Final = 7


class SpanCounts(NamedTuple):
    """What became of spans."""

    #: Spans that the collector took, and by reason those that were dropped.
    sent: int
    dropped: Mapping[Why, int]


class TraceSender:
    """Sends traces in the order in which they came."""

    def __init__(self, send: Callable[[Sequence[GangSpan]], bool], *, most: int = MOST) -> None:
        """``send`` blocks, and says whether the spans were taken."""
        self._send = send
        self._most = most
        self._waiting: deque[TracedAdmission] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._taken = True
        self._sent = 0
        self._dropped: dict[Why, int] = dict.fromkeys(REASONS, 0)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> SpanCounts:
        """Of this process so far."""
        with self._changed:
            return SpanCounts(self._sent, dict(self._dropped))

    def offer(self, admission: TracedAdmission) -> None:
        """Send its trace some time. Never blocks for long."""
        with self._changed:
            if self._closing or len(self._waiting) >= self._most:
                self._dropped["queue"] += SPANS
                return
            self._waiting.append(admission)
            self._changed.notify()

    def drop(self, why: Why, spans: int) -> None:
        """Count spans that could not even be made."""
        with self._changed:
            self._dropped[why] += spans

    def close(self, seconds: float) -> None:
        """Send what waits for at most so many seconds; the rest is dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            began = time.perf_counter()
            self._send_batch([span for admission in batch for span in self._spans_of(admission)])
            if not self._closing:
                time.sleep(min(1.0, (time.perf_counter() - began) * _RESTS))

    def _spans_of(self, admission: TracedAdmission) -> tuple[GangSpan, ...]:
        try:
            return spans_of(admission)
        except Exception:  # whatever its row says, the other traces are sent
            _log.warning("trace cannot be made", extra={"admission": admission.id}, exc_info=True)
            self.drop("ledger", SPANS)
            return ()

    def _next(self) -> list[TracedAdmission] | None:
        """Traces of the next request. None if there will be none."""
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    def _send_batch(self, spans: Sequence[GangSpan]) -> None:
        if not spans:
            return
        try:
            taken, why = self._send(spans), "the collector did not take them"
        except Exception as error:  # whatever a library raises, the next trace may go through
            taken, why = False, f"{type(error).__name__}: {error}"
        with self._changed:
            if taken:
                self._sent += len(spans)
            else:
                self._dropped["collector"] += len(spans)
        if taken != self._taken:
            self._taken = taken
            if taken:
                _log.info("traces arrive again")
            else:
                _log.warning("traces are dropped", extra={"why": why})
