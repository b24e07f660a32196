"""``muster``: the commands of administrators. A command imports what it needs when called, so help is fast."""

import sys
from importlib.metadata import version as version_of
from typing import Final

import click

from admission.cli.command_line import CommandGroup, finish

#: Where each command is, in the order of the help. Only the one that is called is imported.
_PLACES: Final = {
    "Install": "documents:check documents:convert documents:crds install migrate kinds install:uninstall",
    "Processes in the cluster": "run agent page",
    "For maintainers": "ledger plugin snapshot replay",
}


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from admission.build_info import commit
    from admission.replay.fingerprint import fingerprint
    from queues.plugins.registry import plugins

    click.echo(f"muster {version_of('muster')}, commit {commit()}, fingerprint {fingerprint()}")
    for plugin in plugins():
        click.echo(f"plug-in {plugin.told}")
    context.exit()


@click.group(
    cls=CommandGroup,
    package="admission.cli.commands",
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, the commit it was built from and the fingerprint of the engine, the plug-ins, and exit.",
)
def muster() -> None:
    """Batch queues for Kubernetes that admit a gang of pods as a whole or not at all.

    Questions about queues and jobs: `kubectl muster --help`.
    """


def main() -> None:
    """The script ``muster``."""
    sys.exit(finish(muster, "muster"))


if __name__ == "__main__":
    main()
