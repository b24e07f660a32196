"""When turns ended, as the replicas themselves note it: a line each in a file, so that a killed one has told all."""

import os
import time
from pathlib import Path
from typing import Any

from tests.chaos.history import TurnEnd


def record(path: Path) -> None:
    """In a replica's process: note each turn from now on. The monotonic clock is one on a machine; no fault sets it."""
    from admission.metrics import Metrics

    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    observe = Metrics.observe

    def observed(self: Metrics, report: Any) -> None:
        observe(self, report)
        os.write(file, f"{time.monotonic():.4f} {report.decide_seconds:.6f}\n".encode())

    Metrics.observe = observed  # type: ignore[method-assign]


def path_of(log: Path) -> Path:
    """Beside a replica's log."""
    return log.with_suffix(".turns")


def read(replica: str, path: Path, began: float) -> list[TurnEnd]:
    """The turns of a replica. ``began``: when the run began, by the monotonic clock."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        at, decided = map(float, line.split())
        found.append(TurnEnd(at=at - began, replica=replica, decided_in=decided))
    return found
