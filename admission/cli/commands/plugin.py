"""``muster plugin``: the plug-ins of this installation, whether one keeps what it promises, and another try for it."""

import json
from pathlib import Path
from time import time

import click

from admission.cli.access.objects import path_of, send
from admission.cli.access.queue_objects import read_queue
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandGroup, complain
from admission.cli.options import QUEUE, cluster
from admission.cli.rendering.terminal import say
from queues.api.api_resources import QUEUES
from queues.api.names import RETRY
from queues.text_format import rfc3339

#: Made-up clusters that are tried where no FILE is given.
_MADE_UP = 20


@click.group(cls=CommandGroup, short_help="List plug-ins, check one, and try again what was set aside.")
def plugin() -> None:
    """List the plug-ins of this installation, check one before a queue names it, try again what was set aside."""


@plugin.command("list", short_help="The policies that queues can name.")
def list_() -> None:
    """The policies that queues can name: Muster's own, and plug-ins with their version and the digest of their code."""
    from queues.plugins.registry import known_policies

    for name, each in sorted(known_policies().items()):
        field = "" if each.policy is None else each.policy.sort.value
        said = each.problem or (
            "Muster's own" if each.is_built_in else f"{each.package}, digest {each.digest}"
        )
        click.echo(f"{name}\t{field}\tversion {each.version}\t{said}" if field else f"{name}\t{said}")


@plugin.command(short_help="Try a plug-in, and compare it with Muster's own.")
@click.argument("name")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--parameters", default="", metavar="JSON", help="As in policy.parameters of a Queue.")
def check(name: str, files: tuple[Path, ...], parameters: str) -> int:
    """Have every queue of made-up clusters, or of saved turns (FILES of `muster snapshot`), served by a plug-in, and
    compare what is decided with Muster's own policy.

    Exit code 0: it keeps what the interface asks. 1: it does not. 2: it cannot be tried.
    """
    from admission.containment.made_up_clusters import made_up_clusters
    from admission.containment.plugin_check import DECISIONS, check_plugin, rows_of
    from admission.replay.snapshot_file import load
    from admission.settings import Settings
    from queues.errors import MusterError
    from queues.plugins.registry import known_policies

    known = known_policies().get(name)
    try:
        if known is None or known.policy is None:
            names = ", ".join(sorted(known_policies()))
            complain(
                f"{name}: {known.problem if known else f'there is no such plug-in, expected one of {names}'}"
            )
            return 2
        if parameters:
            json.loads(parameters)
            known.parameters(parameters)
        saved = [load(file.read_bytes()).snapshot for file in files]
    except (OSError, ValueError, MusterError) as error:
        complain(str(error))
        return 2
    limit = Settings.model_fields["decision_limit_seconds"].default * (DECISIONS if saved else 1)
    found = check_plugin(known, parameters, saved or made_up_clusters(_MADE_UP), limit)
    if found.problem:
        click.echo(f"{name}: {found.problem}")
        return 1
    for title, here, default in rows_of(name, found):
        click.echo(f"{title:<22}{here:>16}{default:>16}")
    return 0


@plugin.command(short_help="Have a plug-in that was set aside tried again.")
@click.argument("queues", metavar="QUEUE…", type=QUEUE, nargs=-1, required=True)
@cluster
def retry(queues: tuple[str, ...], route: Route) -> None:
    """Have plug-ins tried again that were set aside for these queues."""
    for name in queues:
        found = read_queue(route, name)
        meta = {"uid": found.document["metadata"].get("uid"), "annotations": {RETRY: rfc3339(int(time()))}}
        tried = f"Change of queue {name}"
        send(route, "PATCH", path_of(QUEUES, None, name), {"metadata": meta}, tried=tried)
        say(f"plug-ins of queue {name} are tried again")
