"""Queues that are paused and resumed, closed and opened: what is written, and what is said of what became of it."""

import time
from typing import Final, Literal

import click

from admission.cli.access.objects import ClusterRoute, ask_for_action, path_of, send
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    queues_above,
    read_queue,
)
from admission.cli.failures import CommandFailed
from admission.cli.rendering.sentences import say
from queues.api.api_resources import COMMANDS, QUEUES
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE

_Action = Literal["CloseQueue", "OpenQueue"]
#: Seconds for which it is looked whether Muster does what was asked; it writes states of queues every two seconds.
_PATIENCE: Final = 6.0
_PAUSE: Final = 0.2
#: Commands that are looked at.
_MOST_COMMANDS: Final = 500


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
    """Have queues closed or opened, and say what stands then. Raises CommandFailed."""
    closes, asked = action == "CloseQueue", list[str]()
    for name in names:
        if name == ROOT_QUEUE:
            raise click.ClickException(
                "Queue root is always open; `kubectl muster queue pause root` stops all admissions."
            )
        queue = read_queue(route, name)
        if _is_closed(queue) is closes and not _may_be_asked_for(route, name):
            _say_unchanged(route, queue, closes)
            continue
        # Volcano's Commands for queues are in this namespace too.
        ask_for_action(route, action, QUEUES, DEFAULT_QUEUE, name, "asked for by kubectl muster")
        say(f"queue {name} is being {'closed' if closes else 'opened'}")
        asked.append(name)
    _wait(route, asked, closes)


def _is_closed(queue: QueueObject) -> bool:
    """Whether it was closed itself, and not with one above it."""
    status = queue.document.get("status") or {}
    by_parent = any(
        each.get("type") == "ClosedByParent" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    return status.get("state") in ("Closed", "Closing") and not by_parent


def _may_be_asked_for(route: ClusterRoute, name: str) -> bool:
    """Whether a Command for the queue waits, or that is not known: then the state may be about to change."""
    try:
        found = send(
            route,
            "GET",
            path_of(COMMANDS, DEFAULT_QUEUE),
            tried="Listing commands",
            limit=str(_MOST_COMMANDS),
        )
    except CommandFailed:
        return True
    targets = [each.get("target") or {} for each in found.get("items") or ()]
    more = bool((found.get("metadata") or {}).get("continue"))
    return more or any((each.get("kind"), each.get("name")) == (QUEUES.kind, name) for each in targets)


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


def _wait(route: ClusterRoute, names: list[str], closes: bool) -> None:
    """Say of those that are not in the state that was asked for after a while that they are not."""
    left, late = list(names), time.monotonic() + _PATIENCE
    while left and time.monotonic() < late:
        try:
            left = [name for name in left if _is_closed(read_queue(route, name)) is not closes]
        except CommandFailed:  # it was asked for; what became of it is not known
            return
        if left:
            time.sleep(_PAUSE)
    for name in left:
        say(
            f"Queue {name} is {'not closed yet' if closes else 'still closed'}: no replica of Muster has carried this "
            "out. It will be when one leads; `kubectl muster queues` tells.",
            err=True,
        )
