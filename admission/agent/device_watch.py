"""The devices of one vendor: read again and again, with a wait for events between two readings.

A call into a library may hang for ever; its thread cannot be ended from outside. So no other thread waits for it: the
loop takes what it has seen last, and how long ago that was.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from admission.agent.readings import DeviceEvent, NodeReading
from admission.agent.vendors.vendor import Vendor, VendorAbsent, VendorFailed

logger = logging.getLogger(__name__)

#: Seconds between two looks for a library that is not there.
_ABSENT: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of the devices of one vendor."""

    vendor: str
    #: The last reading. None if the vendor has no devices here, or has not answered yet.
    reading: NodeReading | None = None
    #: Number of that reading, from 1; 0: there was none.
    number: int = 0
    #: Events since the last call.
    events: tuple[DeviceEvent, ...] = ()
    #: Seconds since the vendor answered last, or since the start.
    silent: float = 0.0
    #: Seconds since the start while there was no reading; that the library is not there is none, for its driver may
    #: still be starting. 0: there was one.
    unread: float = 0.0
    #: Seconds that the last reading took.
    took: float = 0.0
    #: Seconds since the last reading began.
    age: float = 0.0
    #: Why there is no library, driver or device, at the last look; "": there is.
    absent: str = ""

    @property
    def answered(self) -> bool:
        """Whether the vendor has said at least once which devices there are, or that there are none."""
        return self.number > 0 or bool(self.absent)


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
        self._failed = ""
        self._seen = Seen(vendor=name)
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

    def run(self, stop: threading.Event) -> None:
        """Read and wait until ``stop``."""
        while not stop.is_set():
            pause = self.read()
            self._changed()
            self.wait(pause, stop)

    def read(self) -> float:
        """Read once; seconds until the next reading. Any failure of the library is logged once and tried again."""
        began = self._clock()
        try:
            reading = self._library.read()
        except VendorAbsent as absent:
            if not self._seen.answered or self._seen.reading is not None:
                logger.info("%s Looked for again every %.0f s.", absent, _ABSENT)
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
        if self._is_recovered():
            # Hold nothing until the next reading: a device that is held cannot be reset.
            self._library.close()
        return self._poll_seconds

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until the next reading is due, or an event has come: then the devices are read at once."""
        due = self._clock() + seconds
        try:
            events = self._library.wait(seconds)
        except Exception:
            logger.exception("waiting for events of %s failed", self.vendor)
            events = ()
        if events:
            self.happened(events)
        else:
            stop.wait(due - self._clock())

    def happened(self, events: tuple[DeviceEvent, ...]) -> None:
        """Keep events. The next reading may hang because of them, so the loop takes them before it."""
        with self._lock:
            self._seen = replace(self._seen, events=(*self._seen.events, *events))
        self._changed()

    def _answered(self, reading: NodeReading | None, took: float, absent: str = "") -> None:
        with self._lock:
            number = self._seen.number + (reading is not None)
            self._seen = replace(self._seen, reading=reading, number=number, took=took, absent=absent)
            self._answered_at = self._clock()
            self._read_at = self._answered_at - took

    def _tell_failure(self, told: str, *, exc_info: bool = False) -> None:
        if told != self._failed:
            logger.error("%s", told, exc_info=exc_info)
        self._failed = told
