"""The process between us and a child that must not outlive us. A script of its own, standard library only.

A parent killed with SIGKILL cleans up nothing, and Linux's parent-death signal follows the *thread* that made
the child, so neither is safe from a program with threads. This process has one thread and three ways to learn
that its parent is gone: the end of its standard input, a pidfd, and its own parent's number. Then it stops
the child, politely first. If this process is killed too, the child gets the parent-death signal,
which is reliable from here.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
#: A missed wake-up costs at most this long.
LOOK_EVERY = 1.0
#: Seconds that the child of a dead parent gets to stop: nothing waits for it, and its successor needs the directory.
ORPHAN_GRACE = 3.0


def when_parent_dies(number: int) -> None:
    """Ask the kernel to send us ``number`` when the thread that started us ends. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def spawn(order: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the child of an order, its output going to our standard error."""
    identity: dict[str, Any] = {}
    if order["user"] is not None:
        uid, gid = order["user"]
        identity = {"user": uid, "group": gid, "extra_groups": []}
    libc = ctypes.CDLL(None)

    def tie() -> None:
        # After the change of user, which would clear it.
        if sys.platform == "linux":
            libc.prctl(PR_SET_PDEATHSIG, order["orphan_signal"])

    return subprocess.Popen(
        order["argv"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        cwd=order["cwd"],
        start_new_session=True,
        preexec_fn=tie,  # noqa: PLW1509 - this process has no other thread
        **identity,
    )


class ProcessWatch:
    """Ways in which the order to stop arrives: the parent's end, the end of the input, or a signal."""

    def __init__(self, parent: int) -> None:
        self.parent = parent
        self.asked = False
        self.wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        # Handlers, not SIG_IGN: ignoring would be inherited by the child.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.ask)
        self.watched = [sys.stdin.fileno(), self.wake]
        # On an old kernel or another system the other two ways remain.
        with contextlib.suppress(AttributeError, OSError):
            self.watched.append(os.pidfd_open(parent))

    def ask(self, *_: object) -> None:
        """A signal asks us to stop."""
        self.asked = True

    def time_to_stop(self) -> bool:
        """Wait a little; true when the child is not needed any more."""
        ready, _, _ = select.select(self.watched, [], [], LOOK_EVERY)
        if self.wake in ready:
            os.read(self.wake, 4096)
        gone = any(fd != self.wake for fd in ready)
        return gone or self.asked or os.getppid() != self.parent


def stop(child: "subprocess.Popen[bytes]", order: dict[str, Any]) -> None:
    """End the child: its stop signal first, SIGKILL to its whole group when its grace is over."""
    child.send_signal(order["stop_signal"])
    child.send_signal(signal.SIGCONT)  # a paused process hears nothing else
    began = time.monotonic()
    while child.poll() is None:
        # Looked at every time: a dying parent closes our input before it stops being our parent.
        orphaned = os.getppid() != order["parent"]
        grace = min(order["grace"], ORPHAN_GRACE) if orphaned else order["grace"]
        if time.monotonic() - began > grace:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        time.sleep(0.01)


def main() -> int:
    """Start the ordered child, say its number, and stay until it or our parent ends."""
    order = json.loads(sys.argv[1])
    watch = ProcessWatch(order["parent"])
    try:
        child = spawn(order)
    except OSError as error:
        os.write(1, f"failed {error}\n".encode())
        return 127
    # A parent that is gone already is noticed at the first look.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"pid {child.pid}\n".encode())
    while child.poll() is None:
        if watch.time_to_stop():
            stop(child, order)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
