"""NVML: loaded, started, and started again where the driver has gone away in between.

NVML counts devices once, when it starts, and its handles are worth nothing after a restart of the driver. One thread
reads, and starts and stops it; another may wait for events. A stop waits until that one has left NVML: shutting it
down under a waiting call is undefined.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Any, Final

import pynvml

from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from queues.errors import MusterError

VENDOR: Final = "nvidia"
#: Seconds in which the thread that waits for events has to leave NVML; it looks twice a second.
MOST_LEAVING: Final = 5.0

#: What NVML returns when this session is over: the driver was stopped, or started again.
_SESSION_OVER: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_DEVICE_LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND})
_NO_DRIVER: Final = frozenset({pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})


class DriverReplaced(VendorFailed):
    """The driver is another version than the library of {vendor} in this process: {why}. Restart the agent."""


class SessionOver(MusterError):
    """NVML has to be started again: {why}."""


class DeviceLost(MusterError):
    """The device does not answer: {why}."""


def asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call of NVML says. None if this device, driver or permission does not give it.

    Raises SessionOver and DeviceLost.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _SESSION_OVER:
            raise SessionOver(why=str(error)) from error
        if error.value in _DEVICE_LOST:
            raise DeviceLost(why=str(error)) from error
        return None


class Library:
    """NVML in this process. ``path``: of the library; if None, the dynamic linker searches ``libnvidia-ml.so.1``."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._preloaded: ctypes.CDLL | None = None
        self._changed = Condition()
        self._running = False
        self._stopping = False
        self._waiting = 0
        #: Grows when NVML starts and when a device comes back: from then on, register for events again.
        self.generation = 0
        #: Grows when NVML starts: handles of before are worth nothing.
        self.session = 0

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._running

    @property
    def stopping(self) -> bool:
        """Whether the thread that waits for events has to leave."""
        return self._stopping

    def start(self) -> None:
        """Start NVML where it does not run. Raises VendorAbsent (no library, no driver), VendorFailed."""
        if self._running:
            return
        self._preload()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value in _NO_DRIVER:
                raise VendorAbsent(vendor=VENDOR, why=str(error)) from error
            if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
                raise DriverReplaced(vendor=VENDOR, why=str(error)) from error
            raise VendorFailed(vendor=VENDOR, why=str(error)) from error
        with self._changed:
            self._running = True
            self.session += 1
            self.generation += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Shut NVML down, after the thread that waits for events has left it. Raises VendorFailed: it does not."""
        with self._changed:
            if not self._running:
                return
            self._stopping = True
            self._changed.notify_all()
            left = self._changed.wait_for(lambda: self._waiting == 0, timeout=MOST_LEAVING)
            self._stopping = False
            if not left:
                raise VendorFailed(vendor=VENDOR, why="the call that waits for events does not return")
            self._running = False
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # the session was over already

    def device_came_back(self) -> None:
        """A device answers again in the session that runs: events of it have to be asked for again."""
        with self._changed:
            self.generation += 1
            self._changed.notify_all()

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[bool]:
        """Hold NVML for the thread that waits for events; False: it did not start within ``seconds``."""
        with self._changed:
            runs = self._changed.wait_for(lambda: self._running and not self._stopping, timeout=seconds)
            if runs:
                self._waiting += 1
        try:
            yield runs
        finally:
            if runs:
                with self._changed:
                    self._waiting -= 1
                    self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait until the generation changes or NVML has to be left, at most ``seconds``."""
        with self._changed:
            generation = self.generation
            self._changed.wait_for(lambda: self._stopping or self.generation != generation, timeout=seconds)

    def _preload(self) -> None:
        """Load the library from its path. pynvml asks the linker for it by its name, and gets the one that is there."""
        if self._path is None or self._preloaded is not None:
            return
        try:
            self._preloaded = ctypes.CDLL(str(self._path))
        except OSError as error:
            raise VendorAbsent(vendor=VENDOR, why=str(error)) from error
