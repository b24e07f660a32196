"""``kubectl muster reservations``: nodes that are kept for queues or drained, and when."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import click
import msgspec

from admission.cli.access.object_forms import ClosureObject
from admission.cli.access.objects import listed
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from admission.cli.options import QUEUE, cluster
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import (
    TableColumn,
    amounts,
    fits,
    item_table,
    say,
    stated_seconds,
    with_texts,
)
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, ApiResource
from queues.api.names import CHANGED_BY
from queues.read_api.bodies import Body
from queues.text_format import short_duration, span

_NODES_SHOWN: Final = 3


class ClosureLine(Body, frozen=True, kw_only=True):
    """What is shown of a Reservation or NodeDrain, as ``-o json`` has it. Null: not stated."""

    kind: str
    name: str
    queue: str | None
    resources: Mapping[str, str | int | float] | None
    from_: str = msgspec.field(name="from")
    for_: str | None = msgspec.field(name="for")
    phase: str
    reason: str | None
    message: str | None
    #: Who wrote it last.
    by: str | None
    nodes: tuple[str, ...]
    #: The nodes that a drain names, or the labels by which it chooses them.
    asked: tuple[str, ...]


@click.command(short_help="Nodes that are kept for queues or drained, and when.")
@click.option("-q", "--queue", type=QUEUE, metavar="NAME", help="Only reservations for this queue.")
@click.option("--all", "with_ended", is_flag=True, help="Also those that have ended.")
@output
@cluster
def reservations(queue: str | None, with_ended: bool, output: Output, route: Route) -> None:
    """Show Reservations and NodeDrains: for which queue, what, when, and which nodes.

    Nodes are chosen at the lead time, so before there are none. You need the right to list reservations and nodedrains
    (role muster-queue-viewer).
    """
    lines = [*_lines(route, RESERVATIONS), *(() if queue is not None else _lines(route, NODE_DRAINS))]
    if queue is not None:
        lines = [line for line in lines if line.queue == queue]
        if not lines:
            # Other commands that name reservations do not wait for what reads queues.
            from admission.cli.access.queue_objects import check_queue

            check_queue(route, queue)
    ended = [line for line in lines if line.phase == "Ended"]
    lines = in_order(lines, with_ended=with_ended)
    text = output.document({"items": lines}, name=lambda line: f"{line.kind.lower()}/{line.name}")
    if text is None:
        if not lines:
            more = f" {len(ended)} have ended: --all shows them." if ended and not with_ended else ""
            say(f"Nothing is reserved or drained.{more}", err=True)
            return
        text = _table(lines, output)
    click.echo(output.fitted(text), nl=False)


def in_order(lines: Iterable[ClosureLine], *, with_ended: bool = False) -> list[ClosureLine]:
    """By the time at which they begin; without those that have ended, unless they are wanted."""
    wanted = (line for line in lines if with_ended or line.phase != "Ended")
    return sorted(wanted, key=lambda line: (line.from_, line.kind, line.name))


def _lines(route: Route, resource: ApiResource) -> list[ClosureLine]:
    found = listed(route, resource, ClosureObject)
    if found is None:
        hint = "Ask for the role muster-queue-viewer."
        raise CommandFailed(found=f"You may not list {resource.plural}", hint=hint)
    return [closure_line(document, resource) for document in found]


def closure_line(document: ClosureObject, resource: ApiResource) -> ClosureLine:
    """What is shown of an object."""
    metadata, spec, status = document.metadata, document.spec, document.status
    return ClosureLine(
        kind=resource.kind,
        name=metadata.name,
        queue=spec.queue,
        resources=spec.resources,
        from_=document.begins,
        for_=spec.for_,
        phase=status.phase or "Planned",
        reason=status.reason,
        message=status.message,
        by=(metadata.annotations or {}).get(CHANGED_BY),
        nodes=status.nodes or (),
        asked=spec.nodes or tuple(f"{key}={value}" for key, value in (spec.node_selector or {}).items()),
    )


def _table(lines: Sequence[ClosureLine], output: Output) -> str:
    now = time.time()
    columns: list[TableColumn[ClosureLine]] = [
        TableColumn("NAME", lambda line: line.name, least=14),
        TableColumn("FOR", lambda line: line.queue or "maintenance", least=8),
        TableColumn("WHAT", what_of, least=8, goes=1),
        TableColumn("BEGINS", lambda line: line.from_ if output.is_wide else begins_in(line.from_, now)),
        TableColumn("LASTS", lambda line: lasting(line.for_)),
        TableColumn("PHASE", lambda line: line.phase + (f" ({line.reason})" if line.reason else "")),
    ]
    more: list[TableColumn[ClosureLine]] = [
        TableColumn("NODES", _first_nodes, wide=False),
        TableColumn("NODES", lambda line: ",".join(line.nodes) or None, wide=True),
        TableColumn("BY", lambda line: line.by, wide=True),
        TableColumn("MESSAGE", lambda line: line.message, wide=True),
    ]
    text = item_table([*columns, *more], lines, replace(output, width=None))
    if fits(text, output.room):
        return text
    below = [f"nodes {shown}".replace(",", ", ") if (shown := _first_nodes(line)) else "" for line in lines]
    return with_texts(item_table(columns, lines, output), below, output.room, is_beside=False)


def _first_nodes(line: ClosureLine) -> str | None:
    more = len(line.nodes) - _NODES_SHOWN
    return ",".join([*line.nodes[:_NODES_SHOWN], *([f"+{more}"] if more > 0 else [])]) or None


def what_of(line: ClosureLine) -> str:
    """What is reserved or drained: amounts, labels of nodes, or how many nodes."""
    if line.resources:
        return amounts({name: str(amount) for name, amount in line.resources.items()})
    return f"{len(line.asked)} nodes" if len(line.asked) > 1 else next(iter(line.asked), "-")


def begins_in(text: str, now: float) -> str:
    """``in 32m`` or ``5m ago``; ``now``: seconds since the epoch."""
    try:
        seconds = int(datetime.fromisoformat(text).timestamp() - now)
    except ValueError:
        return text
    return f"in {short_duration(seconds)}" if seconds >= 0 else f"{short_duration(-seconds)} ago"


def lasting(text: str | None) -> str | None:
    """A duration as kubectl shortens it. None without an end."""
    if text is None:
        return None
    seconds = stated_seconds(text)
    return text if seconds is None else span(seconds)
