"""Child processes that never outlive this one, whatever ends it, from whichever thread they are started."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from queues.errors import MusterError
from queues.sql.embedded import supervisor

#: How much longer than a child's grace its supervisor may need.
MARGIN = 5.0


class ProcessDidNotStart(MusterError):
    """{program} could not be started: {reason}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, and how it wants to be ended."""

    argv: Sequence[str | Path]
    #: Where its output goes; appended to.
    log: Path
    cwd: Path
    env: Mapping[str, str] | None = None
    #: (uid, gid) to run as; only root can ask for that.
    user: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    #: Sent by the kernel should the supervisor itself be killed.
    orphan_signal: signal.Signals = signal.SIGKILL
    #: Seconds between the stop signal and SIGKILL. Fewer when we have died: ``supervisor.ORPHAN_GRACE``.
    grace: float = 10.0
    #: A lock that stays held until the program has ended, even if we end first.
    lock: int | None = None


class SupervisedProcess:
    """A running program and its supervisor (``supervisor.py`` says why there is one)."""

    def __init__(self, program: Program, process: "subprocess.Popen[bytes]", pid: int) -> None:
        self.program = program
        #: Of the program, not of its supervisor.
        self.pid = pid
        self._supervisor = process

    @classmethod
    def start(cls, program: Program) -> "SupervisedProcess":
        """Start a program. Returns when it has been executed, which is not yet when it is ready."""
        argv = [os.fspath(part) for part in program.argv]
        order = {
            "argv": argv,
            "cwd": os.fspath(program.cwd),
            "user": program.user,
            "stop_signal": int(program.stop_signal),
            "orphan_signal": int(program.orphan_signal),
            "grace": program.grace,
            "parent": os.getpid(),
        }
        with program.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=None if program.env is None else dict(program.env),
                pass_fds=() if program.lock is None else (program.lock,),
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            word, _, rest = process.stdout.readline().decode().strip().partition(" ")
        if word != "pid":
            _end(process)
            raise ProcessDidNotStart(
                program=argv[0], reason=rest or "its supervisor failed, see " + str(program.log)
            )
        return cls(program, process, int(rest))

    @property
    def returncode(self) -> int | None:
        """None while it runs; 128 + n when signal n ended it."""
        return self._supervisor.poll()

    @property
    def running(self) -> bool:
        """Whether the program, or its supervisor on its behalf, is still there."""
        return self.returncode is None

    def wait(self, patience: float) -> bool:
        """Wait for its own end; false if it still runs after ``patience`` seconds."""
        try:
            self._supervisor.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def send(self, number: signal.Signals) -> None:
        """Send the program a signal, if it is still there."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self) -> None:
        """End it politely, then by force. Does nothing when it has ended already."""
        _end(self._supervisor, self.program.grace + MARGIN)
        self._reap_orphan()

    def kill9(self) -> None:
        """End it as a crash would: SIGKILL, no warning."""
        self.send(signal.SIGKILL)
        _end(self._supervisor, MARGIN)

    def _reap_orphan(self) -> None:
        if self._supervisor.returncode is not None and self._supervisor.returncode < 0:
            # The parent-death signal may have been faster, or Postgres may be shutting down: then let it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


def _end(process: "subprocess.Popen[bytes]", patience: float = MARGIN) -> None:
    """Let a supervisor finish: the end of its input is the order to stop."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def hold_lock(path: Path, patience: float) -> int | None:
    """Lock a file, for ``Program.lock`` or for as long as it is open.

    Waits up to ``patience`` seconds for the end of a holder that was just killed. None if the file stays locked.
    """
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(file)
                return None
            time.sleep(0.02)
        else:
            return file
