"""``kubectl muster reservations``: nodes that are kept for queues or drained, and when."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import check_queue
from admission.cli.closures.objects import begins, listed, spec_of, status_of
from admission.cli.failures import CommandFailed
from admission.cli.options import cluster
from admission.cli.output import Output, list_output
from admission.cli.rendering.table import Cell, amounts, stated_seconds, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table, with_text_below
from admission.cli.rendering.terminal.sentences import say
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, ApiResource, Document
from queues.api.names import CHANGED_BY
from queues.text_format import short_duration, span

_NODES_SHOWN: Final = 3
_NARROW: Final = Narrowing(names={"NAME": 14, "FOR": 8, "WHAT": 8}, left_out=("WHAT",))


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
        lines = [line for line in lines if line["queue"] == queue]
        if not lines:
            check_queue(cluster, queue)
    ended = [line for line in lines if line["phase"] == "Ended"]
    if not with_ended:
        lines = [line for line in lines if line["phase"] != "Ended"]
    lines = output.sorted(sorted(lines, key=lambda line: (line["from"], line["kind"], line["name"])))
    text = output.document({"items": lines}, name=lambda line: f"{line['kind'].lower()}/{line['name']}")
    if text is None:
        if not lines:
            more = f" {len(ended)} have ended: --all shows them." if ended and not with_ended else ""
            say(f"Nothing is reserved or drained.{more}", err=True)
            return
        text = _table(lines, wide=output.is_wide, headers=output.headers, width=output.room)
    click.echo(output.fitted(text), nl=False)


def _lines(cluster: ClusterRoute, resource: ApiResource) -> list[dict[str, Any]]:
    found = listed(cluster, resource)
    if found is None:
        hint = "Ask for the role muster-queue-viewer."
        raise CommandFailed(tried="", found=f"You may not list {resource.plural}", hint=hint)
    return [closure_line(each, resource) for each in found]


def closure_line(document: Document, resource: ApiResource) -> dict[str, Any]:
    """What is shown of an object, as ``-o json``."""
    spec, status = spec_of(document), status_of(document)
    return {
        "kind": resource.kind,
        "name": document["metadata"]["name"],
        "queue": spec.get("queue"),
        "resources": spec.get("resources"),
        "from": begins(document),
        "for": spec.get("for"),
        "phase": status.get("phase") or "Planned",
        "reason": status.get("reason"),
        "message": status.get("message"),
        "by": (document["metadata"].get("annotations") or {}).get(CHANGED_BY),
        "nodes": list(status.get("nodes") or ()),
        "asked": spec.get("nodes")
        or [f"{key}={value}" for key, value in (spec.get("nodeSelector") or {}).items()],
    }


def _table(lines: list[dict[str, Any]], *, wide: bool, headers: bool, width: int | None) -> str:
    columns = ["NAME", "FOR", "WHAT", "BEGINS", "LASTS", "PHASE", "NODES"]
    now = time.time()
    rows: list[list[Cell]] = []
    for line in lines:
        row: list[Cell] = [
            line["name"],
            line["queue"] or "maintenance",
            what_of(line),
            line["from"] if wide else begins_in(line["from"], now),
            lasting(line["for"]),
            line["phase"] + (f" ({line['reason']})" if line["reason"] else ""),
        ]
        nodes = line["nodes"]
        shown = ",".join(nodes if wide else nodes[:_NODES_SHOWN]) or None
        more = len(nodes) - _NODES_SHOWN
        row.append(f"{shown},+{more}" if more > 0 and not wide else shown)
        if wide:
            row += [line["by"], line["message"]]
        rows.append(row)
    columns = [*columns, "BY", "MESSAGE"] if wide else columns
    text = table(columns, rows, headers=headers)
    if width is None or max(map(len, text.splitlines())) <= width:
        return text
    short = fitted_table(columns[:-1], [row[:-1] for row in rows], _NARROW, width=width, headers=headers)
    nodes = ["nodes " + str(row[-1]).replace(",", ", ") if row[-1] else "" for row in rows]
    fitting = short.splitlines()
    head = fitting[: len(fitting) - len(rows)]
    told = (
        with_text_below(*each, width, most=_NODES_SHOWN + 1)
        for each in zip(fitting[len(head) :], nodes, strict=True)
    )
    return "".join((*(f"{line}\n" for line in head), *told))


def what_of(line: Mapping[str, Any]) -> str:
    """What is reserved or drained: amounts, labels of nodes, or how many nodes."""
    if line["resources"]:
        return amounts({name: str(amount) for name, amount in line["resources"].items()})
    asked = line["asked"]
    return f"{len(asked)} nodes" if len(asked) > 1 else str(next(iter(asked), "-"))


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
