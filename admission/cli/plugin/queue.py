"""``kubectl muster queue``: create, pause, hold, close and delete queues."""

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

import click

from admission.cli.access.objects import Refused, ask_for_action, delete_this, path_of, send
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    queues_above,
    queues_in_use,
    read_queue,
    read_queues,
)
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandGroup, confirm
from admission.cli.options import AMOUNTS, QUEUE, amounts, cluster, dry_run
from admission.cli.rendering.terminal import say
from queues.api.api_resources import QUEUES, Document
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from queues.read_api.bodies import QueueBody

_Action = Literal["CloseQueue", "OpenQueue"]
_names = click.argument("names", metavar="NAME…", type=QUEUE, nargs=-1, required=True)
_reason = click.option("--reason", metavar="TEXT", help="Why, for `kubectl muster quota history`.")


@click.group(cls=CommandGroup, short_help="Create, pause, hold, close and delete queues.")
def queue() -> None:
    """Create, pause, hold, close and delete queues; `kubectl muster queues` shows them.

    A queue that is paused admits nothing, and takes workloads, which wait. One that is closed takes no new workloads.
    In both what runs goes on, and all queues below are so with it. Limits: `kubectl muster quota`.
    """


@queue.command(short_help="Make a queue.")
@click.argument("name")
@click.option("--parent", default=ROOT_QUEUE, show_default=True, metavar="QUEUE", help="The queue above.")
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="Weight among its siblings [1].")
@click.option("--deserved", metavar=AMOUNTS, help="Its own share: gpu=32,cpu=128.")
@click.option("--guarantee", metavar=AMOUNTS, help="What is never lent.")
@click.option("--capability", metavar=AMOUNTS, help="What is never exceeded.")
@dry_run("Make", "client")
@click.option("--yes", is_flag=True, help="Do not ask, whatever runs or waits in the queue above.")
@cluster
def create(
    name: str,
    parent: str,
    weight: int | None,
    dry_run: str,
    yes: bool,
    route: Route,
    **limits: str | None,
) -> None:
    """Make the queue NAME.

    Asks first if workloads run or wait in the queue above itself: with a queue below it, it takes none.
    """
    spec: Document = {} if parent == ROOT_QUEUE else {"parent": parent}
    if weight is not None:
        spec["weight"] = weight
    for limit in ("deserved", "capability", "guarantee"):
        if (text := limits[limit]) is not None:
            stated = amounts(f"--{limit}", text)
            spec[limit] = {"resource": stated} if limit == "guarantee" else stated
    document = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    path, tried = path_of(QUEUES, None), f"Creation of queue {name}"
    work = "" if parent == ROOT_QUEUE else _work_above(route, parent, name)
    # What would be refused is refused before anything is asked.
    if dry_run == "server" or (dry_run == "none" and work and not yes):
        send(route, "POST", path, document, tried=tried, dryRun="All")
    if work:
        say(work, err=True)
    if dry_run != "none":
        say(f"queue {name} would be created ({dry_run} dry run)")
        return
    if work:
        confirm(f"Create queue {name}?", yes=yes)
    send(route, "POST", path, document, tried=tried)
    say(f"queue {name} created")
    above = queues_in_use(route).get(parent)
    if above is not None and above.open_to_all:
        say(
            f"Every namespace may use queue {name}: set spec.access.namespaceSelector to change that.",
            err=True,
        )


@queue.command(short_help="Take no new workloads; what runs goes on.")
@_names
@cluster
def close(names: tuple[str, ...], route: Route) -> None:
    """Have queues take no new workloads, nor those below them. What runs goes on; what waits stays."""
    _ask_for_state(route, "CloseQueue", names)


@queue.command("open", short_help="Take workloads again.")
@_names
@cluster
def open_(names: tuple[str, ...], route: Route) -> None:
    """Have queues take workloads again, and those below them that were not closed themselves."""
    _ask_for_state(route, "OpenQueue", names)


