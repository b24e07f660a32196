"""The child process in which turns are decided while queues are served by plug-ins of others, and only then.

A call that never returns ends with its process. The parent keeps the lease, the world and the database; the child has
what it is handed, and the memo of the turn before. Both see what the child is busy with: in a page of memory that it
writes and the parent reads.
"""

import mmap
import os
import pickle
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from struct import Struct
from typing import IO, Final, NamedTuple
from weakref import finalize

import msgspec

from admission.containment.shared_objects import Receiver, Sender
from admission.engine.decide import Memo, decide
from admission.engine.plan_limit import Progress
from admission.engine.snapshot import Snapshot
from queues.errors import MusterError
from queues.plan import Plan
from queues.plugins import guard
from queues.plugins.guard import AskedPolicy, PluginFault
from queues.workload import WorkloadKey

_LENGTH: Final = Struct(">Q")
#: Bytes of the page.
_PAGE: Final = 4096
#: Of Linux: the signal that a process gets when its parent ends.
_DEATH_SIGNAL: Final = 1


class ChildFailed(MusterError):
    """The process that decides while queues have plug-ins could not decide: {found}."""


class ChildEnded(ChildFailed):
    """The process that decides while queues have plug-ins has ended: {found}. The next decision starts it again."""


class Busy(NamedTuple):
    """What a decision is busy with."""

    #: The workload that is being tried; None if none is.
    workload: WorkloadKey | None = None
    #: The plug-in that is being asked; None if none is.
    asked: AskedPolicy | None = None


class _Page:
    """What the child is busy with, as both processes see it."""

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, _PAGE)

    def write(self, busy: Busy) -> None:
        text = msgspec.json.encode(busy)
        if len(text) <= _PAGE - _LENGTH.size:
            self._memory[: _LENGTH.size + len(text)] = _LENGTH.pack(len(text)) + text

    def read(self) -> Busy:
        """Nothing where the child is just writing."""
        with suppress(msgspec.MsgspecError, ValueError):
            (length,) = _LENGTH.unpack(self._memory[: _LENGTH.size])
            if 0 < length <= _PAGE - _LENGTH.size:
                text = self._memory[_LENGTH.size : _LENGTH.size + length]
                return msgspec.json.decode(text, type=Busy)
        return Busy()


class DecisionChild:
    """The child process as its parent sees it. Its methods block."""

    def __init__(self) -> None:
        page = os.memfd_create("muster-decision")
        try:
            os.truncate(page, _PAGE)
            self._page = _Page(page)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(page)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[page],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        finally:
            os.close(page)
        self._sender = Sender()
        finalize(self, self._process.kill)

    def decide(self, snapshot: Snapshot, limit: int) -> tuple[Plan, Memo]:
        """As the engine's ``decide``; the memo has all but what only the child needs.

        Raises PluginFault, ChildFailed for an error of the engine, or ChildEnded.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, self._sender.dump((replace(snapshot, tree=None), limit)))
            answer = _receive(self._process.stdout)
        except (OSError, ValueError) as error:  # the pipe is broken, or was closed
            raise ChildEnded(found=str(error)) from error
        if answer is None:
            code = self._process.wait()
            if (asked := self.busy().asked) is not None:
                raise asked.fault(f"ended the process that decides (exit code {code})")
            raise ChildEnded(found=f"exit code {code}")
        found = pickle.loads(answer)
        if isinstance(found, PluginFault):
            raise found
        if isinstance(found, str):
            raise ChildFailed(found=found)
        plan, memo = found
        return plan, memo

    def busy(self) -> Busy:
        """What it is busy with now."""
        return self._page.read()

    def is_alive(self) -> bool:
        """Whether it can decide more."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not written yet is not
                    pipe.close()


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """A message; None if the other side has closed the pipe."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


# ── in the child ────────────────────────────────────────────────────────────────────────────────────────────


class _Noted(Progress):
    """Progress that both processes see."""

    def __init__(self, page: _Page) -> None:
        self._page, self._busy = page, Busy()

    @property
    def workload(self) -> WorkloadKey | None:
        """As ``Progress``."""
        return self._busy.workload

    @workload.setter
    def workload(self, key: WorkloadKey | None) -> None:
        self._note(self._busy._replace(workload=key))

    def asking(self, asked: AskedPolicy | None) -> None:
        """A plug-in is being asked; None: it has answered."""
        self._note(self._busy._replace(asked=asked))

    def _note(self, busy: Busy) -> None:
        self._busy = busy
        self._page.write(busy)


def main() -> None:
    """Decide what comes in, until the pipe is closed."""
    with suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    into, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    page, receiver, memo = _Page(int(sys.argv[1])), Receiver(), Memo()
    while (message := _receive(into)) is not None:
        snapshot, limit = receiver.load(message)
        progress = _Noted(page)
        guard.observers[:] = [progress.asking]
        try:
            plan, memo = decide(snapshot, memo, limit, progress=progress)
            answer = pickle.dumps(_answer(plan, memo), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            if not isinstance(error, PluginFault):
                traceback.print_exc()
            memo = Memo()
            answer = pickle.dumps(_sent(error), pickle.HIGHEST_PROTOCOL)
        _send(out, answer)


def _answer(plan: Plan, memo: Memo) -> tuple[Plan, Memo]:
    """What the parent needs: not what the next decision here begins with."""
    plan = replace(plan, reasons=dict(plan.reasons))
    return plan, Memo(plan=plan, until=memo.until, tree=memo.tree, usage=memo.usage)


def _sent(error: Exception) -> PluginFault | str:
    """The error as the parent gets it. Not every one can be handed over."""
    return error if isinstance(error, PluginFault) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
