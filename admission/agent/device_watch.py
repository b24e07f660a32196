"""The devices of one vendor: read again and again by one thread, while another one waits for events.

A call into a library may hang for ever; such a thread cannot be ended from outside. So no other thread waits for
these two: the loop takes what they have seen last, and how long ago that was.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from admission.agent.readings import DeviceEvent, NodeReading, Telemetry
from admission.agent.vendors.vendor import HoldsDriver, Vendor, VendorAbsent, VendorFailed

logger = logging.getLogger(__name__)

#: Seconds between two looks for a library that is not there.
_ABSENT: Final = 60.0
#: Seconds that one wait for events lasts, and the pause after one that failed.
_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of the devices of one vendor."""

    vendor: str
    #: Whether the vendor has answered, at least once, which devices there are, or that there are none.
    answered: bool
    #: The last reading. None if the vendor has no devices here, or has not answered yet.
    reading: NodeReading | None
    #: Number of that reading, from 1; 0: there is none.
    number: int
    #: Events since the last call.
    events: tuple[DeviceEvent, ...] = ()
    #: Seconds since the vendor answered last, or since the start.
    silent: float
    #: Seconds since the start while there was no reading; that the library is not there is none, for its driver may
    #: still be starting. 0: there was one.
    unread: float = 0.0
    #: Seconds that the last reading took.
    took: float
    #: Seconds since the last reading began.
    age: float = 0.0
    #: Why there is no library, driver or device, at the last look; "": there is.
    absent: str = ""


class DeviceWatch:
    """Reads the devices of one vendor, and waits for their events. ``changed`` is called when there is anything new."""

    def __init__(
        self,
        name: str,
        vendor: Vendor,
        *,
        poll_seconds: float,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        is_recovered: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_recovered``: the node is being recovered, so that others may have to reset devices."""
        self.vendor = name
        self._library = vendor
        self._poll_seconds = poll_seconds
        self._changed = changed
        self._clock = clock
        self._is_recovered = is_recovered
        self._lock = threading.Lock()
        self._read_now = threading.Event()
        self._present = threading.Event()
        self._failed = ""
        self._seen = Seen(vendor=name, answered=False, reading=None, number=0, silent=0.0, took=0.0)
        self._began_at = self._answered_at = self._read_at = clock()

    def take(self) -> Seen:
        """What was seen last, with the events since the last call. Never waits for the library."""
        with self._lock:
            now = self._clock()
            unread = 0.0 if self._seen.number else now - self._began_at
            taken = replace(
                self._seen, silent=now - self._answered_at, unread=unread, age=now - self._read_at
            )
            self._seen = replace(self._seen, events=())
        return taken

    def threads(self, stop: threading.Event) -> list[threading.Thread]:
        """The two threads, not started. They do not keep the process from ending."""
        loops = ((self._read_until, "reads"), (self._wait_until, "waits"))
        return [
            threading.Thread(target=loop, args=(stop,), name=f"{self.vendor} {what}", daemon=True)
            for loop, what in loops
        ]

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._read_now.clear()
            pause = self.read()
            self._changed()
            self._read_now.wait(pause)

    def read(self) -> float:
        """Read once; seconds until the next reading. Any failure of the library is logged once and tried again."""
        began = self._clock()
        try:
            reading = self._library.read()
        except VendorAbsent as absent:
            if not self._seen.answered or self._seen.reading is not None:
                logger.info("%s Looked for again every %.0f s.", absent, _ABSENT)
            self._present.clear()
            self._answered(None, self._clock() - began, absent=str(absent))
            return _ABSENT
        except VendorFailed as failed:
            self._tell_failure(str(failed))
            return self._poll_seconds
        except Exception:
            self._tell_failure(f"reading the devices of {self.vendor} failed", exc_info=True)
            return self._poll_seconds
        if self._failed:
            logger.info("%s answers again", self.vendor)
        self._failed = ""
        self._answered(reading, self._clock() - began)
        self._present.set()
        if self._is_recovered():
            self._let_go()
        return self._poll_seconds

    def _let_go(self) -> None:
        """Hold nothing until the next reading: a device that is held cannot be reset. Events come no more meanwhile."""
        if not isinstance(self._library, HoldsDriver):
            return
        try:
            self._library.close()
        except VendorFailed as failed:
            self._tell_failure(str(failed))

    def _answered(self, reading: NodeReading | None, took: float, absent: str = "") -> None:
        with self._lock:
            number = self._seen.number + (reading is not None)
            self._seen = replace(
                self._seen, answered=True, reading=reading, number=number, took=took, absent=absent
            )
            self._answered_at = self._clock()
            self._read_at = self._answered_at - took

    def _tell_failure(self, told: str, *, exc_info: bool = False) -> None:
        if told != self._failed:
            logger.error("%s", told, exc_info=exc_info)
        self._failed = told

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _wait_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if not self._present.wait(_WAIT):
                continue
            try:
                events = self._library.wait(_WAIT)
            except VendorFailed:  # the next reading shows it
                stop.wait(_WAIT)
                continue
            except Exception:
                logger.exception("waiting for events of %s failed", self.vendor)
                stop.wait(_WAIT)
                continue
            if events:
                self.happened(events)

    def happened(self, events: tuple[DeviceEvent, ...]) -> None:
        """Keep events, and have the devices read at once. The reading may hang because of them, so they go first."""
        with self._lock:
            self._seen = replace(self._seen, events=(*self._seen.events, *events))
        self._changed()
        self._read_now.set()

    def wake(self) -> None:
        """Have the threads look at once whether they are to stop."""
        self._read_now.set()
        self._present.set()


def not_answering(reading: NodeReading) -> NodeReading:
    """A reading whose devices all count as lost: the library does not answer any more."""
    return replace(
        reading,
        devices=tuple(
            replace(device, lost=True, processes=(), telemetry=Telemetry()) for device in reading.devices
        ),
    )