@queue.command(short_help="Admit nothing; what runs goes on, what comes waits.")
@_names
@_reason
@cluster
def pause(names: tuple[str, ...], reason: str | None, route: Route) -> None:
    """Stop admissions of queues and everything below them. What runs goes on; new workloads wait. root: all queues."""
    why = checked_reason(reason)
    for name in names:
        queue = read_queue(route, name)
        if queue.paused:
            say(f"queue {name} is paused already; nothing was changed")
        else:
            change_queue(route, queue, {"policy": {"paused": True}}, reason=why)
            say(f"queue {name} is paused{_scope(name)}; what runs goes on")
        if (above := next(filter(_PAUSED.is_so, queues_above(route, queue)), None)) is not None:
            say(f"queue {above.name} above it is paused too")


@queue.command(short_help="Admit again.")
@_names
@_reason
@cluster
def resume(names: tuple[str, ...], reason: str | None, route: Route) -> None:
    """Start admissions of queues again. Queues below that are paused themselves stay so."""
    _end(route, names, _PAUSED, {"paused": False}, reason)


@queue.command(short_help="Admit no new work; what was evicted is admitted again.")
@_names
@click.option("--reason", metavar="TEXT", required=True, help="Why, for those whose work waits.")
@cluster
def hold(names: tuple[str, ...], reason: str, route: Route) -> None:
    """Have queues, and everything below them, admit nothing that was never admitted before.

    What runs goes on, and what was evicted is admitted again. `explain` shows the reason.
    """
    why = checked_reason(reason)
    if not why:
        raise click.UsageError("--reason: found no text, expected why, for those whose work waits.")
    for name in names:
        change_queue(route, read_queue(route, name), {"policy": {"hold": {"reason": why}}}, reason=why)
        say(f"queue {name} admits no new work{_scope(name)}; what runs goes on")


@queue.command(short_help="Admit new work again.")
@_names
@_reason
@cluster
def unhold(names: tuple[str, ...], reason: str | None, route: Route) -> None:
    """Have queues admit new work again. Queues below that are on hold themselves stay so."""
    _end(route, names, _ON_HOLD, {"hold": None}, reason)


@queue.command(short_help="Remove queues.")
@_names
@click.option("--yes", is_flag=True, help="Do not ask, whatever runs or waits in them.")
@cluster
def delete(names: tuple[str, ...], yes: bool, route: Route) -> None:
    """Remove queues. What runs in them goes on; what waits in them waits until there is a queue of that name.

    Asks first if workloads run or wait in one of them; without a terminal it then needs --yes.
    """
    found = [read_queue(route, name) for name in names]
    shown = queues_in_use(route)
    work = {each.name: text for each in found if (text := _work(each, shown.get(each.name)))}
    if work and not yes:  # what would be refused is refused before anything is asked
        for each in found:
            _delete(route, each, dryRun=["All"])
    for name, text in work.items():
        say(f"queue {name} has {text}", err=True)
    if work:
        say(
            "What runs goes on and counts at root; what waits, waits until there is a queue of that name.",
            err=True,
        )
        confirm(f"Delete {', '.join(names)}?", yes=yes)
    for each in found:
        _delete(route, each)
        say(f"queue {each.name} deleted")


def _delete(route: Route, queue: QueueObject, **options: object) -> None:
    path, uid = path_of(QUEUES, None, queue.name), queue.document["metadata"]["uid"]
    delete_this(route, path, uid, tried=f"Deletion of queue {queue.name}", **options)


def _work_above(route: Route, parent: str, name: str) -> str:
    """The work of a queue that gets its first queue below it, and what becomes of it; "": it has none."""
    try:
        above = read_queue(route, parent)
    except Refused:  # who may not read it may make the queue all the same
        return ""
    shown, known = queues_in_use(route), read_queues(route)
    parents = {each.parent for each in shown.values()} | {each.parent for each in (known or {}).values()}
    work = "" if parent in parents else _work(above, shown.get(parent))
    if not work:
        return ""
    return (
        f"queue {parent} has {work} itself, and takes none with {name} below it: what runs goes on; what waits is "
        "not admitted (QueueNotLeaf) until it names another queue"
    )


