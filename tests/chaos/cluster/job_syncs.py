"""Syncs of the Job controller, one Job after the other: each at one stroke, or with a pause before one of its pods.

The real controller sends few requests a second. In the meantime its Job may be suspended, changed or deleted: the sync
goes on with what it read at its beginning, and the status that it writes at its end is refused.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from queues.api.api_resources import JOBS
from tests.chaos.cluster import job_controller
from tests.chaos.cluster.job_controller import JobSync
from tests.chaos.cluster.store import ObjectStore
from tests.chaos.drawn.pace import PACE

#: The share of syncs that pause, of those that make pods while they may.
_PAUSING: Final = 0.9
#: Seconds of a pause: less than ``short_times.JOB_SYNC``, in which a sync makes all its pods.
_PAUSE: Final = (0.3 * PACE, 1.6 * PACE)


@dataclass(slots=True)
class JobSyncs:
    """All of them. Pauses are drawn from the Job's uid, by a stream of their own."""

    store: ObjectStore
    seed: int
    #: Whether syncs that begin now may pause.
    pause: bool = False
    #: Called when one begins to pause.
    on_pause: Callable[[], None] = lambda: None
    #: Syncs that pause, by the Job's uid, and the monotonic time at which they go on.
    _pausing: dict[str, tuple[JobSync, float]] = field(default_factory=dict)
    _draws: dict[str, random.Random] = field(default_factory=dict)

    def begin(self, now: float, wall_clock: float) -> None:
        """Look at each Job of which no sync pauses. ``now``: monotonic."""
        for job in self.store.all(JOBS):
            uid = job["metadata"]["uid"]
            if uid in self._pausing:
                continue
            sync = job_controller.begin(self.store, job, wall_clock)
            if sync is not None and not self._pauses(sync, now):
                self._finish(sync)

    def _pauses(self, sync: JobSync, now: float) -> bool:
        """Whether a sync pauses: it makes some of its pods now, and the others later."""
        if not self.pause or not sync.missing or sync.counts:
            return False
        uid = sync.job["metadata"]["uid"]
        draw = self._draws.setdefault(uid, random.Random(f"{self.seed} sync {uid}"))
        if draw.random() >= _PAUSING:
            return False
        job_controller.go_on(self.store, sync, draw.randrange(len(sync.missing)))
        self._pausing[uid] = sync, now + draw.uniform(*_PAUSE)
        self.on_pause()
        return True

    def go_on(self, now: float) -> bool:
        """Finish those syncs whose pause is over. True: there was one, so its Job is to be looked at again."""
        over = [uid for uid, (_, goes_on) in self._pausing.items() if goes_on <= now]
        for uid in over:
            sync, _ = self._pausing.pop(uid)
            self._finish(sync)
        return bool(over)

    def unfinished(self) -> str:
        """Which sync pauses, as a sentence; "": none does."""
        for sync, _ in self._pausing.values():
            return f"the Job controller still makes pods of {sync.job['metadata']['name']}"
        return ""

    def _finish(self, sync: JobSync) -> None:
        job_controller.go_on(self.store, sync, len(sync.missing))
        job_controller.end(self.store, sync)
