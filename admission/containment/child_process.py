"""What the child processes have in common in which plug-ins are asked: a call that never returns ends with its process.

Parent and child both see what the child is busy with: in a page of memory that it writes and the parent reads.
"""

import ctypes
import gc
import mmap
import os
import pickle
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import IO, Final, NamedTuple, NoReturn, TypeVar

import msgspec

from admission.engine.plan_limit import Progress
from queues.errors import MusterError
from queues.plugins import guard
from queues.plugins.guard import AskedPolicy, PluginFault
from queues.plugins.registry import plugins
from queues.workload import WorkloadKey

T = TypeVar("T")
_LENGTH: Final = Struct(">Q")
#: Bytes of the page.
_PAGE: Final = 4096
#: Of Linux: the signal that a process gets when its parent ends.
_DEATH_SIGNAL: Final = 1


class ChildFailed(MusterError):
    """The process that asks plug-ins has failed: {found}."""


class ChildEnded(ChildFailed):
    """The process that asks plug-ins has ended: {found}. The next question starts it again."""


class Busy(NamedTuple):
    """What a child is busy with."""

    #: The workload that is being tried; None if none is.
    workload: WorkloadKey | None = None
    #: The plug-in that is being asked; None if none is.
    asked: AskedPolicy | None = None


class BusyPage:
    """What the child is busy with, as both processes see it."""

    def __init__(self, file: int = -1) -> None:
        """``file``: a file of a page's size; -1 for memory that a fork shares."""
        self._memory = mmap.mmap(file, _PAGE)

    @staticmethod
    def file() -> int:
        """A new file for a page, which another process can open."""
        file = os.memfd_create("muster-child")
        os.truncate(file, _PAGE)
        return file

    def write(self, busy: Busy) -> None:
        """In the child. What is too large for the page is not seen."""
        text = msgspec.json.encode(busy)
        if len(text) <= _PAGE - _LENGTH.size:
            self._memory[: _LENGTH.size + len(text)] = _LENGTH.pack(len(text)) + text

    def clear(self) -> None:
        """Nothing is known of the child until it writes."""
        self._memory[: _LENGTH.size] = _LENGTH.pack(0)

    def read(self) -> Busy | None:
        """None if the child has not begun, or is just writing."""
        (length,) = _LENGTH.unpack(self._memory[: _LENGTH.size])
        if 0 < length <= _PAGE - _LENGTH.size:
            with suppress(msgspec.MsgspecError, ValueError):
                return msgspec.json.decode(self._memory[_LENGTH.size : _LENGTH.size + length], type=Busy)
        return None

    def asked(self) -> AskedPolicy | None:
        """The plug-in that is being asked; None if none is."""
        busy = self.read()
        return None if busy is None else busy.asked


class NotedProgress(Progress):
    """Progress of a decision in the child, with the plug-in that is being asked, which both processes see."""

    def __init__(self, page: BusyPage) -> None:
        self._page = page
        self._note(Busy())
        guard.observers[:] = [self._asking]

    @property
    def workload(self) -> WorkloadKey | None:
        """As ``Progress``."""
        return self._busy.workload

    @workload.setter
    def workload(self, key: WorkloadKey | None) -> None:
        self._note(self._busy._replace(workload=key))

    def _asking(self, asked: AskedPolicy | None, _: object) -> None:
        self._note(self._busy._replace(asked=asked))

    def _note(self, busy: Busy) -> None:
        self._busy = busy
        self._page.write(busy)


def send(pipe: IO[bytes], message: bytes) -> None:
    """A message, whole."""
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """A message; None if the other side has closed the pipe."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


def end_with_parent() -> None:
    """In the child: it ends when its parent does, and is not interrupted by keys that are pressed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def handed_over(error: Exception) -> PluginFault | str:
    """An error, for the other process: not every one can be handed over."""
    return error if isinstance(error, PluginFault) else f"{type(error).__name__}: {error}"


def has_plugins() -> bool:
    """Whether a plug-in may be asked in this process."""
    return any(each.policy is not None for each in plugins())


def contained(function: Callable[[], T], seconds: float) -> Callable[[], T]:
    """The function; while this process has plug-ins, run in a child process, for so many seconds at most."""
    return partial(in_child, function, seconds) if has_plugins() else function


def in_child(function: Callable[[], T], seconds: float) -> T:
    """What a pure function returns, worked out in a fork of this process. Blocks.

    Raises PluginFault if a plug-in fails, or is being asked when the time is over or the child ends; else ChildFailed
    or ChildEnded.
    """
    page, (into, out) = BusyPage(), os.pipe()
    child = os.fork()
    if child == 0:
        _answer(function, page, out)
    os.close(out)
    try:
        with open(into, "rb") as pipe:
            ready = select.poll()
            ready.register(pipe, select.POLLIN)
            in_time = bool(ready.poll(seconds * 1000))
            answer = receive(pipe) if in_time else None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if answer is None:
        if (asked := page.asked()) is not None:
            raise asked.fault(
                "ended the process that asks it" if in_time else f"did not answer for {seconds:g} s"
            )
        raise ChildEnded(
            found="it gave no answer" if in_time else f"there was no answer within {seconds:g} s"
        )
    is_result, found = pickle.loads(answer)
    if is_result:
        result: T = found
        return result
    raise found if isinstance(found, PluginFault) else ChildFailed(found=found)


def _answer(function: Callable[[], object], page: BusyPage, out: int) -> NoReturn:
    """In the fork. Threads of the parent, what it has open and what ends with it are none of the child's business."""
    try:
        end_with_parent()
        signal.set_wakeup_fd(-1)
        for file in map(int, os.listdir("/proc/self/fd")):
            if file > 2 and file != out:  # all but the standard streams and the answer
                with suppress(OSError):  # the list itself
                    os.close(file)
        gc.freeze()
        NotedProgress(page)
        try:
            answer = pickle.dumps((True, function()), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            answer = pickle.dumps((False, handed_over(error)), pickle.HIGHEST_PROTOCOL)
        with open(out, "wb") as pipe:
            send(pipe, answer)
    finally:
        os._exit(0)