def _work(queue: QueueObject, shown: QueueBody | None) -> str:
    """How many workloads a queue has, in words; "": none.

    Its status is written some time after they were admitted, and the read API (``shown``) may not answer.
    """
    running = max(queue.count("running", "inqueue", "unknown"), 0 if shown is None else shown.admitted)
    waiting = max(queue.count("pending"), 0 if shown is None else shown.pending)
    parts = [f"{count} {word}" for count, word in ((running, "running"), (waiting, "waiting")) if count]
    one = running + waiting == 1
    return f"{' and '.join(parts)} workload{'' if one else 's'}" if parts else ""


# -- paused and resumed, closed and opened: what is written, and what is said of what became of it ------------


class _Stop(NamedTuple):
    """A way in which queues take or admit nothing."""

    word: str
    is_so: Callable[[QueueObject], bool]
    #: What a queue does not do as long as one above it is so, and the command that ends it there.
    still: str
    command: str


def _end(route: Route, names: Iterable[str], stop: _Stop, policy: Document, reason: str | None) -> None:
    """Change the policy of queues that are so, and say what became of each. Raises CommandFailed."""
    why = checked_reason(reason)
    for name in names:
        queue = read_queue(route, name)
        was_so = stop.is_so(queue)
        if was_so:
            change_queue(route, queue, {"policy": policy}, reason=why)
        _say_ended(route, queue, stop, was_so=was_so)


def _say_ended(route: Route, queue: QueueObject, stop: _Stop, *, was_so: bool) -> None:
    """Say that a queue is not paused, on hold or closed any more, and which one above it still is."""
    above = next(filter(stop.is_so, queues_above(route, queue)), None)
    word = f"{stop.word} itself" if above is not None else stop.word
    say(
        f"queue {queue.name} "
        + (f"is not {word} any more" if was_so else f"was not {word}; nothing was changed")
    )
    if above is not None:
        say(
            f"It still {stop.still}: queue {above.name} above it is {stop.word}. "
            f"`kubectl muster queue {stop.command} {above.name}` ends that.",
            err=True,
        )


def _scope(name: str) -> str:
    return ", and with it all queues" if name == ROOT_QUEUE else ""


def _ask_for_state(route: Route, action: _Action, names: tuple[str, ...]) -> None:
    """Have queues closed or opened, where they are not so already. Raises CommandFailed."""
    closes = action == "CloseQueue"
    for name in names:
        if name == ROOT_QUEUE:
            raise click.ClickException(
                "Queue root is always open; `kubectl muster queue pause root` stops all admissions."
            )
        queue = read_queue(route, name)
        if _is_closed(queue) is closes:
            if closes:
                say(f"queue {name} is closed already; nothing was changed")
            else:
                _say_ended(route, queue, _CLOSED, was_so=False)
            continue
        # Volcano's Commands for queues are in this namespace too.
        ask_for_action(route, action, QUEUES, DEFAULT_QUEUE, queue.document)
        say(f"queue {name} is being {'closed' if closes else 'opened'}")


def _is_closed(queue: QueueObject) -> bool:
    """Whether it was closed itself, and not with one above it."""
    status = queue.document.get("status") or {}
    by_parent = any(
        each.get("type") == "ClosedByParent" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    return status.get("state") in ("Closed", "Closing") and not by_parent


_PAUSED: Final = _Stop("paused", lambda queue: queue.paused, "admits nothing", "resume")
_ON_HOLD: Final = _Stop("on hold", lambda queue: queue.held, "admits no new work", "unhold")
_CLOSED: Final = _Stop("closed", _is_closed, "takes nothing", "open")
