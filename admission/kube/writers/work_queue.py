"""The work queue of a writer to the cluster, for one term.

The words are client-go's. A *key* is what a writer reconciles (a workload, a pod), an *item* is one write for it. An
*expectation* is a write with an effect that the informer has not shown yet: until it does, or until the expectation
lapses,
the write is not repeated. After a failure a key *backs off*, longer with every failure in a row. A *requeue* hands a
key back to the caller, to be reconciled again though nothing was seen to change. While the queue is *full*, keys wait
to be requeued: they take less memory than steps, which would only wait for a connection.

Nothing here outlives the process: the next leader reconciles from what Postgres and the cluster show.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from queues.errors import Fenced

_log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

Step = Callable[[], Coroutine[Any, Any, None]]

#: Seconds.
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0

#: Seconds that the informer may take to show the effect of a write.
EXPECTATION_SECONDS: Final = 30.0

#: Steps under way beyond which the queue is full: several times as many as there are connections.
MOST_STEPS: Final = 256
#: Keys that are requeued together when there is room again.
_TOGETHER: Final = 100

#: Subjects with expectations, and keys with backoffs, beyond which those that lapsed are removed.
_MANY: Final = 10_000
#: Seconds; the shortest pause.
_SHORTEST: Final = 0.001


def pause_after(failures: int, longest: float | None = None, first: float | None = None) -> float:
    """Seconds to wait after so many failures in a row, doubled each time. 0 failures: an object changed meanwhile.

    ``longest``, ``first``: None for LONGEST_PAUSE and FIRST_PAUSE.
    """
    pause = (FIRST_PAUSE if first is None else first) * 2.0 ** min(failures, 20)
    return min(LONGEST_PAUSE if longest is None else longest, pause)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of a key in a row, and the time of the loop before which it is not tried again."""

    failures: int
    until: float


