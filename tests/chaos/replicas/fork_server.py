"""Starts replicas in milliseconds: a process that has imported all of Muster, without loops or threads, forks itself.

Replicas are processes of their own in every way: they can be killed, stopped and continued. The server talks JSON lines
over a socket; a replica that ends is noticed by its pidfd.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from queues.sql.embedded.supervisor import when_parent_dies
from tests.chaos.objectives.turns import path_of, record
from tests.chaos.replicas.clock import Clocks

#: Machines with a clock of their own.
MACHINES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One replica to be started."""

    #: Index of its machine.
    machine: int
    #: Its log, JSON lines; appended to.
    log: str
    #: Variables that it starts with, beside those of this process.
    environment: Mapping[str, str]


class ForkServer:
    """The parent of all replicas."""

    def __init__(self) -> None:
        """Fork the server. Call it before there is a loop or a thread."""
        self.clocks = Clocks(MACHINES)
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _serve(theirs, self.clocks)
        theirs.close()
        self._socket = ours
        self._file = ours.makefile("rw")

    def start(self, order: Order) -> int:
        """Start a replica; its pid."""
        content = {"machine": order.machine, "log": order.log, "environment": dict(order.environment)}
        self._file.write(json.dumps(content) + "\n")
        self._file.flush()
        return int(self._file.readline())

    def stop(self) -> None:
        """End it; replicas that still run end with it."""
        self._file.close()
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _serve(channel: socket.socket, clocks: Clocks) -> NoReturn:
    """The life of the server."""
    when_parent_dies(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up()
    with channel.makefile("rw") as file:
        for line in file:
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                channel.close()
                _be_replica(order, clocks)
            file.write(f"{pid}\n")
            file.flush()
            _reap()
    _reap()
    os._exit(0)


def _reap() -> None:
    """Forget the replicas that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _warm_up() -> None:
    """Import and compute what every replica needs."""
    from alembic import command, script  # noqa: F401

    from admission import controller  # noqa: F401
    from admission.replay.fingerprint import fingerprint
    from queues.sql.revisions import known_revisions
    from tests.chaos import planted_bugs
    from tests.chaos.replicas import short_times

    fingerprint()
    known_revisions()
    short_times.shorten()
    if bug := os.environ.get(planted_bugs.VARIABLE):
        planted_bugs.plant(bug)
    # What is imported stays in memory that all replicas share.
    gc.collect()
    gc.freeze()


def _be_replica(order: Mapping[str, object], clocks: Clocks) -> NoReturn:
    """Run one replica in this process, and end with it."""
    status = 1
    try:
        when_parent_dies(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        log = os.open(str(order["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {name: str(value) for name, value in dict(order["environment"]).items()}  # type: ignore[call-overload]
        machine = int(str(order["machine"]))
        clocks.use(machine)
        record(path_of(Path(str(order["log"]))))
        status = _run(lambda: clocks.is_calm(machine))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(is_calm: Callable[[], bool]) -> int:
    import asyncio

    from admission import controller, garbage_collection, logs, settings

    found = settings.read()
    logs.configure(form="json", level="info")
    # The read API and the webhook are processes of their own, and write nothing that the ring reads.
    controller.Controller._serving = lambda *_, **__: {}  # type: ignore[method-assign]
    # A whole collection would visit, and so copy, what was frozen before the fork.
    garbage_collection.collect_all = lambda: None
    armed = controller.armed

    def armed_until_calm(text: str | None) -> Callable[[str], None]:
        strike = armed(text)
        return lambda point: None if is_calm() else strike(point)

    controller.armed = armed_until_calm
    return asyncio.run(controller.run(found))
