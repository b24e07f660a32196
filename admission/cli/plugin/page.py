"""``kubectl muster page``: queues, waiting workloads and nodes in a browser, with the user's own rights."""

import sys
import threading

import click

from admission.cli.access.requests import Route, ask
from admission.cli.command_line import CommandFailed
from admission.cli.options import price, prices_of, route
from queues.read_api.bodies import QueueList


@click.command(short_help="Queues, waiting workloads and nodes in a browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Port to listen on [any]."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@price
@route
def page(port: int, no_browser: bool, prices: str | None, route: Route) -> None:
    """Show queues, waiting workloads and nodes as a page that follows what happens, until Ctrl-C.

    The page is served on this computer only, and what it shows is asked for with your own credentials: it shows what
    you may see. Its address has a secret; everyone who has it sees the same until the command ends.
    """
    from admission.cli.access.change_feed import ChangeFeed
    from admission.cli.page.local import PageServer
    from admission.cli.page.views import Views

    views = Views(route=route, prices=prices_of(prices))
    ask(route, "queues", QueueList)  # what is wrong with the cluster is better said here
    try:
        server = PageServer(views.show, ChangeFeed(route), port=port, cluster=route.context or "")
    except OSError as error:
        raise CommandFailed(
            tried=f"Listening on port {port} of this computer",
            found=error.strerror or str(error),
            hint="Another port: --port PORT.",
        ) from error
    click.echo(f"The page is at {server.url}\nCtrl-C ends it.")
    sys.stdout.flush()
    if not no_browser:
        threading.Thread(target=click.launch, args=(server.url,), daemon=True).start()
    server.serve_until_ended()
