"""One replica of a run: started, killed, stopped, continued, and started again as a kubelet would."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.history import LogLine
from tests.chaos.replicas.fork_server import ForkServer, Order


@dataclass(slots=True)
class Replica:
    """A machine, and the process on it."""

    name: str
    machine: int
    server: ForkServer
    log: Path
    environment: Mapping[str, str]
    #: Failpoints by number of the start that they are for, and the seconds for which they stop the process.
    failpoints: dict[int, tuple[str, float]] = field(default_factory=dict)
    #: Called when it dies, or stops at a failpoint: with the replica's name and what happened.
    tell: Callable[[str, str, str], None] = lambda name, what, detail: None
    #: Seconds until it is started again after its death.
    back_after: float = 0.2
    starts: int = 0
    pid: int | None = None
    #: Time of the loop at which it is started again, and continued.
    _due: float = 0.0
    _continue_at: float | None = None
    _pidfd: int | None = None

    @property
    def holder(self) -> str:
        """What the process that runs now is called in the lease."""
        return f"{self.name}.{self.starts}"

    def start(self) -> None:
        self.starts += 1
        fault, _ = self.failpoints.get(self.starts, ("", 0.0))
        environment = {**self.environment, "MUSTER_IDENTITY": self.holder, "MUSTER_FAULT": fault}
        self.pid = self.server.start(Order(machine=self.machine, log=str(self.log), environment=environment))
        self._continue_at = None
        self.back_after = 0.2
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._died()
            return
        asyncio.get_running_loop().add_reader(self._pidfd, self._died)

    def kill(self) -> None:
        """SIGKILL."""
        self._send(signal.SIGKILL)

    def stop(self, seconds: float) -> None:
        """SIGSTOP, and after some seconds SIGCONT."""
        self._send(signal.SIGSTOP)
        self._continue_at = asyncio.get_running_loop().time() + seconds

    def go_on(self) -> None:
        """SIGCONT."""
        self._continue_at = None
        self._send(signal.SIGCONT)

    def look(self) -> None:
        """Start it again, or let it go on, if it is time; notice that it has stopped at a failpoint."""
        now = asyncio.get_running_loop().time()
        if self.pid is None:
            if now >= self._due:
                self.start()
        elif self._continue_at is not None:
            if now >= self._continue_at:
                self.go_on()
                self.tell("continue", self.name, "")
        elif self.starts in self.failpoints and self._is_stopped():
            point, seconds = self.failpoints[self.starts]
            self._continue_at = now + seconds
            self.tell("stop", self.name, f"at {point}")

    @property
    def stopped_for(self) -> float:
        """Seconds until it goes on; 0: it runs, or is dead."""
        if self.pid is None or self._continue_at is None:
            return 0.0
        return max(0.0, self._continue_at - asyncio.get_running_loop().time())

    def heal(self) -> None:
        """It runs, or goes on when its time has come, or is started at once.

        No failpoint is armed any more from the next start on.
        """
        self.failpoints = {
            number: fault for number, fault in self.failpoints.items() if number <= self.starts
        }
        if self.pid is None:
            self._due = 0.0
        elif self._continue_at is None:
            self._continue_at = 0.0
        self.look()

    def end(self) -> None:
        """SIGKILL, for good."""
        self._due = float("inf")
        self.kill()
        self._close()

    def lines(self) -> list[LogLine]:
        """Its log."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines() if self.log.exists() else ():
            try:
                facts: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                facts = {"message": line, "level": "error"}
            message, level = str(facts.pop("message", "")), str(facts.pop("level", "info"))
            found.append(LogLine(replica=self.name, message=message, level=level, facts=facts))
        return found

    def _send(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _died(self) -> None:
        self._close()
        if self.pid is not None and self._due != float("inf"):
            self._due = asyncio.get_running_loop().time() + self.back_after
            self.tell("died", self.name, self.holder)
        self.pid = None

    def _close(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _is_stopped(self) -> bool:
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"
