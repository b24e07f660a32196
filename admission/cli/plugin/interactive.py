"""``kubectl muster run --interactive``: a pod with a shell, for as long as somebody is at it."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from admission.cli.access.kubectl import call_kubectl
from admission.cli.access.object_forms import ShellPod
from admission.cli.access.objects import ObjectNotFound, Refused, delete_this, path_of, read, send
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from admission.cli.rendering.terminal import warn
from admission.facts.workloads import ADMITTED
from queues.api.api_resources import PODS, Document
from queues.api.names import HEARTBEAT
from queues.text_format import rfc3339

#: Seconds between two heartbeats. A pod that lacks them for five minutes is deleted by the leader.
_EVERY: Final = 60.0
#: Seconds between two looks at a pod that does not run yet.
_LOOK_EVERY: Final = 2.0


class Shell(NamedTuple):
    """A pod with a shell that was made."""

    route: Route
    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Where the API server has it."""
        return path_of(PODS, self.namespace, self.name)

    def look(self) -> ShellPod:
        """The pod as it is. Raises CommandFailed, and Refused if it is gone."""
        return read(self.route, self.path, ShellPod, tried=f"Looking at {self}")

    def __str__(self) -> str:
        return f"pod/{self.name}"


def with_heartbeat(pod: Document) -> Document:
    """The document of a pod with its first heartbeat."""
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "annotations": {**metadata["annotations"], HEARTBEAT: _now()}}}


def be_at_shell(route: Route, namespace: str, pod: Document) -> int:
    """Make a pod, be at its shell once it runs, and delete it, whatever happens. The exit code of the shell.

    Raises CommandFailed, and KeyboardInterrupt.
    """
    name, path = pod["metadata"]["name"], path_of(PODS, namespace)
    made = send(route, "POST", path, with_heartbeat(pod), tried=f"Creation of pod/{name}", form=ShellPod)
    shell = Shell(route, namespace, name, made.metadata.uid)
    warn(f"{shell} created; it is deleted at the end of its shell, or by Ctrl-C while it waits")
    try:
        with _heartbeats(shell):
            _wait(shell)
            is_terminal = ["--tty"] if sys.stdin.isatty() else []
            code = call_kubectl(route, namespace, "attach", name, "--container=main", "--stdin", *is_terminal)
            return _exit_code(shell, code)
    finally:
        _delete(shell)


@contextmanager
def _heartbeats(shell: Shell) -> Iterator[None]:
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(_EVERY):
            # The uid is a precondition. One that fails may be the only one that does.
            change = {"metadata": {"uid": shell.uid, "annotations": {HEARTBEAT: _now()}}}
            with suppress(CommandFailed):
                send(shell.route, "PATCH", shell.path, change, tried=f"Heartbeat of {shell}")

    thread = threading.Thread(target=go_on, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _wait(shell: Shell) -> None:
    """Until the pod runs; says why it does not. Raises CommandFailed if it has ended, or is gone."""
    shown = ""
    while True:
        try:
            pod = shell.look()
        except Refused:
            raise
        except CommandFailed:  # no answer: the pod waits on for five minutes
            time.sleep(_LOOK_EVERY)
            continue
        if pod.status.phase == "Running":
            return
        if pod.metadata.uid != shell.uid or pod.status.phase in ("Succeeded", "Failed"):
            raise CommandFailed(found=f"{shell} has ended before it had a shell: {pod.status.why}")
        waits = next((each for each in pod.status.conditions or () if each.type == ADMITTED), None)
        if waits is not None and waits.status != "True" and waits.reason not in (None, shown):
            shown = waits.reason or ""
            warn(f"{shell} waits: {shown}: {waits.message}")
        time.sleep(_LOOK_EVERY)


def _exit_code(shell: Shell, of_kubectl: int) -> int:
    """That of the shell if it has ended, else that of kubectl."""
    try:
        status = shell.look().status
    except CommandFailed as error:
        warn(str(error))
        return of_kubectl or 1
    if status.phase == "Failed":
        warn(f"{shell} has ended: {status.why}")
    ended = (each.state.terminated for each in status.container_statuses or () if each.state is not None)
    return next((each.exit_code for each in ended if each is not None), of_kubectl)


def _delete(shell: Shell) -> None:
    with suppress(ObjectNotFound):
        delete_this(shell.route, shell.path, shell.uid, tried=f"Deleting {shell}")
        warn(f"{shell} is deleted")


def _now() -> str:
    return rfc3339(time.time())
