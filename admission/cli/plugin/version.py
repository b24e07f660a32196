"""``kubectl muster version``: this plugin's version, and those of what it talks to."""

from collections.abc import Callable
from typing import TypeVar

import click

from admission.cli.access.requests import Route, ask
from admission.cli.options import route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import say
from queues.errors import MusterError
from queues.read_api.bodies import VersionBody

T = TypeVar("T")


@click.command(short_help="Versions of the plugin, of Muster and of Kubernetes.")
@click.option("--client", is_flag=True, help="Only that of the plugin; no cluster is asked.")
@output
@route
def version(client: bool, output: Output, route: Route) -> int:
    """Show the versions of this plugin, of the Muster in the cluster with its plug-ins, and of the cluster."""
    from importlib.metadata import version as version_of

    body: dict[str, str | None] = {"client": version_of("muster")}
    plugins: tuple[str, ...] = ()
    if not client:
        from admission.cli.access.objects import send

        server = _known("Muster", lambda: ask(route, "version", VersionBody))
        body["server"] = None if server is None else server.version
        plugins = () if server is None else server.plugins
        body["kubernetes"] = _known(
            "Kubernetes", lambda: send(route, "GET", "/version", tried="Asking for it")["gitVersion"]
        )
    text = output.document({**body, **({"plugins": list(plugins)} if plugins else {})})
    if text is None:
        text = "".join(f"{name.capitalize():<12}{found or 'unknown'}\n" for name, found in body.items())
        text += "".join(f"{'Plug-in':<12}{each}\n" for each in plugins)
    click.echo(text, nl=False)
    return 1 if None in body.values() else 0


def _known(what: str, asked: Callable[[], T]) -> T | None:
    try:
        return asked()
    except (MusterError, KeyError) as error:
        say(f"The version of {what} is not known: {error}", err=True)
        return None
