"""``kubectl muster events``: decisions about workloads, in the order in which they were made."""

from dataclasses import replace
from typing import Final

import click

from admission.cli.access.requests import Route, ask
from admission.cli.options import chosen_namespace, namespaces, of_queue, route
from admission.cli.output import Output, output
from admission.cli.rendering.explanation import event_text
from admission.cli.rendering.terminal import (
    LEAST_BESIDE,
    TableColumn,
    fits,
    item_table,
    with_texts,
)
from admission.cli.times import is_duration, since_text
from queues.read_api.bodies import DecisionBody, DecisionList
from queues.text_format import printable

#: Decisions of one answer.
_PAGE: Final = 1000
_USUAL: Final = 50


@click.command(short_help="Decisions about workloads: admitted, evicted, given back, and why.")
@of_queue
@namespaces
@click.option("--since", metavar="TIME", help="Not before: 2h, 3d, or 2026-11-21T10:00:00Z [24h].")
@click.option(
    "--limit",
    type=click.IntRange(1, _PAGE),
    default=_USUAL,
    show_default=True,
    help="The newest, at most so many.",
)
@output
@route
def events(
    namespace: str | None,
    all_namespaces: bool,
    queue: str | None,
    since: str | None,
    limit: int,
    output: Output,
    route: Route,
) -> int:
    """Show what Muster has decided about workloads, the newest last.

    These are all decisions, from its own history; events of Kubernetes tell some of them, and are gone after an
    hour.
    """
    here = chosen_namespace(namespace, all_namespaces, route)
    query = {"queue": queue, "namespace": here, "since": since_text(since), "limit": str(limit)}
    body = ask(route, "decisions", DecisionList, query)
    place = f" in namespace {here}" if here else ""
    lately = f"since {since}" if since and not is_duration(since) else f"in the last {since or '24h'}"
    elsewhere = " -A shows those of other namespaces." if here else ""
    return output.show(
        body,
        lambda: _table(body, output, everywhere=here is None),
        nothing=f"No decision{place} {lately} that you may see.{elsewhere}",
    )


def _table(body: DecisionList, output: Output, *, everywhere: bool) -> str:
    """One line for each decision. Where a line has no room for its reason, this is below, and times have no year."""

    def lines(*, short: bool) -> str:
        at = (
            TableColumn[DecisionBody]("TIME(UTC)", lambda one: one.at[5:19].replace("T", " "))
            if short
            else TableColumn[DecisionBody]("TIME", lambda one: one.at)
        )
        columns = [
            at,
            *(
                [TableColumn[DecisionBody]("NAMESPACE", lambda one: one.namespace, least=9)]
                if everywhere
                else []
            ),
            TableColumn[DecisionBody]("WORKLOAD", lambda one: f"{one.kind}/{one.name}", least=20),
            TableColumn[DecisionBody]("QUEUE", lambda one: one.queue, least=12),
            TableColumn[DecisionBody]("WHAT", lambda one: one.what),
        ]
        return item_table(columns, body.items, output if short else replace(output, width=None))

    text = lines(short=False)
    if not fits(text, output.narrowed(LEAST_BESIDE).room):
        text = lines(short=True)
    reasons = [printable(event_text(one)) for one in body.items]
    return with_texts(text, reasons, output.room, title="WHY")
