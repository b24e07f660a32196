"""``kubectl muster top``: the queues and the first waiting workloads, shown again as they change."""

import sys

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route, ask
from admission.cli.objects.queues import below, chosen_resource, overview_table
from admission.cli.options import route
from admission.cli.output import Output, chosen_colour, color_option, watched
from admission.cli.questions.pending import pages, pending_table
from admission.cli.queue_names import no_such_queue
from admission.cli.rendering.pods_of_owners import together
from admission.cli.rendering.terminal.sentences import columns_of
from admission.read_api.bodies import PendingList, QueueList

#: Lines of a terminal that are neither queues nor waiting workloads; and where it is not known how many there are.
_FRAME = 5
_LINES = 40
#: Waiting workloads that are shown at least, and asked for at most.
_FEWEST, _MOST = 3, 200


@click.command(short_help="Queues and the first waiting workloads, live.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@click.option(
    "--resource", metavar="NAME", help="Resource to show, such as gpu or cpu [gpu, or what there is]."
)
@click.option("--once", is_flag=True, help="Show it once.")
@color_option
@route
def top(queue: str | None, resource: str | None, once: bool, color: str, route: Route) -> int:
    """Show the tree of queues and the workloads that wait in them, in all namespaces, until Ctrl-C.

    As many waiting workloads as the terminal has room for, by queue and position.
    """
    has_colour = chosen_colour(color)

    def show() -> int:
        import shutil

        size = shutil.get_terminal_size((80, _LINES))
        output = Output(width=columns_of(sys.stdout), has_colour=has_colour)
        return _show(route, queue, resource, output, size.lines)

    return show() if once else watched(show)


def _show(route: Route, queue: str | None, resource: str | None, output: Output, lines: int) -> int:
    body = ask(route, "queues", QueueList)
    code = told_age(body)
    chosen = below(body.items, [queue] if queue else ())
    if queue and not chosen:
        raise no_such_queue(queue, [each.name for each in body.items])
    shown_use = chosen_resource(resource, body.items)
    tree = overview_table(chosen, resource=shown_use, width=output.width)
    room = max(_FEWEST, lines - _FRAME - len(tree.splitlines()))
    waiting = pages(route, "pending", PendingList, {"queue": queue}, _MOST)
    shown = together(waiting.items)[:room]
    text = tree + "\n"
    if shown:
        text += pending_table(
            structs.replace(waiting, items=tuple(shown)),
            everywhere=True,
            wide=False,
            headers=True,
            width=output.width,
            messages=False,
        )
    text += f"{waiting.total} waiting that you may see\n"
    click.echo(output.fitted(text), nl=False)
    return code
