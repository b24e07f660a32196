"""The child process in which turns are decided while queues are served by plug-ins of others, and only then.

The parent keeps the lease, the world and the database; the child has what it is handed, and the memo
of the turn before.
"""

import os
import pickle
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from weakref import finalize

from admission.containment.child_process import (
    Busy,
    BusyPage,
    ChildEnded,
    ChildFailed,
    NotedProgress,
    end_with_parent,
    handed_over,
    receive,
    send,
)
from admission.containment.differences import Outcome, Receiver, Sender
from admission.engine.decide import Memo, decide
from admission.engine.memo import books_after
from admission.engine.snapshot import Snapshot
from queues.plugins.guard import PluginFault


class DecisionChild:
    """The child process as its parent sees it. Its methods block."""

    def __init__(self) -> None:
        page = BusyPage.file()
        try:
            self._page = BusyPage(page)
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()", str(page)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[page],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        finally:
            os.close(page)
        self._sender, self._receiver = Sender(), Receiver()
        self.has_started = False
        finalize(self, self._process.kill)

    def await_start(self) -> None:
        """Its start takes a second or more, which is no plug-in's fault."""
        assert self._process.stdout is not None
        self.has_started = self.has_started or receive(self._process.stdout) is not None

    def decide(self, snapshot: Snapshot, limit: int) -> Outcome:
        """As the engine's ``decide``.

        Raises PluginFault, ChildFailed for an error of the engine, or ChildEnded.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._page.clear()
        self.await_start()
        handed = self._sender.dump(replace(snapshot, tree=None))
        try:
            send(self._process.stdin, pickle.dumps((handed, limit), pickle.HIGHEST_PROTOCOL))
            answer = receive(self._process.stdout)
        except (OSError, ValueError) as error:  # the pipe is broken, or was closed
            raise ChildEnded(found=str(error)) from error
        if answer is None:
            code = self._process.wait()
            if (asked := self._page.asked()) is not None:
                raise asked.fault(f"ended the process that decides (exit code {code})")
            raise ChildEnded(found=f"exit code {code}")
        found = pickle.loads(answer)
        if isinstance(found, PluginFault):
            raise found
        if isinstance(found, str):
            raise ChildFailed(found=found)
        outcome: Outcome = self._receiver.load(found)
        return outcome

    def busy(self) -> Busy | None:
        """What it is busy with now; None if it has not begun."""
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


# ── in the child ────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Decide what comes in, until the pipe is closed."""
    end_with_parent()
    into, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    page, receiver, sender = BusyPage(int(sys.argv[1])), Receiver(), Sender()
    memo, books = Memo(), None
    send(out, b"")
    while (message := receive(into)) is not None:
        handed, limit = pickle.loads(message)
        snapshot, progress = receiver.load(handed), NotedProgress(page)
        answer: bytes | PluginFault | str
        try:
            plan, memo = decide(snapshot, memo, limit, progress=progress)
            books = books_after(books, memo)
            answer = sender.dump(Outcome.of(plan, memo.until, books))
        except Exception as error:
            if not isinstance(error, PluginFault):
                traceback.print_exc()
            memo, answer = Memo(), handed_over(error)
        send(out, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
