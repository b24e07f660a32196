"""``kubectl muster quota``: what queues may use, and who changed that and why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import chain, islice, takewhile
from typing import Final, TypeVar

import click
from msgspec import structs

from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.command_line import CommandGroup
from admission.cli.options import QUEUE, removed_option, route
from admission.cli.output import Output, output
from admission.cli.queue_names import no_such_queue
from admission.cli.rendering.quota import (
    access_table,
    budgets_table,
    ended_by_themselves,
    history_table,
    limits_table,
    loan_problems,
    loans_table,
)
from admission.cli.rendering.terminal import moment, say
from admission.cli.resource_names import shown_resource
from admission.cli.times import PastTime, as_text
from queues.read_api.bodies import QueueBody, QueueList, QueueVersionBody, QueueVersionList

#: Versions of a queue in one answer of the read API, and in a history without --limit.
PAGE: Final = 100
_USUAL: Final = 50
_NOT_FOUND: Final = 404
T = TypeVar("T")


@click.group(
    cls=CommandGroup,
    package="admission.cli.plugin",
    places={"Commands": "quota:show quota_set:set_ quota_lend:lend quota:history"},
    short_help="Show and change what queues may use, with its history.",
)
def quota() -> None:
    """Show and change what queues may use, and who changed it when and why.

    TIME is how long ago (90m, 12h, 30d), a date, or a time in UTC (2026-11-20T14:00).
    """


@click.command(short_help="Limits and use of a queue and its children.")
@click.argument("queue", type=QUEUE)
@click.option("--resource", metavar="NAME", help="Only this resource, such as gpu or cpu.")
@removed_option(
    "--at", "`kubectl muster quota history QUEUE --since TIME` shows each change with what was before"
)
@output
@route
def show(queue: str, resource: str | None, output: Output, route: Route) -> int:
    """Show guarantee, deserved amount, capability and use of QUEUE and the queues directly below it.

    Use is that of the whole subtree. Deserved amounts are with the loans that last, which are listed below, as are
    budgets, and limits of users, gangs and run times.
    """
    body = ask(route, "queues", QueueList)
    body = structs.replace(body, items=_with_children(body.items, queue))
    if resource is not None:
        there = [line.resource for each in body.items for line in each.accounts]
        resource = shown_resource("--resource", resource, there)

    def shown() -> str:
        for problem in loan_problems(body.items):
            say(problem, err=True)
        tables = (
            limits_table(body.items, output, resource=resource),
            budgets_table(body.items, output, resource=resource),
            loans_table(body.items, output, resource=resource),
            access_table(body.items, output) if resource is None else "",
        )
        return "\n".join(filter(None, tables))

    return output.show(body, shown)


def _with_children(queues: Sequence[QueueBody], name: str) -> tuple[QueueBody, ...]:
    found = [each for each in queues if each.name == name]
    if not found:
        raise no_such_queue(name, [each.name for each in queues])
    return (*found, *(each for each in queues if each.parent == name))


@click.command(short_help="Who changed a queue when, what, and why.")
@click.argument("queue", type=QUEUE)
@click.option("--since", type=PastTime(), metavar="TIME", help="Only changes since then.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help=f"At most so many changes [{_USUAL}, with --since all].",
)
@click.option("--below", is_flag=True, help="Also changes of the queues below it.")
@output
@route
def history(
    queue: str, since: datetime | None, limit: int | None, below: bool, output: Output, route: Route
) -> int:
    """Show the changes of QUEUE, the newest first: the time, the user who wrote each, and which fields.

    A change is recorded shortly after it is made; changes while no replica of Muster leads are recorded as one.
    -o wide also shows versions in which something else than the spec changed, such as a queue that was closed.
    """
    most = limit or (None if since else _USUAL)
    names = _subtree(route, queue) if below else [queue]
    histories = {name: _pages(route, name) for name in names}
    first = {name: next(pages) for name, pages in histories.items()}
    of_each = [_named_versions(name, chain([first[name]], pages)) for name, pages in histories.items()]
    versions = merge(*of_each, key=lambda found: moment(found[1].at), reverse=True)
    recent = takewhile(lambda found: since is None or moment(found[1].at) >= since, versions)
    wanted = (found for found in recent if found[1].what != "other" or output.form != "table")
    found = list(islice(wanted, most))
    shown = {name: [version for of, version in found if of == name] for name in names}
    cut = next(wanted, None) is not None

    def table() -> str:
        if not found:
            say(f"Queue {queue} was not changed{_since(since)}.", err=True)
        told = {name: ended_by_themselves(of, first[name].now) for name, of in shown.items()}
        return history_table(told, output) if any(told.values()) else ""

    document, *others = ({"name": name, "items": of} for name, of in shown.items())
    code = output.show(first[queue], table, document={**document, "below": others} if below else document)
    if cut:
        say("There are older changes; --limit and --since show more.", err=True)
    return code


def _subtree(route: Route, queue: str) -> list[str]:
    """A queue, and those below it now."""
    from admission.cli.plugin.queues import below

    found = below(ask(route, "queues", QueueList).items, [queue])
    return [queue, *(each.name for each in found if each.name != queue)]


def _named_versions(name: str, pages: Iterable[QueueVersionList]) -> Iterator[tuple[str, QueueVersionBody]]:
    return ((name, version) for page in pages for version in page.items)


def _since(since: datetime | None) -> str:
    return "" if since is None else f" since {as_text(since)}"


def _pages(route: Route, queue: str) -> Iterator[QueueVersionList]:
    """The versions of a queue, page by page, the newest first."""
    after: str | None = None
    while after != "":
        page = _ask(route, queue, "versions", QueueVersionList, {"limit": str(PAGE), "continue": after})
        yield page
        after = page.continue_


def _ask(route: Route, queue: str, what: str, form: type[T], query: Mapping[str, str | None]) -> T:
    """What was recorded of a queue, which may be gone. Raises CommandFailed: there was none of that name."""
    from urllib.parse import quote

    try:
        return ask(route, f"queues/{quote(queue, safe='')}/{what}", form, query)
    except Unanswered as error:
        if error.status != _NOT_FOUND:
            raise
        raise no_such_queue(queue, [each.name for each in ask(route, "queues", QueueList).items]) from error
