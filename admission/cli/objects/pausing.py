"""Queues that are paused and resumed, closed and opened: what is written, and what is said of what became of it."""

from typing import Literal

import click

from admission.cli.access.objects import ClusterRoute, ask_for_action
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    queues_above,
    read_queue,
)
from admission.cli.rendering.sentences import say
from queues.api.api_resources import QUEUES
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE

_Action = Literal["CloseQueue", "OpenQueue"]


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


def ask_for_state(route: ClusterRoute, action: _Action, names: tuple[str, ...]) -> None:
    """Have queues closed or opened, where they are not so already. Raises CommandFailed."""
    closes = action == "CloseQueue"
    for name in names:
        if name == ROOT_QUEUE:
            raise click.ClickException(
                "Queue root is always open; `kubectl muster queue pause root` stops all admissions."
            )
        queue = read_queue(route, name)
        if _is_closed(queue) is closes:
            _say_unchanged(route, queue, closes)
            continue
        # Volcano's Commands for queues are in this namespace too.
        ask_for_action(route, action, QUEUES, DEFAULT_QUEUE, name, "asked for by kubectl muster")
        say(f"queue {name} is being {'closed' if closes else 'opened'}")


def _is_closed(queue: QueueObject) -> bool:
    """Whether it was closed itself, and not with one above it."""
    status = queue.document.get("status") or {}
    by_parent = any(
        each.get("type") == "ClosedByParent" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    return status.get("state") in ("Closed", "Closing") and not by_parent


def _say_unchanged(route: ClusterRoute, queue: QueueObject, closes: bool) -> None:
    if closes:
        say(f"queue {queue.name} is closed already; nothing was changed")
        return
    above = next((each for each in queues_above(route, queue) if _is_closed(each)), None)
    if above is None:
        say(f"queue {queue.name} was not closed; nothing was changed")
        return
    say(f"queue {queue.name} was not closed itself; nothing was changed")
    say(
        f"It still takes nothing: queue {above.name} above it is closed. "
        f"`kubectl muster queue open {above.name}` opens that one.",
        err=True,
    )
