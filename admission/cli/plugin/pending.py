"""``kubectl muster pending``: the waiting workloads, their positions, and why they wait."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import click
from msgspec import structs

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
from admission.cli.rendering.expected import expected_cell
from admission.cli.rendering.explanation import reason_line, reason_message
from admission.cli.rendering.terminal import (
    TableColumn,
    age,
    alike_in_short,
    amounts,
    amounts_together,
    fits,
    item_table,
    one_line,
    with_texts,
)
from queues.read_api.bodies import PendingList, ReasonBody, WaitingBody
from queues.reason_codes import NEVER

#: Characters that a reason needs at least to be read next to the other columns; with fewer it is below them.
_LEAST_BESIDE: Final = 60
#: Values that cannot be read and are shown below the table.
_MOST_WARNINGS: Final = 5
#: Columns that are below each line where it has no room for them.
_BELOW: Final = ("REASON", "MESSAGE")
#: Title of what waits for its owner to change it.
_NEVER: Final = "Waiting does not help these"


@click.command(short_help="Waiting workloads: their positions, and why they wait.")
@of_queue
@namespaces
@most_lines("workloads")
@of_user
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
    **whose: str | None,
) -> int:
    """Show waiting workloads: position in the queue, requests, age, expected start, and the reason with what to do.

    What can never start as it is comes last. Positions count all workloads of the queue, in every namespace. Pods that
    wait one by one under an owner, such as a Deployment, are one line, with the position, the expected start and the
    reason of the first. The expected start is right 4 of 5 times; `explain` has it as times of day.
    """
    here = chosen_namespace(namespace, all_namespaces, route, mine=bool(whose["mine"]))
    query = {"queue": queue, "namespace": here, **whose}
    body = pages(route, "pending", PendingList, query, limit=limit)

    def shown() -> str:
        for line in ignored_lines(body.items):
            click.echo(line, err=True)
        lines = body if pods else structs.replace(body, items=tuple(together(body.items)))
        return pending_table(lines, output, everywhere=here is None)

    return output.show(body, shown, nothing=nothing_waits(body, here, queue, of_whom(whose)))


def pending_table(body: PendingList, output: Output, *, everywhere: bool) -> str:
    """One line per workload, by queue and position; then those that never fit.

    Reasons go on below themselves, or are below the lines where these leave no room for them: nothing of them is cut.
    """
    return "".join(
        (f"{title}:\n" if title else "") + _table(body, items, output, everywhere=everywhere)
        for title, items in in_groups(body.items)
    )


def in_groups(items: Sequence[WaitingBody]) -> list[tuple[str, list[WaitingBody]]]:
    """What is in line, without a title, and then what never fits; of each group that has any."""
    stuck = {one.uid for one in items if one.reason is not None and one.reason.code in NEVER}
    groups = (
        ("", [one for one in items if one.uid not in stuck]),
        (_NEVER, [one for one in items if one.uid in stuck]),
    )
    return [(title, group) for title, group in groups if group]


def _table(body: PendingList, items: Sequence[WaitingBody], output: Output, *, everywhere: bool) -> str:
    columns, width = _columns(body, everywhere, output.is_wide), output.room
    any_width = replace(output, width=None)
    if width is None:
        return item_table(columns, items, output)
    lines = item_table(columns[:-1], items, any_width)
    if fits(lines, width - _LEAST_BESIDE):
        return with_texts(lines, [_message(one, wide=False) for one in items], width, title=columns[-1].name)
    kept = [replace(columns[0], name="POS"), *(each for each in columns[1:] if each.name not in _BELOW)]
    if not fits(item_table(kept, items, any_width), width):
        kept = [each for each in kept if each.name != "PODS"]
    reasons = [reason_line(one.reason) or _message(one, wide=False) for one in items]
    return with_texts(item_table(kept, items, output), reasons, width, is_beside=False)


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
        TableColumn("MESSAGE", lambda one: _message(one, wide=wide)),
    ]


def _message(one: WaitingBody, *, wide: bool) -> str:
    return "not considered yet" if one.reason is None else reason_message(one.reason, wide=wide)


def ignored_lines(items: Iterable[WaitingBody]) -> list[str]:
    """Warnings of values that cannot be read; of the first of many workloads."""
    told = [
        f"Warning: {one.kind}/{one.name} in {one.namespace}: {one_line(sentence)}"
        for one in items
        for sentence in one.ignored_values
    ]
    more = len(told) - _MOST_WARNINGS
    return told if more <= 0 else [*told[:_MOST_WARNINGS], f"Warning: {more} more values cannot be read."]


def nothing_waits(body: PendingList, here: str | None, queue: str | None, whose: str = "") -> str:
    """The sentence for an empty list, with where else workloads wait. ``whose``: of which user."""
    place = f" in namespace {here}" if here else ""
    place += f" in queue {queue}" if queue else ""
    elsewhere = body.total_everywhere - body.total
    return f"No workload{whose} that you may see waits{place}." + (
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
        asks=amounts_together(item.asks for item in items),
        created=min((item.created for item in items if item.created), default=None),
        reason=_reason(items),
    )


def _reason(items: Sequence[WaitingBody]) -> ReasonBody | None:
    reason = items[0].reason
    if reason is None:
        return None
    others = sum(item.reason is None or item.reason.code != reason.code for item in items)
    if not others:
        return reason
    waits = "1 pod waits" if others == 1 else f"{others} pods wait"
    return structs.replace(reason, message=f"{reason.message} ({waits} for another reason)")
