"""Processes and files of a run, and how both are removed however the run ends.

Processes are ``queues.sql.embedded.supervised``: each has a supervisor that ends it when this process ends. A
supervisor also holds the lock of the run's directory, so a free lock means that no process of that run is alive,
and the directory can be removed.
"""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from queues.errors import MusterError
from queues.sql.embedded.programs import own_folder
from queues.sql.embedded.supervised import hold_lock
from queues.sql.embedded.supervisor import when_parent_dies

LOCK = "lock"
#: Ports for servers, from and up to: below those that Linux gives to outgoing connections.
_PORTS: Final = (15_000, 32_000)
_ports: Final = secrets.SystemRandom()


class DirectoryInUse(MusterError):
    """{directory} belongs to another running process. Stop that one, or name another directory."""


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """End this process when the make that started it ends. For the main thread of a program.

    Only under make: a program started by hand may have to outlive its shell.
    """
    if "MAKELEVEL" not in os.environ:
        return
    parent = os.getppid()
    when_parent_dies(number)
    if os.getppid() != parent:  # it ended before the call above
        os.kill(os.getpid(), number)


def free_port() -> int:
    """A free TCP port. A stopped API server takes seconds to release its own.

    It is not among those that the kernel gives to outgoing connections: one of these could have it before its server.
    """
    while True:
        port = _ports.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class StateDirectory:
    """A directory that one process owns at a time, for as long as it or anything that it started lives."""

    def __init__(self, path: Path, lock: int, *, temporary: bool) -> None:
        self.path = path
        self.temporary = temporary
        self._lock: int | None = lock

    @classmethod
    def named(cls, path: Path, *, patience: float = 10.0) -> "StateDirectory":
        """A directory that stays. Waits a little for the end of a previous owner that was just killed."""
        path = path.resolve()
        path.mkdir(parents=True, exist_ok=True)
        lock = hold_lock(path / LOCK, patience)
        if lock is None:
            raise DirectoryInUse(directory=path)
        return cls(path, lock, temporary=False)

    @classmethod
    def fresh(cls, runs: Path | None = None) -> "StateDirectory":
        """A directory for this run only; what killed runs left behind is removed first."""
        runs = runs or default_runs()
        with _sweeping(runs):
            for old in runs.iterdir():
                if old.is_dir():
                    _remove_if_stale(old)
            # Names are short: sockets live in here, and their paths are limited to 107 bytes.
            path = runs / secrets.token_hex(4)
            # Other users may pass through but not list it: some servers must not run as root.
            path.mkdir(mode=0o711)
            lock = hold_lock(path / LOCK, 0)
        assert lock is not None, "no other process knows this name yet"
        return cls(path, lock, temporary=True)

    @property
    def lock(self) -> int:
        """For ``Program.lock``: held until the program has ended."""
        assert self._lock is not None, "the directory was given up"
        return self._lock

    def close(self, *, keep: bool = False) -> None:
        """Release the directory; a fresh one is removed unless it is to be kept."""
        if self._lock is None:
            return
        if self.temporary and not keep:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def default_runs() -> Path:
    """The folder of fresh directories: of this user alone, with a short path."""
    return own_folder(Path(tempfile.gettempdir()) / f"muster-{os.getuid()}")


@contextmanager
def _sweeping(runs: Path) -> Iterator[None]:
    """Held while directories are made or swept: no sweep sees a directory before it is locked."""
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / ".sweep").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_if_stale(directory: Path) -> None:
    lock = hold_lock(directory / LOCK, 0)
    if lock is not None:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)
