"""Queues that are paused and resumed: what is written, and what is said of it. For both command lines."""

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    queues_above,
    read_queue,
)
from admission.cli.rendering.terminal.sentences import say
from queues.api.names import ROOT_QUEUE


def pause_queue(route: ClusterRoute, name: str, reason: str | None) -> None:
    """Stop admissions of a queue and everything below it, and say what stands then. Raises CommandFailed."""
    why, queue = checked_reason(reason), read_queue(route, name)
    if queue.paused:
        say(f"queue {name} is paused already; nothing was changed")
    else:
        change_queue(route, queue, {"policy": {"paused": True}}, reason=why)
        say(f"queue {name} is paused{_scope(name)}; what runs goes on")
    above = _paused_above(route, queue)
    if above is not None:
        say(f"queue {above.name} above it is paused too")


def resume_queue(route: ClusterRoute, name: str, reason: str | None) -> None:
    """Start admissions of a queue again, and say what stands then. Raises CommandFailed."""
    why, queue = checked_reason(reason), read_queue(route, name)
    if queue.paused:
        change_queue(route, queue, {"policy": {"paused": False}}, reason=why)
    above = _paused_above(route, queue)
    if above is None:
        was = "is not paused any more" if queue.paused else "was not paused; nothing was changed"
        say(f"queue {name} {was}")
        return
    was = "is not paused itself any more" if queue.paused else "was not paused itself; nothing was changed"
    say(f"queue {name} {was}")
    say(
        f"It still admits nothing: queue {above.name} above it is paused. "
        f"`kubectl muster queue resume {above.name}` starts that one.",
        err=True,
    )


def _scope(name: str) -> str:
    return ", and with it all queues" if name == ROOT_QUEUE else ""


def _paused_above(route: ClusterRoute, queue: QueueObject) -> QueueObject | None:
    return next((above for above in queues_above(route, queue) if above.paused), None)
