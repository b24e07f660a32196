"""``kubectl muster quota``: what queues may use, and who changed that and why."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, takewhile
from typing import Final

import click
from msgspec import structs

from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.command_line import CommandGroup
from admission.cli.names import no_such_queue, shown_resource
from admission.cli.options import QUEUE, route
from admission.cli.output import Output, output
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
from admission.cli.times import PastTime, as_text
from queues.read_api.bodies import QueueBody, QueueList, QueueVersionList

#: Versions of a queue in one answer of the read API, and in a history without --limit.
PAGE: Final = 100
_USUAL: Final = 50
_NOT_FOUND: Final = 404


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
    pages = _pages(route, queue, below=below)
    first = next(pages)
    versions = (version for page in chain([first], pages) for version in page.items)
    recent = takewhile(lambda version: since is None or moment(version.at) >= since, versions)
    wanted = (version for version in recent if version.what != "other" or output.form != "table")
    found = list(islice(wanted, limit or (None if since else _USUAL)))
    cut = next(wanted, None) is not None

    def table() -> str:
        if not found:
            say(f"Queue {queue} was not changed{_since(since)}.", err=True)
        names = dict.fromkeys([queue, *(version.queue for version in found)] if below else [queue])
        of_each = {name: [one for one in found if not below or one.queue == name] for name in names}
        told = {name: ended_by_themselves(of, first.now) for name, of in of_each.items()}
        return history_table(told, output) if any(told.values()) else ""

    code = output.show(first, table, document={"name": queue, "items": found})
    if cut:
        say("There are older changes; --limit and --since show more.", err=True)
    return code


def _since(since: datetime | None) -> str:
    return "" if since is None else f" since {as_text(since)}"


def _pages(route: Route, queue: str, *, below: bool) -> Iterator[QueueVersionList]:
    """The versions of a queue, which may be gone, page by page, the newest first. Raises CommandFailed: there was none
    of that name."""
    from urllib.parse import quote

    path, after = f"queues/{quote(queue, safe='')}/versions", None
    while after != "":
        query = {"limit": str(PAGE), "continue": after, "below": "true" if below else None}
        try:
            page = ask(route, path, QueueVersionList, query)
        except Unanswered as error:
            if error.status != _NOT_FOUND:
                raise
            known = [each.name for each in ask(route, "queues", QueueList).items]
            raise no_such_queue(queue, known) from error
        yield page
        after = page.continue_
