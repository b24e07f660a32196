"""``muster plugin``: the plug-ins of this installation, and whether one keeps what it promises."""

import json
from pathlib import Path

import click

from admission.cli.command_line import CommandGroup, complain

#: Made-up clusters that are tried where no FILE is given.
_MADE_UP = 60


@click.group(cls=CommandGroup, short_help="List plug-ins, and check one.")
def plugin() -> None:
    """List the plug-ins of this installation, and check one before a queue is served by it."""


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
    from time import perf_counter

    from admission.replay.made_up_clusters import made_up_clusters
    from admission.replay.plugin_check import check_plugin
    from admission.replay.snapshot_file import load
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
    found = check_plugin(known, parameters, saved or made_up_clusters(_MADE_UP), perf_counter)
    for problem in found.problems:
        click.echo(f"{name}: {problem}")
    for title, figures in ((name, found.with_it), ("default", found.with_default)):
        each = 1000 * figures.seconds / max(1, figures.decisions)
        click.echo(
            f"{title}: {figures.decisions} decisions, {figures.admitted} admitted, {figures.evicted} evicted, "
            f"{figures.waiting} waiting in the end, {each:.1f} ms each"
        )
    return 1 if found.problems else 0
