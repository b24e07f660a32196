"""``kubectl muster version``: this plugin's version, and those of what it talks to."""

from collections.abc import Callable

import click

from admission.cli.access.requests import Route, ask
from admission.cli.options import route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import say
from queues.errors import MusterError
from queues.read_api.bodies import VersionBody


@click.command(short_help="Versions of the plugin, of Muster and of Kubernetes.")
@click.option("--client", is_flag=True, help="Only that of the plugin; no cluster is asked.")
@output
@route
def version(client: bool, output: Output, route: Route) -> int:
    """Show the versions of this plugin, of the Muster in the cluster, and of the cluster."""
    from importlib.metadata import version as version_of

    body: dict[str, str | None] = {"client": version_of("muster")}
    if not client:
        from admission.cli.access.objects import send

        body["server"] = _known("Muster", lambda: ask(route, "version", VersionBody).version)
        body["kubernetes"] = _known(
            "Kubernetes", lambda: send(route, "GET", "/version", tried="Asking for it")["gitVersion"]
        )
    text = output.document(body)
    if text is None:
        text = "".join(f"{name.capitalize():<12}{found or 'unknown'}\n" for name, found in body.items())
    click.echo(text, nl=False)
    return 1 if None in body.values() else 0


def _known(what: str, asked: Callable[[], str]) -> str | None:
    try:
        return asked()
    except (MusterError, KeyError) as error:
        say(f"The version of {what} is not known: {error}", err=True)
        return None
