"""``kubectl muster pending``: the waiting workloads, their positions, and why they wait."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import click
from msgspec import structs

from admission.cli.access.requests import Route, pages
from admission.cli.options import chosen_namespace, most_lines, namespaces, of_queue, route, without_labels
from admission.cli.output import Output, output
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.terminal import (
    TableColumn,
    age,
    alike_in_short,
    amounts,
    fits,
    item_table,
    one_line,
    short_names,
    with_texts,
)
from queues.read_api.bodies import PendingList, ReasonBody, WaitingBody
from queues.reason_codes import NEVER

#: Characters that a message needs at least to be read next to the other columns.
_LEAST_MESSAGE: Final = 34
#: Values that cannot be read and are shown below the table.
_MOST_WARNINGS: Final = 5
#: Columns that are below each line where it has no room for messages, and what is left out then.
_BELOW: Final = ("PODS", "REASON", "MESSAGE")


@click.command(short_help="Waiting workloads: their positions, and why they wait.")
@of_queue
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
    here = chosen_namespace(namespace, all_namespaces, route)
    body = pages(route, "pending", PendingList, {"queue": queue, "namespace": here}, limit=limit)

    def shown() -> str:
        for line in ignored_lines(body.items):
            click.echo(line, err=True)
        lines = body if pods else structs.replace(body, items=tuple(together(body.items)))
        return pending_table(lines, output, everywhere=all_namespaces)

    return output.show(body, shown, nothing=nothing_waits(body, here, queue))


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
    return with_texts(item_table(kept, body.items, output), reasons, width, is_beside=False)


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


def nothing_waits(body: PendingList, here: str | None, queue: str | None) -> str:
    """The sentence for an empty list, with where else workloads wait."""
    place = f" in namespace {here}" if here else ""
    place += f" in queue {queue}" if queue else ""
    elsewhere = body.total_everywhere - body.total
    return f"No workload that you may see waits{place}." + (
        f" In other namespaces {elsewhere} wait: -A shows them." if elsewhere else ""
    )


def together(items: Sequence[WaitingBody]) -> list[WaitingBody]:
    """The items of a PendingList, with those of one owner in one queue in place of the first of them.

    That line has the position, the priority and the reason of the first, the pods and the requests of all, and the age
    of the oldest. Where they wait for different reasons, its message counts those with another code.
    """
    found: dict[tuple[str, ...], list[WaitingBody]] = {}
    for item in items:
        owner = item.owner
        key = (item.uid,) if owner is None else (item.queue, item.namespace, owner.kind, owner.name)
        found.setdefault(key, []).append(item)
    return [_line(each) if len(each) > 1 else each[0] for each in found.values()]


def _line(items: Sequence[WaitingBody]) -> WaitingBody:
    first = items[0]
    owner = first.owner
    pods = sum(item.pods for item in items)
    assert owner is not None, "of several workloads"
    return structs.replace(
        first,
        kind=owner.kind,
        name=f"{owner.name} ({pods} pods)",
        pods=pods,
        asks=_sum(items),
        created=min((item.created for item in items if item.created), default=None),
        reason=_reason(items),
    )


def _sum(items: Sequence[WaitingBody]) -> dict[str, str]:
    from queues.resources import amount, show

    units: dict[str, int] = {}
    for item in items:
        for resource, text in item.asks.items():
            units[resource] = units.get(resource, 0) + amount(resource, text)
    return {resource: show(resource, found) for resource, found in units.items()}


def _reason(items: Sequence[WaitingBody]) -> ReasonBody | None:
    reason = items[0].reason
    if reason is None:
        return None
    others = sum(item.reason is None or item.reason.code != reason.code for item in items)
    if not others:
        return reason
    waits = "1 pod waits" if others == 1 else f"{others} pods wait"
    return structs.replace(reason, message=f"{reason.message} ({waits} for another reason)")
