"""Seats for which a pod may still come although the informer shows none, as one writer knows it in one term.

A write that brings a pod to a seat (a pod is created or released, a Job is resumed) counts from the moment at which it
is queued until the informer shows its effect. It counts no longer if it was cancelled before it was sent, or if the
API server refused it. A write without an answer, also one that was cancelled on its way, may have been carried out, and
may still be: the API server works on a request for up to a minute (``--request-timeout``). When that time is over the
writer asks for the object itself. A pod that is shown before may be deleted meanwhile, and be made again by such a
request, which only its name addresses. A request for a pod that is under way may become one.
"""

import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from admission.kube.client.client import Client
from admission.kube.writers.work_queue import LONGEST_PAUSE, WorkQueue
from admission.workloads.inputs import SeatIndices, joined
from queues.errors import ApiError, ApiUnavailable, Fenced, NotFound
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds after its last request in which an object may still change by it; then the object itself is asked for.
ASKED_AFTER: Final = 60.0


class UnwantedWrite(Exception):
    """What a write was to bring about is not wanted any more: it is not sent."""


@dataclass(slots=True, kw_only=True)
class AwaitedWrite:
    """A write after which pods may come for these seats."""

    #: The object that is written.
    path: str
    seats: SeatIndices
    #: ``metadata.generation`` that the object must have for the write to apply. None for any.
    generation: int | None = None
    #: A request was sent and has no answer yet.
    in_flight: bool = False
    #: Time of the loop at which the last request ended that may have been carried out. None if there was none.
    since: float | None = None
    #: Time of the loop at which the last request without an answer was given up. None if there was none.
    given_up_at: float | None = None

    def may_arrive(self, now: float) -> bool:
        """Whether a request that was given up may still be carried out, whatever the informer shows."""
        return self.given_up_at is not None and now < self.given_up_at + ASKED_AFTER

    def is_undone(self) -> bool:
        """Whether no request was sent, or every one was refused."""
        return self.since is None and not self.in_flight

    async def tracked(self, request: Awaitable[bytes], now: Callable[[], float]) -> bytes:
        """The answer of a request that says when it is sent (``in_flight``). Raises what it raises."""
        try:
            answer = await request
        except BaseException as error:
            if self.in_flight and may_have_happened(error):
                self.since = self.given_up_at = now()
            raise
        else:
            self.since = now()
            return answer
        finally:
            self.in_flight = False


