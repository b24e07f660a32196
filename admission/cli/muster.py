"""``muster``: the commands of administrators. A command imports what it needs when called, so help is fast."""

import sys
from importlib.metadata import version as version_of

import click

from admission.cli.commands.agent import agent
from admission.cli.commands.check import check
from admission.cli.commands.convert import convert
from admission.cli.commands.crds import crds
from admission.cli.commands.install import install, uninstall
from admission.cli.commands.ledger import ledger
from admission.cli.commands.migrate import migrate
from admission.cli.commands.page import page
from admission.cli.commands.pause import pause, resume
from admission.cli.commands.replay import replay
from admission.cli.commands.run import run
from admission.cli.commands.snapshot import snapshot
from admission.cli.examples import add_examples
from admission.cli.failures import finish
from admission.cli.removed import GroupWithRemovedCommands


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from admission.build_info import commit
    from admission.replay.fingerprint import fingerprint

    click.echo(f"muster {version_of('muster')}, commit {commit()}, fingerprint {fingerprint()}")
    context.exit()


@click.group(
    cls=GroupWithRemovedCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, the commit it was built from and the fingerprint of the engine, and exit.",
)
def muster() -> None:
    """Batch queues for Kubernetes that admit a gang of pods as a whole or not at all.

    Questions about queues and jobs: `kubectl muster --help`.
    """


for command in (
    run,
    agent,
    install,
    uninstall,
    migrate,
    ledger,
    crds,
    check,
    convert,
    pause,
    resume,
    snapshot,
    replay,
    page,
):
    muster.add_command(command)
add_examples(muster, "muster")


def main() -> None:
    """The script ``muster``."""
    sys.exit(finish(muster, "muster"))


if __name__ == "__main__":
    main()
