"""What processes have used, read from /proc."""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes and all below them, ended ones included once they were waited for."""
    return sum(sum(_fields(pid)[11:15]) for root in pids for pid in _tree(root)) / _TICKS


def memory_mb(pid: int) -> float:
    """The resident size of a process without its children, in MB (10⁶ bytes)."""
    return _status_kib(pid, "VmRSS") * 1024 / 1e6


def starved_seconds(pid: int) -> float:
    """For how long the main thread of a process was ready to run while others had the processors."""
    return int((_PROC / str(pid) / "schedstat").read_text().split()[1]) / 1e9


def peak_memory_mb(pid: int) -> float:
    """The largest resident size (VmHWM) of a process without its children, in MB (10⁶ bytes)."""
    return _status_kib(pid, "VmHWM") * 1024 / 1e6


def wait_until_idle(
    pids: Collection[int], *, share: float = 0.4, window: float = 1.0, patience: float = 30.0
) -> None:
    """Wait until processes together have taken less than this share of a processor for a moment."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = cpu_seconds(pids)
        time.sleep(window)
        if cpu_seconds(pids) - before < share * window:
            return


def _tree(root: int) -> Iterator[int]:
    yield root
    for path in _PROC.glob(f"{root}/task/*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue  # the thread has ended since
        for child in children:
            yield from _tree(int(child))


def _fields(pid: int) -> list[int]:
    """Fields of /proc/PID/stat after the name, as numbers (the state, a letter, as 0)."""
    text = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2]
    return [int(word) if word.lstrip("-").isdigit() else 0 for word in text.split()]


def _status_kib(pid: int, name: str) -> int:
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0
