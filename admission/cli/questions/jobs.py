"""``kubectl muster jobs``: the workloads that wait, run or have ended."""

from collections.abc import Mapping
from typing import Any, Final

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route
from admission.cli.options import chosen_namespace, most_lines, namespaces, route, selector
from admission.cli.output import Output, list_output
from admission.cli.questions.pending import selected
from admission.cli.rendering.explanations.history import is_suspended
from admission.cli.rendering.table import Cell, age, amounts, devices, one_line
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.cli.rendering.terminal.sentences import say
from admission.cli.times import is_duration, since_text
from admission.read_api.bodies import ListedBody, WorkloadList

#: States of the read API, by what people call them.
_STATES: Final = {
    "waiting": ("pending",),
    "running": ("admitted", "evicting"),
    "suspended": ("suspended",),
    "ended": ("finished",),
}
#: What the column STATE says of a state of the read API.
_SHOWN: Final = {"pending": "waiting", "admitted": "running", "evicting": "evicting"}
_DOES: Final = {"pending": "waits", "admitted": "runs", "suspended": "is suspended", "finished": "has ended"}
#: How far back ended workloads are listed if nothing else is said.
_USUAL_SINCE: Final = "24h"
#: Wider tables are shortened, where -o wide has what is left out.
_COLUMNS: Final = 80
_NARROW: Final = Narrowing(
    names={"NAMESPACE": 9, "NAME": 14, "QUEUE": 9, "USER": 8, "NODES(REASON)": 22},
    left_out=("KIND", "PODS", "USER", "AGE"),
)


@click.command(short_help="Workloads that wait, run or have ended, with their GPUs and nodes.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@namespaces
@click.option("--user", metavar="USER", help="Only what this user created.")
@click.option("--mine", is_flag=True, help="Only what you created.")
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
@selector
@most_lines("workloads")
@list_output
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

    GPUS is what a workload holds, asks for while it waits, or held last. NODES(REASON) has the nodes, or why it waits.
    `kubectl muster explain` tells all of one, also after it was deleted.
    """
    if asked["user"] and asked["mine"]:
        raise click.UsageError("--user and --mine exclude each other.")
    here = chosen_namespace(namespace, all_namespaces, kubeconfig=route.kubeconfig, context=route.context)
    states = asked["states"]
    since = asked["since"] or (_USUAL_SINCE if "ended" in states else None)
    query = {
        "queue": asked["queue"],
        "namespace": here,
        "user": asked["user"],
        "mine": "true" if asked["mine"] else None,
        "state": ",".join(each for state in states for each in _STATES[state]) or None,
        "since": since_text(since),
    }
    body = selected(route, "workloads", WorkloadList, query, limit, asked["selector"])
    code = told_age(body)
    if body.history_begins:
        say(f"What ended before {body.history_begins} is not known any more.", err=True)
    body = structs.replace(body, items=tuple(output.sorted(body.items)))
    text = output.document(body)
    if text is None:
        if not body.items:
            say(nothing_listed(body, {**query, "labels": asked["selector"]}, since), err=True)
            return code
        text = jobs_table(
            body,
            everywhere=all_namespaces,
            wide=output.is_wide,
            headers=output.headers,
            width=output.room,
        )
        if len(body.items) < body.total:
            say(f"{len(body.items)} of {body.total} shown; --limit shows more.", err=True)
    click.echo(output.fitted(text), nl=False)
    return code


def jobs_table(
    body: WorkloadList, *, everywhere: bool, wide: bool, headers: bool, width: int | None = None
) -> str:
    """One line per workload, by namespace and name. Without ``wide`` it is shortened if it is too long for a line.

    ``width``: of the terminal, None if it is none. Where lines are still too long, names are shortened, and there are
    fewer columns.
    """
    text = _table(body, everywhere, wide, headers, short=False)
    if wide or max(map(len, text.splitlines())) <= _COLUMNS:
        return text
    return _table(body, everywhere, wide, headers, short=True, width=width)


def _table(
    body: WorkloadList,
    everywhere: bool,
    wide: bool,
    headers: bool,
    *,
    short: bool,
    width: int | None = None,
) -> str:
    columns = ["NAME", "KIND", "QUEUE", "USER", "STATE", "GPUS", "PODS", "AGE", "NODES(REASON)"]
    if wide:
        columns[5:6] = ["PRIORITY", "HOLDS"]
        columns[-1:] = ["ADMITTED", "ENDED", "NODES", "REASON"]
    if everywhere:
        columns.insert(0, "NAMESPACE")
    rows = [_row(one, body.now, everywhere, wide, short) for one in body.items]
    right = "GPUS PODS AGE PRIORITY ADMITTED ENDED"
    return fitted_table(columns, rows, _NARROW, width=width, headers=headers, right=right)


def _row(one: ListedBody, now: str, everywhere: bool, wide: bool, short: bool) -> list[Cell]:
    row: list[Cell] = [
        *([one.namespace] if everywhere else []),
        one.name,
        one.kind,
        one.queue,
        (_short_user(one.user) if short else one.user) or None,
        _SHOWN.get(one.state) or one.result or ("suspended" if is_suspended(one) else "ended"),
    ]
    takes = one.held or one.asks
    if wide:
        row += [one.priority, amounts(takes, all_of_them=True)]
    else:
        row.append(devices(takes))
    row += [one.pods, age(one.created, now)]
    reason = one.reason
    if wide:
        admitted, ended = age(one.admitted, now), age(one.ended, now)
        told = f"{reason.code}: {one_line(reason.message)}" if reason else None
        return [*row, admitted, ended, _nodes(one, len(one.nodes)), told]
    waits = f"({reason.code})" if reason else None
    return [*row, waits if one.state == "pending" else _nodes(one, 1)]


def _short_user(user: str) -> str:
    """The name without what precedes the last colon, as of a service account, and without its realm."""
    name = user.rpartition(":")[2]
    return name.partition("@")[0] or name or user


def _nodes(one: ListedBody, most: int) -> str | None:
    """Names of at most so many nodes, and how many more there are."""
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
    whose = f" of {query['user']}" if query["user"] else " of yours" if query["mine"] else ""
    place = f" in namespace {query['namespace']}" if query["namespace"] else ""
    place += f" in queue {query['queue']}" if query["queue"] else ""
    lately = "" if since is None else f" in the last {since}" if is_duration(since) else f" since {since}"
    labels = f" with the labels {query['labels']}" if query.get("labels") else ""
    seen = "" if query["mine"] else " that you may see"
    text = f"No workload{whose}{labels}{seen} {does}{place}{lately}."
    elsewhere = body.total_everywhere - body.total
    if elsewhere:
        text += f" In other namespaces {elsewhere} {'does' if elsewhere == 1 else 'do'}: -A shows them."
    return text if since else f"{text} --since 2h shows what ended, too."
