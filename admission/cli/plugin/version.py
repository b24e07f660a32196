"""``kubectl muster version``: this plugin's version, and those of what it talks to."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import click
import msgspec

from admission.cli.access.requests import Route, ask
from admission.cli.options import route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import say
from queues.errors import MusterError
from queues.read_api.bodies import ReplicaBody, VersionBody
from queues.text_format import listed

T = TypeVar("T")


@click.command(short_help="Versions of the plugin, of Muster and of Kubernetes.")
@click.option("--client", is_flag=True, help="Only that of the plugin; no cluster is asked.")
@output
@route
def version(client: bool, output: Output, route: Route) -> int:
    """Show the versions of this plugin, of Muster in the cluster with its replicas' plug-ins, and of the cluster."""
    from importlib.metadata import version as version_of

    body: dict[str, str | None] = {"client": version_of("muster")}
    replicas: tuple[ReplicaBody, ...] = ()
    if not client:
        from admission.cli.access.objects import send

        server = _known("Muster", lambda: ask(route, "version", VersionBody))
        body["server"] = None if server is None else server.version
        replicas = () if server is None else server.replicas
        body["kubernetes"] = _known(
            "Kubernetes", lambda: send(route, "GET", "/version", tried="Asking for it")["gitVersion"]
        )
    told = {"replicas": [msgspec.to_builtins(each) for each in replicas]} if replicas else {}
    text = output.document({**body, **told})
    if text is None:
        text = "".join(f"{name.capitalize():<12}{found or 'unknown'}\n" for name, found in body.items())
        text += "".join(f"{title:<12}{line}\n" for title, line in lines_of(replicas, body.get("server")))
    click.echo(text, nl=False)
    return 1 if None in body.values() else 0


def lines_of(replicas: Sequence[ReplicaBody], version: str | None) -> Iterator[tuple[str, str]]:
    """Replicas that are of another version, and all plug-ins, each with the replicas that have it if not all do."""
    for each in replicas:
        if each.version != version:
            yield "Replica", f"{each.name}: {each.version or 'no answer'}"
    having: dict[str, list[str]] = {}
    for each in replicas:
        for plugin in each.plugins:
            having.setdefault(plugin, []).append(each.name)
    for plugin, names in sorted(having.items()):
        yield "Plug-in", plugin if len(names) == len(replicas) else f"{plugin}, on {listed(names)} only"


def _known(what: str, asked: Callable[[], T]) -> T | None:
    try:
        return asked()
    except (MusterError, KeyError) as error:
        say(f"The version of {what} is not known: {error}", err=True)
        return None
