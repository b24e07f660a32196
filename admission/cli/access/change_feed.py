"""Reports when something has changed: by the read API's stream of events, else every few seconds.

One stream serves all listeners. There is none while there are no listeners.
"""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from admission.cli.access.requests import PREFIX, Route, stream
from queues.errors import MusterError

#: The read API says at least every fifteen seconds that a stream is there.
_SILENCE: Final = 40.0
#: Seconds between two changes that are reported where there is no stream, and after which a stream is tried again.
_POLLED: Final = 2.0
_AGAIN: Final = 30.0


@dataclass(slots=True)
class Listener:
    """One listener to changes."""

    _heard: threading.Event

    def wait(self, seconds: float) -> bool:
        """Whether something has changed since the last time, or does in that time."""
        changed = self._heard.wait(seconds)
        self._heard.clear()
        return changed


class ChangeFeed:
    """The changes that are reported to one user."""

    def __init__(self, route: Route, *, polled: float = _POLLED, again: float = _AGAIN) -> None:
        self._route = route
        self._polled = polled
        self._again = again
        self._lock = threading.Lock()
        self._listeners: list[threading.Event] = []
        #: Set when the thread that listens has to end.
        self._over: threading.Event | None = None

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Changes from now on."""
        heard = threading.Event()
        with self._lock:
            self._listeners.append(heard)
            if self._over is None:
                self._over = threading.Event()
                threading.Thread(target=self._run, args=(self._over,), daemon=True).start()
        try:
            yield Listener(heard)
        finally:
            with self._lock:
                self._listeners.remove(heard)
                if not self._listeners and self._over is not None:
                    self._over.set()
                    self._over = None

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            if self._follow(over):
                continue  # it ended in order: at once again
            rounds = max(1, round(self._again / self._polled))
            for _ in range(rounds):
                self._tell()
                if over.wait(self._polled):
                    return

    def _follow(self, over: threading.Event) -> bool:
        """Pass the events of a stream on until it ends. False: there was none, or it broke off."""
        try:
            access = self._route.to_muster()
            with stream(access, f"{PREFIX}changes?watch=true", timeout=_SILENCE) as answer:
                if answer.status != http.client.OK:
                    return False
                while line := answer.readline():
                    if over.is_set():
                        return True
                    if line.startswith(b"event: change"):
                        self._tell()
                return True
        except (OSError, http.client.HTTPException, MusterError):
            return False

    def _tell(self) -> None:
        with self._lock:
            for heard in self._listeners:
                heard.set()
