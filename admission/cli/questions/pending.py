"""``kubectl muster pending``: the waiting workloads, their positions, and why they wait."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.options import chosen_namespace, most_lines, namespaces, route, without_labels
from admission.cli.output import Output, output
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.fitting import TableColumn, fits, item_table
from admission.cli.rendering.pods_of_owners import together
from admission.cli.rendering.sentences import say
from admission.cli.rendering.table import age, alike_in_short, amounts, one_line, short_names
from admission.read_api.bodies import PendingList, UserList, WaitingBody, WorkloadList
from queues.reason_codes import NEVER

L = TypeVar("L", PendingList, WorkloadList, UserList)

#: Lines in one answer of the read API.
LARGEST_PAGE: Final = 1000
#: Characters that a message needs at least to be read next to the other columns.
_LEAST_MESSAGE: Final = 34
#: Values that cannot be read and are shown below the table.
_MOST_WARNINGS: Final = 5
_INDENT: Final = "    "
#: Columns that are below each line where it has no room for messages, and what is left out then.
_BELOW: Final = ("PODS", "REASON", "MESSAGE")


@click.command(short_help="Waiting workloads: their positions, and why they wait.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@namespaces
@without_labels
@most_lines("workloads")
@click.option("--pods", is_flag=True, help="Pods of a Deployment or another owner on lines of their own.")
@output
@route
def pending(
    queue: str | None,
    namespace: str | None,
    all_namespaces: bool,
    limit: int,
    pods: bool,
    output: Output,
    route: Route,
) -> int:
    """Show waiting workloads: position in the queue, requests, age, expected start, and the reason.

    Positions count all workloads of the queue, in every namespace. Pods that wait one by one under an owner, such as a
    Deployment, are one line, with the position, the expected start and the reason of the first. The expected start is
    right 4 of 5 times; `explain` has it as times of day.
    """
    here = chosen_namespace(namespace, all_namespaces, kubeconfig=route.kubeconfig, context=route.context)
    asked = {"queue": queue, "namespace": here}
    body = pages(route, "pending", PendingList, asked, limit)
    code = told_age(body)
    text = output.document(body)
    if text is None:
        if body.items:
            shown = body if pods else structs.replace(body, items=tuple(together(body.items)))
            text = pending_table(shown, output, everywhere=all_namespaces)
            for line in ignored_lines(body.items):
                click.echo(line, err=True)
            if len(body.items) < body.total:
                say(f"{len(body.items)} of {body.total} shown; --limit shows more.", err=True)
        else:
            say(nothing_waits(body, here, queue), err=True)
            return code
    click.echo(output.fitted(text), nl=False)
    return code


def pages(route: Route, path: str, form: type[L], query: Mapping[str, str | None], limit: int) -> L:
    """A list of the read API with at most ``limit`` lines, fetched page by page."""
    items: list[Any] = []
    page: str | None = None
    while True:
        size = min(limit - len(items), LARGEST_PAGE)
        body = ask(route, path, form, {**query, "limit": str(size), "continue": page})
        items += body.items
        page = body.continue_
        if not page or len(items) >= limit:
            return structs.replace(body, items=tuple(items))


def pending_table(body: PendingList, output: Output, *, everywhere: bool) -> str:
    """One line per workload, by queue and position.

    If a line has no room for messages, reasons are below the lines.
    """
    columns, width = _columns(body, everywhere, output.is_wide), output.room
    text = item_table(columns, body.items, replace(output, width=None))
    if fits(text, width):
        return text
    without = item_table(columns[:-1], body.items, replace(output, width=None, headers=True))
    if width is None or fits(without, width - _LEAST_MESSAGE):
        return text
    first = replace(columns[0], name="POS")
    kept = [first, *(column for column in columns[1:] if column.name not in _BELOW)]
    reasons = [_reason_text(one) for one in body.items]
    return _with_messages(item_table(kept, body.items, output), reasons, width)


def _columns(body: PendingList, everywhere: bool, wide: bool) -> list[TableColumn[WaitingBody]]:
    now = body.now
    # Resources that are not shortened, as another one would be called the same.
    alike = alike_in_short({name for one in body.items for name in one.asks})
    return [
        TableColumn("POSITION", lambda one: one.position, right=True),
        *([TableColumn[WaitingBody]("NAMESPACE", lambda one: one.namespace, least=9)] if everywhere else []),
        TableColumn("WORKLOAD", lambda one: f"{one.kind}/{one.name}", least=16),
        TableColumn("QUEUE", lambda one: one.queue, least=8),
        TableColumn("PODS", lambda one: one.pods, right=True),
        TableColumn("ASKS", lambda one: amounts(one.asks, all_of_them=wide, alike=alike), least=8, goes=1),
        TableColumn("AGE", lambda one: age(one.created, now), right=True, goes=2),
        TableColumn("PRIORITY", lambda one: one.priority, right=True, wide=True),
        TableColumn("MINIMUM", lambda one: one.minimum, right=True, wide=True),
        TableColumn(
            "SINCE",
            lambda one: age(None if one.reason is None else one.reason.since, now),
            right=True,
            wide=True,
        ),
        TableColumn("EXPECTED", lambda one: expected_cell(one.expected, now), goes=3),
        TableColumn("REASON", lambda one: None if one.reason is None else one.reason.code),
        TableColumn("MESSAGE", lambda one: _message(one, wide)),
    ]


def _message(one: WaitingBody, wide: bool) -> str:
    if one.reason is None:
        return "not considered yet"
    message = one_line(one.reason.message)
    # What is wrong is in the name: it is said in full.
    return message if wide or one.reason.code in NEVER else short_names(message)


def ignored_lines(items: Iterable[WaitingBody]) -> list[str]:
    """Warnings of values that cannot be read; of the first of many workloads."""
    told = [
        f"Warning: {one.kind}/{one.name} in {one.namespace}: {one_line(sentence)}"
        for one in items
        for sentence in one.ignored_values
    ]
    more = len(told) - _MOST_WARNINGS
    return told if more <= 0 else [*told[:_MOST_WARNINGS], f"Warning: {more} more values cannot be read."]


def _reason_text(one: WaitingBody) -> str:
    """``QueueLimit: queue team-a may use …``."""
    message = _message(one, wide=False)
    return message if one.reason is None else f"{one.reason.code}: {message}"


def _with_messages(text: str, messages: Sequence[str], width: int) -> str:
    """A table with a message below each of its last lines, of at most two lines."""
    from textwrap import wrap

    lines = text.splitlines()
    head = lines[: len(lines) - len(messages)]
    for line, message in zip(lines[len(head) :], messages, strict=True):
        told = wrap(message, max(width - len(_INDENT), 20), max_lines=2, placeholder=" …")
        head += [line, *(_INDENT + each for each in told)]
    return "".join(f"{line}\n" for line in head)


def nothing_waits(body: PendingList, here: str | None, queue: str | None) -> str:
    """The sentence for an empty list, with where else workloads wait."""
    place = f" in namespace {here}" if here else ""
    place += f" in queue {queue}" if queue else ""
    elsewhere = body.total_everywhere - body.total
    return f"No workload that you may see waits{place}." + (
        f" In other namespaces {elsewhere} wait: -A shows them." if elsewhere else ""
    )
