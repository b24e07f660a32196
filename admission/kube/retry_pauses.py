"""Objects that are left alone for a while because something failed with them, so that they slow no others down."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from admission.kube.writers.work_queue import pause_after
from queues.errors import Fenced, MusterError

_log = logging.getLogger(__name__)

#: Seconds of the first pause, and of the longest.
_FIRST_PAUSE: Final = 1
_LONGEST_PAUSE: Final = 60
#: Characters of an error that are logged: users may have written parts of it.
_LONGEST_TEXT: Final = 500
#: From so many entries on, those that are over are forgotten.
_FEW: Final = 64


class RetryPauses:
    """Nodes or objects, by name, that wait for their next try."""

    def __init__(self, what: str) -> None:
        """``what``: is put off, as the log says it."""
        self._what = what
        #: Until when, how often it failed before, and the error that was logged last.
        self._paused: dict[str, tuple[float, int, str]] = {}
        self._most = _FEW

    def holds(self, name: str, now: int) -> bool:
        """Whether it still waits."""
        return name in self._paused and self._paused[name][0] > now

    def failed(self, name: str, error: Exception | str, now: int) -> None:
        """It waits from now on. The log has an error once, until another one comes or a try succeeds."""
        self._forget(now)
        until, failures, told = self._paused.get(name, (0, 0, ""))
        if until + _LONGEST_PAUSE < now:  # that was another time
            failures, told = 0, ""
        expected = isinstance(error, MusterError | str)
        text = (str(error) if expected else f"{type(error).__name__}: {error}")[:_LONGEST_TEXT]
        pause = pause_after(failures, _LONGEST_PAUSE, _FIRST_PAUSE)
        self._paused[name] = (now + pause, failures + 1, text)
        if text != told:
            _log.warning(f"{self._what} put off", extra={"object": name, "why": text}, exc_info=not expected)

    async def contain(
        self,
        name: str,
        now: int,
        work: Callable[[], Awaitable[None]],
        explained: Callable[[Exception], Exception | str] = lambda error: error,
    ) -> None:
        """Do what is due; what fails is put off and ends no term. ``explained``: an error as it is logged.

        Raises Fenced.
        """
        if self.holds(name, now):
            return
        try:
            await work()
        except Fenced:
            raise
        except Exception as error:
            self.failed(name, explained(error), now)
        else:
            self.succeeded(name)

    def _forget(self, now: int) -> None:
        """Forget what was not tried for a while. Seldom, since this takes time for each entry."""
        if len(self._paused) >= self._most:
            self._paused = {
                name: known for name, known in self._paused.items() if known[0] + _LONGEST_PAUSE >= now
            }
            self._most = max(_FEW, 2 * len(self._paused))

    def succeeded(self, name: str) -> None:
        """A try went well: the next pause is a short one again."""
        self._paused.pop(name, None)
