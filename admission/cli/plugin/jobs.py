"""``kubectl muster jobs``: the workloads that wait, run or have ended."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import click

from admission.cli.access.requests import Route, pages
from admission.cli.options import (
    chosen_namespace,
    most_lines,
    namespaces,
    of_queue,
    of_user,
    of_whom,
    route,
)
from admission.cli.output import Output, output
from admission.cli.rendering.explanation import reason_line, state_word, way_out
from admission.cli.rendering.terminal import (
    NONE,
    TableColumn,
    age,
    amounts,
    devices,
    fits,
    item_table,
    say,
    with_texts,
)
from admission.cli.times import is_duration, since_text
from queues.read_api.bodies import ListedBody, WorkloadList

#: States of the read API, by what people call them.
_STATES: Final = {
    "waiting": ("pending",),
    "running": ("admitted", "evicting"),
    "suspended": ("suspended",),
    "ended": ("finished",),
}
_DOES: Final = {"pending": "waits", "admitted": "runs", "suspended": "is suspended", "finished": "has ended"}
#: How far back ended workloads are listed if nothing else is said.
_USUAL_SINCE: Final = "24h"
#: Wider tables are shortened, where -o wide has what is left out.
_COLUMNS: Final = 80


@click.command(short_help="Workloads that wait, run or have ended, with their GPUs and nodes.")
@of_queue
@namespaces
@of_user
@click.option(
    "--state",
    "states",
    type=click.Choice(list(_STATES)),
    multiple=True,
    help="Only these; may be repeated [all but ended].",
)
@click.option(
    "--since",
    metavar="TIME",
    help=f"Also what ended since then: 2h, 3d, or 2026-11-21T10:00:00Z [with --state ended: {_USUAL_SINCE}].",
)
@most_lines("workloads")
@output
@route
def jobs(
    namespace: str | None,
    all_namespaces: bool,
    limit: int,
    output: Output,
    route: Route,
    **asked: Any,
) -> int:
    """Show workloads: what waits and why, what runs on which nodes, what is suspended, and with --since what has ended.

    GPUS is what a workload holds, asks for while it waits, or held last. Below what waits is why, and what to do.
    `kubectl muster explain` tells all of one, also after it was deleted.
    """
    here = chosen_namespace(namespace, all_namespaces, route, mine=bool(asked["mine"]))
    states = asked["states"]
    since = asked["since"] or (_USUAL_SINCE if "ended" in states else None)
    query = {
        "queue": asked["queue"],
        "namespace": here,
        "user": asked["user"],
        "mine": asked["mine"],
        "state": ",".join(each for state in states for each in _STATES[state]) or None,
        "since": since_text(since),
    }
    body = pages(route, "workloads", WorkloadList, query, limit=limit)
    if body.history_begins:
        say(f"What ended before {body.history_begins} is not known any more.", err=True)
    return output.show(
        body,
        lambda: jobs_table(body, output, everywhere=here is None),
        nothing=nothing_listed(body, query, since),
    )


def jobs_table(body: WorkloadList, output: Output, *, everywhere: bool) -> str:
    """One line per workload, by namespace and name, and below it why it waits. Without ``-o wide`` it is shortened if
    it is too long for a line.

    Where lines are still too long for the terminal, names are shortened, and there are fewer columns.
    """
    text = item_table(_columns(body.now, everywhere, short=False), body.items, replace(output, width=None))
    if output.is_wide:
        return text
    if not fits(text, _COLUMNS):
        text = item_table(_columns(body.now, everywhere, short=True), body.items, output)
    reasons = [_told(one) or NONE for one in body.items]
    return with_texts(text, reasons, output.room, title="REASON", is_beside=output.room is None)


def _columns(now: str, everywhere: bool, *, short: bool) -> list[TableColumn[ListedBody]]:
    return [
        *([TableColumn[ListedBody]("NAMESPACE", lambda one: one.namespace, least=9)] if everywhere else []),
        TableColumn("NAME", lambda one: one.name, least=14),
        TableColumn("KIND", lambda one: one.kind, goes=1),
        TableColumn("QUEUE", lambda one: one.queue, least=9),
        TableColumn(
            "USER", lambda one: (_short_user(one.user) if short else one.user) or None, least=8, goes=3
        ),
        TableColumn("STATE", state_word),
        TableColumn("GPUS", lambda one: devices(one.held or one.asks), right=True, wide=False),
        TableColumn("PRIORITY", lambda one: one.priority, right=True, wide=True),
        TableColumn("HOLDS", lambda one: amounts(one.held or one.asks, all_of_them=True), wide=True),
        TableColumn("PODS", lambda one: one.pods, right=True, goes=2),
        TableColumn("AGE", lambda one: age(one.created, now), right=True, goes=4),
        TableColumn("NODES", lambda one: _nodes(one, 1), least=22, wide=False),
        TableColumn("ADMITTED", lambda one: age(one.admitted, now), right=True, wide=True),
        TableColumn("ENDED", lambda one: age(one.ended, now), right=True, wide=True),
        TableColumn("NODES", lambda one: _nodes(one, len(one.nodes)), wide=True),
        TableColumn(
            "REASON",
            lambda one: _told(one, wide=True),
            wide=True,
        ),
    ]


def _told(one: ListedBody, *, wide: bool = False) -> str | None:
    """Why it waits and what to do, or what else is to be known of it; None for nothing."""
    if one.state == "suspended":
        return way_out(one)
    return ". ".join(filter(None, (reason_line(one.reason, wide=wide), *one.notes))) or None


def _short_user(user: str) -> str:
    """The name without what precedes the last colon, as of a service account, and without its realm."""
    name = user.rpartition(":")[2]
    return name.partition("@")[0] or name or user


def _nodes(one: ListedBody, most: int) -> str | None:
    """Names of at most so many nodes, and how many more there are. What is suspended has left its nodes."""
    if one.state == "suspended":
        return None
    shown = ",".join(one.nodes[:most])
    more = one.node_count - len(one.nodes[:most])
    return f"{shown}+{more}" if shown and more else shown or None


def nothing_listed(body: WorkloadList, query: Mapping[str, str | None], since: str | None) -> str:
    """The sentence for an empty list, with where else there are workloads. ``since``: as the user wrote it."""
    asked = (query["state"] or "pending,admitted").split(",") + (
        ["finished"] if since and not query["state"] else []
    )
    words = [word for state, word in _DOES.items() if state in asked]
    does = " or ".join([", ".join(words[:-1]), words[-1]] if words[:-1] else words)
    whose = of_whom(query)
    place = f" in namespace {query['namespace']}" if query["namespace"] else ""
    place += f" in queue {query['queue']}" if query["queue"] else ""
    lately = "" if since is None else f" in the last {since}" if is_duration(since) else f" since {since}"
    seen = "" if query["mine"] else " that you may see"
    text = f"No workload{whose}{seen} {does}{place}{lately}."
    elsewhere = body.total_everywhere - body.total
    if elsewhere:
        text += f" In other namespaces {elsewhere} {'does' if elsewhere == 1 else 'do'}: -A shows them."
    return text if since else f"{text} --since 2h shows what ended, too."