class WorkQueue(Generic[Key]):
    """The work of one writer: under way, expected, backing off, to be requeued."""

    def __init__(
        self,
        requeue: Callable[[Key], None],
        finished: Callable[[Key], None],
        owner_of: Callable[[Key], Hashable] = lambda _: None,
    ) -> None:
        """``requeue`` gets a key when its time has come; ``finished`` when a step for it has ended.

        ``owner_of``: whose a key is. Owners take turns where keys wait for room.
        """
        self._owner_of = owner_of
        self._requeue = requeue
        self._finished = finished
        self._steps: dict[Hashable, asyncio.Task[bool]] = {}
        #: Items under way by key.
        self._items: dict[Key, set[Hashable]] = {}
        #: Keys to be requeued as soon as their step has ended.
        self._dirty: set[Key] = set()
        #: Keys to be requeued when there is room, by owner, in the order in which it is their turn; of each owner the
        #: key that came first being first. And the owner of each key.
        self._waiting: dict[Hashable, dict[Key, None]] = {}
        self._waits_for: dict[Key, Hashable] = {}
        #: Subject → write → time of the loop at which the expectation lapses.
        self._expected: dict[Hashable, dict[Hashable, float]] = {}
        self._prune_above = _MANY
        self._backoffs: dict[Key, Backoff] = {}
        self._prune_backoffs_above = _MANY
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._stopped = False

    def now(self) -> float:
        """Seconds, on the clock that expectations and backoffs are measured by."""
        return asyncio.get_running_loop().time()

    # ── under way ───────────────────────────────────────────────────────────────────────────────────────────

    def start(self, key: Key, item: Hashable, step: Step, name: str) -> None:
        """Carry out a step for a key; ``name`` is the task's. The item must not be under way."""
        task = asyncio.create_task(self._run(key, step, name), name=name)
        self._began(key, item, task)
        task.add_done_callback(partial(self._ended, key, item))

    def _began(self, key: Key, item: Hashable, task: "asyncio.Task[bool]") -> None:
        self._steps[item] = task
        self._items.setdefault(key, set()).add(item)

    async def _run(self, key: Key, step: Step, name: str) -> bool:
        """False: the term is over, and nothing is to be tried again."""
        fenced = False
        try:
            await step()
        except* Fenced:
            fenced = True
        except* Exception:
            # A defect that one key brings to light must not keep the others waiting.
            _log.exception("write failed unexpectedly", extra={"key": str(key), "step": name})
            self.defer(key, LONGEST_PAUSE)
        return not fenced

    def _ended(self, key: Key, item: Hashable, task: "asyncio.Task[bool]") -> None:
        if self._steps.get(item) is task:
            self._drop(key, item)
        self._requeue_waiting()
        if task.cancelled() or not task.result():
            return
        if key in self._dirty:
            self._dirty.discard(key)
            self.requeue_after(key, 0.0)
        self._finished(key)

    def _drop(self, key: Key, item: Hashable) -> None:
        del self._steps[item]
        items = self._items[key]
        items.discard(item)
        if not items:
            del self._items[key]

    def cancel(self, key: Key, item: Hashable) -> None:
        """Stop a step that is under way: what it was to bring about is not wanted any more."""
        task = self._steps[item]
        self._drop(key, item)
        task.cancel()

    def is_under_way(self, item: Hashable) -> bool:
        """Whether a step for this item has not ended yet."""
        return item in self._steps

    def under_way(self) -> int:
        """Steps that have not ended yet."""
        return len(self._steps)

    def keys_under_way(self) -> Collection[Key]:
        """Keys with a step that has not ended yet."""
        return self._items.keys()

    def is_busy(self) -> bool:
        """Whether any step has not ended yet."""
        return bool(self._steps)

    def items_of(self, key: Key) -> list[Any]:
        """Items of this key that are under way."""
        return list(self._items.get(key, ()))

    def is_busy_with(self, key: Key) -> bool:
        """Whether a step for this key has not ended yet."""
        return key in self._items

    def requeue_when_finished(self, key: Key) -> None:
        """Requeue a busy key as soon as its step has ended: what it was based on is outdated."""
        self._dirty.add(key)

    # ── full ────────────────────────────────────────────────────────────────────────────────────────────────

    def is_full(self) -> bool:
        """Whether so many steps are under way that no more should be started."""
        return len(self._steps) >= MOST_STEPS

    def requeue_when_free(self, key: Key) -> None:
        """Requeue a key as soon as the queue is not full any more: after those of the same owner that wait for that
        already, and in turn with those of others, however many one owner has."""
        if key not in self._waits_for:
            owner = self._waits_for[key] = self._owner_of(key)
            self._waiting.setdefault(owner, {})[key] = None

    def _requeue_waiting(self) -> None:
        if self._stopped or self.is_full():
            return
        for _ in range(min(_TOGETHER, MOST_STEPS - len(self._steps), len(self._waits_for))):
            owner = next(iter(self._waiting))
            key = next(iter(self._waiting[owner]))
            keys = self._waiting.pop(owner)
            del keys[key], self._waits_for[key]
            if keys:
                self._waiting[owner] = keys  # its next turn comes after those of all others
            self._requeue(key)
            if not self._waits_for:
                break
        if self._waiting and not self._steps:
            asyncio.get_running_loop().call_soon(self._requeue_waiting)

    # ── expectations ────────────────────────────────────────────────────────────────────────────────────────

    def expect(self, subject: Hashable, write: Hashable, seconds: float = EXPECTATION_SECONDS) -> None:
        """A write was carried out; until the informer shows it, at most for so long, it is not repeated."""
        self._expected.setdefault(subject, {})[write] = self.now() + seconds
        if len(self._expected) > self._prune_above:
            now = self.now()
            self._expected = {
                subject: writes for subject, writes in self._expected.items() if max(writes.values()) > now
            }
            self._prune_above = max(_MANY, 2 * len(self._expected))

    def is_expected(self, key: Key, subject: Hashable, write: Hashable) -> bool:
        """Whether the informer has yet to show a write. If so, the key is requeued when that lapses."""
        lapses = self._expected.get(subject, {}).get(write)
        if lapses is None or lapses <= self.now():
            return False
        self.requeue_after(key, lapses - self.now())
        return True

    def keep_expectations(self, subject: Hashable, missing: Iterable[Hashable]) -> None:
        """Drop expectations with an effect that was seen: all but those of writes that are ``missing`` still.

        A write that is wanted again later is then wanted because its effect was undone.
        """
        known = self._expected.get(subject)
        if not known:
            return
        left = {write: known[write] for write in missing if write in known}
        if left:
            self._expected[subject] = left
        else:
            del self._expected[subject]

    def forget_expectations(self, subject: Hashable) -> None:
        """Expect nothing of this subject."""
        self._expected.pop(subject, None)

    # ── backoff and requeue ─────────────────────────────────────────────────────────────────────────────────

    def back_off(self, key: Key, *, at_least: float = 0.0, longest: float | None = None) -> None:
        """A failure: wait before the next attempt, twice as long as after the failure before it.

        ``at_least``, ``longest``: seconds between which the pause is. ``longest``: None for LONGEST_PAUSE.
        """
        known = self._backoffs.get(key)
        failures = (known.failures if known is not None else 0) + 1
        pause = max(at_least, pause_after(failures, longest))
        self._wait(key, Backoff(failures, self.now() + pause))

    def defer(self, key: Key, seconds: float) -> None:
        """No attempt for so long, whatever failed before."""
        self._wait(key, Backoff(0, self.now() + seconds))

    def _wait(self, key: Key, backoff: Backoff) -> None:
        self._backoffs[key] = backoff
        if len(self._backoffs) > self._prune_backoffs_above:
            # A key that was requeued so long ago and not tried again is not wanted any more.
            oldest = self.now() - LONGEST_PAUSE
            self._backoffs = {key: each for key, each in self._backoffs.items() if each.until > oldest}
            self._prune_backoffs_above = max(_MANY, 2 * len(self._backoffs))
        self.requeue_after(key, backoff.until - self.now())

    def is_backing_off(self, key: Key) -> bool:
        """Whether the next attempt has to wait. If so, the key is requeued when it need not."""
        backoff = self._backoffs.get(key)
        if backoff is None or backoff.until <= self.now():
            return False
        self.requeue_after(key, backoff.until - self.now())
        return True

    def reset(self, key: Key) -> None:
        """A success: the next failure is the first in a row."""
        self._backoffs.pop(key, None)

    def requeue_after(self, key: Key, seconds: float) -> None:
        """Requeue the key after so many seconds at the latest: once, however often it is asked for."""
        if self._stopped:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        # What is called at once has no time in uvloop: a millisecond is the least that it waits for.
        self._timers[key] = loop.call_later(max(seconds, _SHORTEST), partial(self._ring, key))

    def _ring(self, key: Key) -> None:
        del self._timers[key]
        self._requeue(key)

    def __len__(self) -> int:
        """Keys that will be requeued."""
        return len(self._timers)

    def forget(self, key: Key) -> None:
        """The object is gone: no backoff, no requeue."""
        self._dirty.discard(key)
        if key in self._waits_for:
            owner = self._waits_for.pop(key)
            del self._waiting[owner][key]
            if not self._waiting[owner]:
                del self._waiting[owner]
        self._backoffs.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def stop(self) -> None:
        """Cancel the steps under way and wait until they have ended; never requeue again."""
        self._stopped = True
        while self._timers:
            self._timers.popitem()[1].cancel()
        tasks = list(self._steps.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
