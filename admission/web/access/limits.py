"""How much is worked on at a time, and how fast: the rest waits a moment; what is beyond that is sent away with 429.

A client that asks again at once, whatever the answer is, costs as much with a refusal as with an answer. So a refusal
is held back for a while, and so is the next question on that connection.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Final, NoReturn

from queues.errors import MusterError

#: Seconds after which a client that was sent away should ask again.
RETRY_AFTER: Final = 1
#: Part of the machine that answers to users may take, and seconds of processor time that are saved up while it is less:
#: hundreds of answers at once for people, and little for long for clients that ask without a pause.
_PART: Final = 0.08
_SAVED: Final = 3.0
#: Of Linux: nanoseconds that this process has run, that it has waited for a processor, and how often; proc(5).
_SCHEDULED: Final = Path("/proc/self/schedstat")
#: Seconds that a request waits for the share at most: what else the process does, as for connections of strangers,
#: slows users down and does not lock them out.
_LONGEST_PAUSE: Final = 2.0


class TooBusy(MusterError):
    """{who} too many requests are waiting for an answer."""


class ShareUsed(TooBusy):
    """Answers to users have used their share of this machine: what is left is the leader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much is done at a time."""

    #: Requests that are being answered, and that wait for it.
    at_once: int = 8
    waiting: int = 64
    #: The same of one user, both together.
    of_one: int = 16
    #: Of ``at_once``, places that only those get who have none.
    newcomers: int = 0
    #: Seconds that a request waits at most.
    patience: float = 2.0
    #: Seconds for which a refusal is held back, and how many are at a time.
    held_back: float = 0.0
    held: int = 1000


def counted_as(user: str) -> str:
    """In whose name a user's places are counted: all service accounts of a namespace are one user, for a user who may
    edit there can make any number of them."""
    prefix, service_account, rest = user.partition("system:serviceaccount:")
    namespace, colon, _ = rest.partition(":")
    return f"{service_account}{namespace}:*" if service_account and colon and not prefix else user


def processor_time() -> float:
    """Seconds for which this process has used a processor or waited for one, while others used it.

    So a share of it is a part of the machine while that is idle, and far less of it while the leader needs it.
    """
    try:
        waited = int(_SCHEDULED.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # this kernel does not say
        waited = 0.0
    return process_time() + waited


class ProcessorShare:
    """Keeps this process within a part of a processor, on average."""

    def __init__(
        self,
        share: float,
        saved: float,
        *,
        now: Callable[[], float] = monotonic,
        used: Callable[[], float] = processor_time,
    ) -> None:
        """``share``: of one processor. ``saved``: seconds of processor time that may be used at once after a pause.
        ``now`` and ``used``: seconds, of the clock and of ``processor_time``."""
        self._share = share
        self._saved = saved
        self._now = now
        self._used = used
        self._left = saved
        self._looked = (now(), used())

    @classmethod
    def of_machine(cls) -> "ProcessorShare":
        """The share of answers to users, at most one processor. The limit of a container is not asked for: the kernel
        holds that."""
        return cls(min(1.0, _PART * len(os.sched_getaffinity(0))), _SAVED)

    def pause(self) -> float:
        """Seconds until something may begin; 0: now."""
        now, used = self._now(), self._used()
        gained, spent = self._share * (now - self._looked[0]), used - self._looked[1]
        left, self._looked = self._left + gained - spent, (now, used)
        self._left = max(-_LONGEST_PAUSE * self._share, min(self._saved, left))
        return max(0.0, -self._left / self._share)


class Gate:
    """Lets requests in, a few at a time. One user cannot take it all."""

    def __init__(self, limits: RequestLimits, share: ProcessorShare | None = None) -> None:
        self._limits = limits
        self._share = share
        self._free = asyncio.Semaphore(limits.at_once)
        self._waiting = 0
        self._held = 0
        self._of: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def entered(self, user: Hashable) -> AsyncIterator[None]:
        """A place inside for the length of the block. Raises TooBusy."""
        if self._of[user] >= self._limits.of_one:
            await self._refuse("From this user")
        kept = self._limits.newcomers if self._of[user] else 0
        is_full = self._free.locked() or (kept and self._of.total() >= self._limits.at_once - kept)
        if is_full and self._waiting >= self._limits.waiting:
            await self._refuse("From all users")
        self._of[user] += 1
        try:
            await self._wait()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._of[user] -= 1
            if not self._of[user]:
                del self._of[user]

    async def _refuse(self, who: str) -> NoReturn:
        if self._held < self._limits.held:
            self._held += 1
            try:
                await asyncio.sleep(self._limits.held_back)
            finally:
                self._held -= 1
        raise TooBusy(who=who)

    async def _wait(self) -> None:
        self._waiting += 1
        has_place = False
        try:
            async with asyncio.timeout(self._limits.patience):
                await self._free.acquire()
                has_place = True
                await self._be_within_share()
        except TimeoutError:
            raise ShareUsed if has_place else TooBusy(who="From all users") from None
        finally:
            self._waiting -= 1

    async def _be_within_share(self) -> None:
        try:
            if self._share is not None and (pause := self._share.pause()):
                await asyncio.sleep(pause)
        except asyncio.CancelledError:
            self._free.release()
            raise
