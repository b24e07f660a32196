"""``kubectl muster events``: decisions about workloads, as they are made."""

import sys
import time
from collections.abc import Mapping
from typing import Final, NoReturn

import click

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.options import chosen_namespace, namespaces, route
from admission.cli.output import Output, output
from admission.cli.rendering.explanations.history import event_text
from admission.cli.rendering.terminal.sentences import say
from admission.cli.times import is_duration, since_text
from admission.read_api.bodies import DecisionBody, DecisionList

#: Seconds between two questions while it follows, at least.
_EVERY: Final = 1.0
#: Seconds after which it asks although no change was reported: a replica that is behind reports late.
_SELDOM: Final = 30.0
#: Decisions of one answer.
_PAGE: Final = 1000
_USUAL: Final = 50
#: Characters of a reason next to the other columns: with fewer, names are shortened, and reasons are below.
_LEAST_WHY: Final = 30


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
@click.option("-f", "--follow", is_flag=True, help="Go on with those that are made, until Ctrl-C.")
@output
@route
def events(
    namespace: str | None,
    all_namespaces: bool,
    queue: str | None,
    since: str | None,
    limit: int,
    follow: bool,
    output: Output,
    route: Route,
) -> int:
    """Show what Muster has decided about workloads, the newest last.

    These are all decisions, from its own history; events of Kubernetes tell some of them, and are gone after an
    hour. -f goes on with those that are made.
    """
    if follow and click.get_current_context().params.get("watch"):
        raise click.UsageError(
            "-f and -w exclude each other: -f goes on with new decisions, -w shows all again."
        )
    here = chosen_namespace(namespace, all_namespaces, kubeconfig=route.kubeconfig, context=route.context)
    query = {"queue": queue, "namespace": here, "since": since_text(since)}
    body = ask(route, "decisions", DecisionList, {**query, "limit": str(limit)})
    code = told_age(body)
    lines = _Lines(output, everywhere=here is None)
    if not body.items and not follow:
        place = f" in namespace {here}" if here else ""
        lately = f"since {since}" if since and not is_duration(since) else f"in the last {since or '24h'}"
        elsewhere = " -A shows those of other namespaces." if here else ""
        say(f"No decision{place} {lately} that you may see.{elsewhere}", err=True)
        return code
    lines.show(body, headers=True)
    if follow:
        _follow(route, query, body.continue_, lines)
    return code


def _follow(route: Route, query: Mapping[str, str | None], place: str, lines: "_Lines") -> NoReturn:
    """Print what is decided from now on, until Ctrl-C. Asks when something has changed, at most once a second."""
    from admission.cli.access.change_feed import ChangeFeed

    with ChangeFeed(route, polled=_EVERY).listening() as changes:
        while True:
            time.sleep(_EVERY)
            changes.wait(_SELDOM)
            body = ask(route, "decisions", DecisionList, {**query, "limit": str(_PAGE), "continue": place})
            place = body.continue_
            lines.show(body)


def _short_time(text: str) -> str:
    """``11-21 09:51:00`` of ``2026-11-21T09:51:00Z``, and the zone in the title; other texts stay."""
    return text[5:19].replace("T", " ") if text.endswith("Z") else text.replace("TIME", "TIME(UTC)")


class _Lines:
    """Prints decisions one after the other, so that columns have the same width from the first on."""

    def __init__(self, output: Output, *, everywhere: bool) -> None:
        self._output = output
        self._everywhere = everywhere
        self._widths = [20, *([12] if everywhere else []), 24, 14, 8, 0]
        #: For 80 columns, and in each what is more of the terminal.
        more = max((output.room or 0) - 80, 0)
        self._narrow = [14, *([10] if everywhere else []), 20 + more // 2, 12 + more // 3, 8, 0]

    def show(self, body: DecisionList, *, headers: bool = False) -> None:
        """Print the decisions of an answer."""
        items = body.items
        text = self._output.document(body if headers else {"items": items}) if headers or items else ""
        if text is None:
            names = ["TIME", *(["NAMESPACE"] if self._everywhere else []), "WORKLOAD", "QUEUE", "WHAT", "WHY"]
            rows = [self._cells(one) for one in items]
            # Wider than usual where the first answer has longer names.
            for row in rows if headers else ():
                self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
            self._widths[-1] = 0
            shown = [names, *rows] if headers and self._output.headers else rows
            text = self._output.fitted("".join(map(self._line, shown)))
        click.echo(text, nl=False)
        sys.stdout.flush()

    def _cells(self, one: DecisionBody) -> list[str]:
        from admission.cli.rendering.table import printable

        cells = [
            one.at,
            *([one.namespace] if self._everywhere else []),
            f"{one.kind}/{one.name}",
            one.queue,
            one.what,
            event_text(one, self._output.is_wide),
        ]
        return [printable(cell) for cell in cells]

    def _line(self, cells: list[str]) -> str:
        from admission.cli.rendering.terminal.fitting import shortened_name, with_text_below

        room, widths = self._output.room, self._widths
        if room is not None and sum(widths) + 3 * len(widths) + _LEAST_WHY > room:
            # The time without its year and zone; names as wide as there is room, whatever comes.
            cells, widths = [_short_time(cells[0]), *cells[1:]], self._narrow
        padded = (
            shortened_name(cell, width).ljust(width)
            for cell, width in zip(cells[:-1], widths[:-1], strict=True)
        )
        return with_text_below("   ".join(padded), cells[-1], room)
