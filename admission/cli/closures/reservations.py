"""``kubectl muster reservations``: nodes that are kept for queues or drained, and when."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import click
import msgspec

from admission.cli.access.object_forms import ClosureObject
from admission.cli.access.objects import ClusterRoute, listed
from admission.cli.access.queue_objects import check_queue
from admission.cli.failures import CommandFailed
from admission.cli.options import cluster
from admission.cli.output import Output, list_output
from admission.cli.rendering.table import Cell, amounts, stated_seconds, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table, with_text_below
from admission.cli.rendering.terminal.sentences import say
from admission.read_api.bodies import Body
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, ApiResource
from queues.api.names import CHANGED_BY
from queues.text_format import short_duration, span

_NODES_SHOWN: Final = 3
_NARROW: Final = Narrowing(names={"NAME": 14, "FOR": 8, "WHAT": 8}, left_out=("WHAT",))


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
@click.option("-q", "--queue", metavar="NAME", help="Only reservations for this queue.")
@click.option("--all", "with_ended", is_flag=True, help="Also those that have ended.")
@list_output
@cluster
def reservations(queue: str | None, with_ended: bool, output: Output, cluster: ClusterRoute) -> None:
    """Show Reservations and NodeDrains: for which queue, what, when, and which nodes.

    Nodes are chosen at the lead time, so before there are none. You need the right to list reservations and nodedrains
    (role muster-queue-viewer).
    """
    lines = [*_lines(cluster, RESERVATIONS), *(() if queue is not None else _lines(cluster, NODE_DRAINS))]
    if queue is not None:
        lines = [line for line in lines if line.queue == queue]
        if not lines:
            check_queue(cluster, queue)
    ended = [line for line in lines if line.phase == "Ended"]
    lines = output.sorted(in_order(lines, with_ended=with_ended))
    text = output.document({"items": lines}, name=lambda line: f"{line.kind.lower()}/{line.name}")
    if text is None:
        if not lines:
            more = f" {len(ended)} have ended: --all shows them." if ended and not with_ended else ""
            say(f"Nothing is reserved or drained.{more}", err=True)
            return
        text = _table(lines, wide=output.is_wide, headers=output.headers, width=output.room)
    click.echo(output.fitted(text), nl=False)


def in_order(lines: Iterable[ClosureLine], *, with_ended: bool = False) -> list[ClosureLine]:
    """By the time at which they begin; without those that have ended, unless they are wanted."""
    wanted = (line for line in lines if with_ended or line.phase != "Ended")
    return sorted(wanted, key=lambda line: (line.from_, line.kind, line.name))


def _lines(cluster: ClusterRoute, resource: ApiResource) -> list[ClosureLine]:
    found = listed(cluster, resource, ClosureObject)
    if found is None:
        hint = "Ask for the role muster-queue-viewer."
        raise CommandFailed(tried="", found=f"You may not list {resource.plural}", hint=hint)
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


def _table(lines: Sequence[ClosureLine], *, wide: bool, headers: bool, width: int | None) -> str:
    columns = ["NAME", "FOR", "WHAT", "BEGINS", "LASTS", "PHASE", "NODES"]
    now = time.time()
    rows: list[list[Cell]] = []
    for line in lines:
        row: list[Cell] = [
            line.name,
            line.queue or "maintenance",
            what_of(line),
            line.from_ if wide else begins_in(line.from_, now),
            lasting(line.for_),
            line.phase + (f" ({line.reason})" if line.reason else ""),
        ]
        nodes = line.nodes
        shown = ",".join(nodes if wide else nodes[:_NODES_SHOWN]) or None
        more = len(nodes) - _NODES_SHOWN
        row.append(f"{shown},+{more}" if more > 0 and not wide else shown)
        if wide:
            row += [line.by, line.message]
        rows.append(row)
    columns = [*columns, "BY", "MESSAGE"] if wide else columns
    text = table(columns, rows, headers=headers)
    if width is None or max(map(len, text.splitlines())) <= width:
        return text
    short = fitted_table(columns[:-1], [row[:-1] for row in rows], _NARROW, width=width, headers=headers)
    below = ["nodes " + str(row[-1]).replace(",", ", ") if row[-1] else "" for row in rows]
    fitting = short.splitlines()
    head = fitting[: len(fitting) - len(rows)]
    told = (
        with_text_below(*each, width, most=_NODES_SHOWN + 1)
        for each in zip(fitting[len(head) :], below, strict=True)
    )
    return "".join((*(f"{line}\n" for line in head), *told))


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
