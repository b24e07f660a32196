"""``kubectl muster pending``: the waiting workloads, their positions, and why they wait."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.options import chosen_namespace, most_lines, namespaces, route, selector
from admission.cli.output import Output, list_output
from admission.cli.questions.meant_queues import with_meant_queues
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.pods_of_owners import together
from admission.cli.rendering.table import Cell, age, alike_in_short, amounts, one_line, short_names, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.cli.rendering.terminal.sentences import say
from admission.read_api.bodies import PendingList, ReasonBody, UserList, WaitingBody, WorkloadList
from queues.reason_codes import NEVER

L = TypeVar("L", PendingList, WorkloadList, UserList)
Selectable = TypeVar("Selectable", PendingList, WorkloadList)

#: Workloads that are looked through for labels.
MOST_SCANNED: Final = 50_000
#: Lines in one answer of the read API.
LARGEST_PAGE: Final = 1000
#: Characters that a message needs at least to be read next to the other columns.
_LEAST_MESSAGE: Final = 34
#: Values that cannot be read and are shown below the table.
_MOST_WARNINGS: Final = 5
_NOT_CONSIDERED: Final = ReasonBody(code="", message="not considered yet")
_INDENT: Final = "    "
_NARROW: Final = Narrowing(
    names={"NAMESPACE": 9, "WORKLOAD": 16, "QUEUE": 8, "ASKS": 8}, left_out=("ASKS", "AGE", "EXPECTED")
)


@click.command(short_help="Waiting workloads: their positions, and why they wait.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@namespaces
@selector
@most_lines("workloads")
@click.option("--pods", is_flag=True, help="Pods of a Deployment or another owner on lines of their own.")
@list_output
@route
def pending(
    queue: str | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: str | None,
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
    body = selected(route, "pending", PendingList, asked, limit, selector)
    code = told_age(body)
    body = structs.replace(body, items=tuple(output.sorted(body.items)))
    text = output.document(body)
    if text is None:
        body = structs.replace(body, items=tuple(with_meant_queues(route, body.items)))
        if body.items:
            text = pending_table(
                body if pods else structs.replace(body, items=tuple(together(body.items))),
                everywhere=all_namespaces,
                wide=output.is_wide,
                headers=output.headers,
                width=output.room,
            )
            for line in ignored_lines(body.items):
                click.echo(line, err=True)
            if len(body.items) < body.total:
                say(f"{len(body.items)} of {body.total} shown; --limit shows more.", err=True)
        else:
            say(nothing_waits(body, here, queue, selector), err=True)
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


def selected(
    route: Route,
    path: str,
    form: type[Selectable],
    query: Mapping[str, str | None],
    limit: int,
    selector: str | None,
) -> Selectable:
    """As ``pages``, with only those whose objects have the labels of a selector. ``selector``: None for all."""
    if selector is None:
        return pages(route, path, form, query, limit)
    from admission.cli.access.labels import with_labels

    return with_labels(pages(route, path, form, query, MOST_SCANNED), selector, limit, route)


def pending_table(
    body: PendingList,
    *,
    everywhere: bool,
    wide: bool,
    headers: bool,
    width: int | None = None,
    messages: bool = True,
) -> str:
    """One line per workload, by queue and position.

    If a line of ``width`` characters (None for any number) has no room for messages, reasons are below the lines.
    Without ``messages`` there are only their codes.
    """
    columns = [
        "POSITION",
        "NAMESPACE",
        "WORKLOAD",
        "QUEUE",
        "PODS",
        "ASKS",
        "AGE",
        "EXPECTED",
        "REASON",
        "MESSAGE",
    ]
    if wide:
        columns[7:7] = ["PRIORITY", "MINIMUM", "SINCE"]
    alike = alike_in_short({name for one in body.items for name in one.asks})
    rows = [_row(one, body.now, wide, alike) for one in body.items]
    if not everywhere:
        columns.pop(1)
        for row in rows:
            row.pop(1)
    numbers = "POSITION PODS AGE PRIORITY MINIMUM SINCE"
    text = table(columns, rows, headers=headers, right=numbers)
    if wide or width is None or max(map(len, text.splitlines()), default=0) <= width:
        return text
    before = max(len(line) for line in table(columns[:-1], [row[:-1] for row in rows]).splitlines())
    if width - before >= _LEAST_MESSAGE:
        return text
    left_out = ("PODS", "REASON", "MESSAGE") if messages else ("PODS", "EXPECTED", "MESSAGE")
    kept = [index for index, name in enumerate(columns) if name not in left_out]
    narrow = ["POS" if columns[index] == "POSITION" else columns[index] for index in kept]
    cells = [[row[index] for index in kept] for row in rows]
    short = fitted_table(narrow, cells, _NARROW, width=width, headers=headers, right=f"POS {numbers}")
    return _with_messages(short, [_reason_text(row) for row in rows], width) if messages else short


def ignored_lines(items: Iterable[WaitingBody]) -> list[str]:
    """Warnings of values that cannot be read; of the first of many workloads."""
    told = [
        f"Warning: {one.kind}/{one.name} in {one.namespace}: {one_line(sentence)}"
        for one in items
        for sentence in one.ignored_values
    ]
    more = len(told) - _MOST_WARNINGS
    return told if more <= 0 else [*told[:_MOST_WARNINGS], f"Warning: {more} more values cannot be read."]


def _reason_text(row: Sequence[Cell]) -> str:
    """``QueueLimit: queue team-a may use …``."""
    return f"{row[-2]}: {row[-1]}" if row[-2] else str(row[-1])


def _with_messages(text: str, messages: Sequence[str], width: int) -> str:
    """A table with a message below each of its last lines, of at most two lines."""
    from textwrap import wrap

    lines = text.splitlines()
    head = lines[: len(lines) - len(messages)]
    for line, message in zip(lines[len(head) :], messages, strict=True):
        told = wrap(message, max(width - len(_INDENT), 20), max_lines=2, placeholder=" …")
        head += [line, *(_INDENT + each for each in told)]
    return "".join(f"{line}\n" for line in head)


def _row(one: WaitingBody, now: str, wide: bool, alike: Collection[str]) -> list[Cell]:
    """``alike``: resources that are not shortened, as another one would be called the same."""
    reason = one.reason or _NOT_CONSIDERED
    # What is wrong is in the name: it is told in full.
    is_whole = wide or reason.code in NEVER
    row: list[Cell] = [
        one.position,
        one.namespace,
        f"{one.kind}/{one.name}",
        one.queue,
        one.pods,
        amounts(one.asks, all_of_them=wide, alike=alike),
        age(one.created, now),
        expected_cell(one.expected, now),
        reason.code or None,
        one_line(reason.message) if is_whole else short_names(one_line(reason.message)),
    ]
    if wide:
        row[7:7] = [one.priority, one.minimum, age(reason.since, now)]
    return row


def nothing_waits(body: PendingList, here: str | None, queue: str | None, selector: str | None = None) -> str:
    """The sentence for an empty list, with where else workloads wait."""
    labels = f" with the labels {selector}" if selector else ""
    place = f" in namespace {here}" if here else ""
    place += f" in queue {queue}" if queue else ""
    elsewhere = body.total_everywhere - body.total
    return f"No workload{labels} that you may see waits{place}." + (
        f" In other namespaces {elsewhere} wait: -A shows them." if elsewhere else ""
    )
