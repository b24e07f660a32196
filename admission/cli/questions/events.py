"""``kubectl muster events``: decisions about workloads, in the order in which they were made."""

from functools import partial
from typing import Final

import click

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.options import chosen_namespace, namespaces, route
from admission.cli.output import Output, output
from admission.cli.removed import removed_option
from admission.cli.rendering.fitting import LEAST_BESIDE, Narrowing, fitted_table, with_text_below
from admission.cli.rendering.history import event_text
from admission.cli.rendering.sentences import say
from admission.cli.rendering.table import printable, table
from admission.cli.times import is_duration, since_text
from admission.read_api.bodies import DecisionList

#: Decisions of one answer.
_PAGE: Final = 1000
_USUAL: Final = 50
_NARROW: Final = Narrowing(names={"NAMESPACE": 9, "WORKLOAD": 20, "QUEUE": 12})


@click.command(short_help="Decisions about workloads: admitted, evicted, given back, and why.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@namespaces
@click.option("--since", metavar="TIME", help="Not before: 2h, 3d, or 2026-11-21T10:00:00Z [24h].")
@click.option(
    "--limit",
    type=click.IntRange(1, _PAGE),
    default=_USUAL,
    show_default=True,
    help="The newest, at most so many.",
)
@removed_option("-f", "-w shows the latest decisions again whenever there is one")
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
    here = chosen_namespace(namespace, all_namespaces, kubeconfig=route.kubeconfig, context=route.context)
    query = {"queue": queue, "namespace": here, "since": since_text(since), "limit": str(limit)}
    body = ask(route, "decisions", DecisionList, query)
    code = told_age(body)
    if not body.items:
        place = f" in namespace {here}" if here else ""
        lately = f"since {since}" if since and not is_duration(since) else f"in the last {since or '24h'}"
        elsewhere = " -A shows those of other namespaces." if here else ""
        say(f"No decision{place} {lately} that you may see.{elsewhere}", err=True)
        return code
    text = output.document(body)
    if text is None:
        text = _table(body, output, everywhere=here is None)
    click.echo(text, nl=False)
    return code


def _table(body: DecisionList, output: Output, *, everywhere: bool) -> str:
    """One line for each decision. Where a line has no room for its reason, this is below, and times have no year."""
    columns = ["TIME", *(["NAMESPACE"] if everywhere else []), "WORKLOAD", "QUEUE", "WHAT"]
    rows = [
        [one.at, *([one.namespace] if everywhere else []), f"{one.kind}/{one.name}", one.queue, one.what]
        for one in body.items
    ]
    reasons = [printable(event_text(one, output.is_wide)) for one in body.items]
    text, room = table(columns, rows, headers=output.headers), output.room
    if room is not None and max(map(len, text.splitlines())) + LEAST_BESIDE > room:
        short = [[at[5:19].replace("T", " "), *names] for at, *names in rows]
        columns[0] = "TIME(UTC)"
        text = fitted_table(columns, short, _NARROW, width=room, headers=output.headers)
    whys = [*(["WHY"] if output.headers else []), *reasons]
    return "".join(map(partial(with_text_below, width=room), text.splitlines(), whys))