class AwaitedSeats:
    """Writes by workload and subject: what is written, by a name or uid that is unique in the workload."""

    def __init__(self, shown: Callable[[WorkloadKey, Mapping[str, AwaitedWrite]], Set[str]]) -> None:
        """``shown``: those of these writes whose effect the informer shows, or that can have none any more."""
        self._shown = shown
        self._writes: dict[WorkloadKey, dict[str, AwaitedWrite]] = {}

    def put(
        self,
        key: WorkloadKey,
        subject: str,
        path: str,
        seats: SeatIndices,
        generation: int | None = None,
    ) -> AwaitedWrite:
        """A write is queued. What was written to the same subject before still counts."""
        writes = self._writes.setdefault(key, {})
        write = writes.get(subject)
        if write is None or write.is_undone():
            write = writes[subject] = AwaitedWrite(path=path, seats=seats)
        else:
            write.seats = joined(write.seats, seats)
        write.generation = generation
        return write

    def get(self, key: WorkloadKey, subject: str) -> AwaitedWrite | None:
        """The write to a subject. None if none is awaited."""
        return self._writes.get(key, {}).get(subject)

    def writes(self, key: WorkloadKey) -> dict[str, AwaitedWrite]:
        """Writes with an effect that is not shown, by subject."""
        self.drop_shown(key)
        return dict(self._writes.get(key, {}))

    def drop_shown(self, key: WorkloadKey) -> bool:
        """Drop the writes with an effect that is shown by now; whether there were any."""
        writes = self._writes.get(key)
        shown = self._shown(key, writes) if writes else ()
        for subject in shown:
            self.drop(key, subject)
        return bool(shown)

    def of(self, key: WorkloadKey) -> SeatIndices:
        """Seats of a workload for which a pod may still come."""
        return joined(*(write.seats for write in self.writes(key).values()))

    def drop(self, key: WorkloadKey, subject: str) -> None:
        """Nothing can come of the write to this subject any more."""
        writes = self._writes.get(key, {})
        writes.pop(subject, None)
        if not writes:
            self._writes.pop(key, None)

    def drop_if_undone(self, key: WorkloadKey, subject: str) -> bool:
        """Drop a write that certainly was not carried out; whether it was so."""
        write = self.get(key, subject)
        if write is None or not write.is_undone():
            return False
        self.drop(key, subject)
        return True

    def drop_undone(self, key: WorkloadKey, wanted: Container[str] = ()) -> bool:
        """Drop the writes that certainly were not carried out and are not wanted any more; whether there were any."""
        undone = [
            subject
            for subject, write in self._writes.get(key, {}).items()
            if subject not in wanted and write.is_undone()
        ]
        for subject in undone:
            self.drop(key, subject)
        return bool(undone)

    def unresolved(
        self, key: WorkloadKey, wanted: Container[str] = ()
    ) -> Iterator[tuple[str, AwaitedWrite, float]]:
        """Writes that may have been carried out, are not shown and are not to be repeated, and when to ask for each."""
        for subject, write in self.writes(key).items():
            if subject not in wanted and not write.in_flight and write.since is not None:
                yield subject, write, write.since + ASKED_AFTER

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone and holds nothing."""
        self._writes.pop(key, None)


class Look(NamedTuple):
    """An item of a work queue: an object is asked for whether a write to it was carried out."""

    key: WorkloadKey
    subject: str


class Looks:
    """Asks for objects that may have been written and are not shown: long after the request, the answer holds."""

    def __init__(
        self,
        client: Client,
        awaited: AwaitedSeats,
        queue: WorkQueue[WorkloadKey],
        requeue: Callable[[WorkloadKey], None],
        is_done: Callable[[str, AwaitedWrite, bytes], bool],
    ) -> None:
        """``requeue`` gets a workload of which something was found out; ``is_done``: whether the write to a subject
        was carried out, by its object as it is now."""
        self._client = client
        self._awaited = awaited
        self._queue = queue
        self._requeue = requeue
        self._is_done = is_done

    def start(self, key: WorkloadKey, repeated: Container[str] = ()) -> None:
        """Ask for all that it is time for, but for writes that are ``repeated``; the key is requeued for the others."""
        for subject, write, when in self._awaited.unresolved(key, repeated):
            item = Look(key, subject)
            if when > self._queue.now():
                self._queue.requeue_after(key, when - self._queue.now())
            elif not self._queue.is_under_way(item):
                self._queue.start(key, item, partial(self._look, item, write), f"look {write.path}")

    async def _look(self, item: Look, write: AwaitedWrite) -> None:
        key, subject = item
        try:
            is_done = self._is_done(subject, write, await self._client.get(write.path))
        except NotFound:
            is_done = False
        except ApiError as error:
            _log.warning("object cannot be read", extra={"path": write.path, "why": str(error)})
            self._queue.requeue_after(key, LONGEST_PAUSE)
            return
        if is_done:
            write.since = self._queue.now()  # the informer is behind
        else:
            self._awaited.drop(key, subject)
        self._requeue(key)


def may_have_happened(error: BaseException) -> bool:
    """Whether a write that was sent and ended so may have been carried out, now or later.

    One that is cancelled, or that a defect ends, is a write without an answer.
    """
    if isinstance(error, ApiUnavailable):
        return not error.facts.get("unsent")
    return not isinstance(error, ApiError | UnwantedWrite | Fenced)
