"""Reading devices and waiting for their events, with libraries that are absent, fail, and hang."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from admission.agent.device_watch import DeviceWatch
from admission.agent.readings import DeviceEvent, DeviceReading, EventKind, NodeReading, Telemetry
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from tests.fakes.stepped_agent import ScriptedDevices, reading
from tests.waiting import LIMIT, until

XID = DeviceEvent(kind=EventKind.XID, device="GPU-0", code=79)
READING = NodeReading(
    vendor="nvidia",
    devices=(
        DeviceReading(
            id="GPU-0",
            index=0,
            model="H100",
            memory_bytes=1,
            processes=(1,),
            telemetry=Telemetry(temperature=40),
        ),
    ),
)


class _Library:
    """Does what it is told to."""

    def __init__(self) -> None:
        self.reads: Callable[[], NodeReading] = lambda: READING
        self.events: queue.Queue[DeviceEvent | Exception] = queue.Queue()
        self.readings = 0

    def read(self) -> NodeReading:
        self.readings += 1
        return self.reads()

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        try:
            found = self.events.get(timeout=LIMIT)
        except queue.Empty:
            return ()
        if isinstance(found, Exception):
            raise found
        return (found,)

    def close(self) -> None:
        """It holds nothing."""


def _fails(error: Exception) -> Callable[[], NodeReading]:
    def read() -> NodeReading:
        raise error

    return read


class _Watched:
    def __init__(self) -> None:
        self.library = _Library()
        self.now = 0.0
        self.changes = threading.Semaphore(0)
        self.watch = DeviceWatch(
            "nvidia", self.library, poll_seconds=3600, changed=self.changes.release, clock=lambda: self.now
        )
        self.stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self.watch.run, args=(self.stop,), daemon=True).start()


@pytest.fixture
def watched() -> Iterator[_Watched]:
    watched = _Watched()
    yield watched
    watched.stop.set()


def test_a_reading_is_kept_until_the_next_one_and_numbered(watched: _Watched) -> None:
    assert not watched.watch.take().answered
    assert watched.watch.read() == 3600
    watched.now = 4
    seen = watched.watch.take()
    assert (seen.reading, seen.number, seen.silent) == (READING, 1, 4)
    assert watched.watch.take().number == 1


def test_an_absent_library_is_told_once_and_looked_for_each_minute(
    watched: _Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watched.library.reads = _fails(VendorAbsent(vendor="NVIDIA", why="there is no libnvidia-ml.so.1"))
    assert [watched.watch.read() for _ in range(3)] == [60, 60, 60]
    seen = watched.watch.take()
    assert (seen.answered, seen.reading) == (True, None)
    watched.now = 90
    assert watched.watch.read() == 60
    seen = watched.watch.take()
    assert (seen.silent, seen.unread) == (0, 90), "it has told of no device since the start"
    watched.library.reads = lambda: READING
    watched.watch.read()
    assert watched.watch.take().unread == 0
    assert [record.getMessage() for record in caplog.records] == [
        "No device of NVIDIA on this node: there is no libnvidia-ml.so.1. Looked for again every 60 s."
    ]


def test_a_library_that_goes_away_leaves_no_reading(watched: _Watched) -> None:
    watched.watch.read()
    watched.library.reads = _fails(VendorAbsent(vendor="NVIDIA", why="unloaded"))
    watched.watch.read()
    assert watched.watch.take().reading is None


@pytest.mark.parametrize("error", [VendorFailed(vendor="NVIDIA", why="timeout"), RuntimeError("a fault")])
def test_a_failed_reading_leaves_the_last_one_and_is_told_once(
    watched: _Watched, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    watched.watch.read()
    watched.library.reads = _fails(error)
    watched.now = 50
    assert [watched.watch.read(), watched.watch.read()] == [3600, 3600]
    seen = watched.watch.take()
    assert (seen.reading, seen.number, seen.silent) == (READING, 1, 50)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_an_event_is_taken_once_and_has_the_devices_read_at_once(watched: _Watched) -> None:
    watched.start()
    until(lambda: watched.library.readings == 1, "the first reading")
    watched.library.events.put(XID)
    until(lambda: watched.library.readings == 2, "a reading long before its time")
    assert watched.watch.take().events == (XID,)
    assert watched.watch.take().events == ()


def test_a_wait_that_fails_lasts_until_the_next_reading(
    watched: _Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.library.events.put(RuntimeError("a fault"))
    watched.start()
    until(lambda: "waiting for events" in caplog.text, "the failure")
    assert watched.library.readings == 1


def test_an_event_is_seen_although_the_reading_that_it_causes_hangs(watched: _Watched) -> None:
    hanging, done = threading.Event(), threading.Event()

    def hang() -> NodeReading:
        hanging.set()
        done.wait(LIMIT)
        return READING

    watched.start()
    until(lambda: watched.library.readings == 1, "the first reading")
    watched.library.reads = hang
    watched.library.events.put(XID)
    assert hanging.wait(LIMIT)
    assert watched.watch.take().events == (XID,)
    done.set()


@pytest.mark.parametrize("is_recovered", [False, True])
def test_the_driver_is_let_go_between_readings_while_the_node_is_being_recovered(is_recovered: bool) -> None:
    library = ScriptedDevices(reading())
    watch = DeviceWatch(
        "nvidia", library, poll_seconds=10, changed=lambda: None, is_recovered=lambda: is_recovered
    )
    assert watch.read() == 10
    assert library.closed == is_recovered
    assert watch.take().reading == reading()
