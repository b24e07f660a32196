"""``kubectl muster``: the commands of users. A kubectl plugin, found on PATH by its name kubectl-muster."""

import sys
from typing import Final

import click

from admission.cli.command_line import CommandGroup, finish
from admission.cli.options import route_before

#: Where each command is, in the order of the help. Only the one that is called is imported.
_PLACES: Final = {
    "See": "plugin.pending plugin.explain plugin.jobs plugin.queues plugin.nodes plugin.logs plugin.events plugin.who"
    " plugin.usage plugin.reservations plugin.page plugin.version",
    "Submit": "plugin.run commands.documents:check plugin.try_objects:try_",
    "Change": "plugin.cancel plugin.hold:suspend plugin.hold:resume plugin.hold plugin.hold:unhold",
    "Administer": "plugin.quota plugin.queue plugin.reserve plugin.reserve:drain plugin.reserve:undrain",
}


@click.group(
    cls=CommandGroup,
    package="admission.cli",
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@route_before
@click.pass_context
def kubectl_muster(context: click.Context, /, **given: object) -> None:
    """Show why workloads wait, where they run and how they ended; submit, cancel, suspend and hold them; administer
    queues, quota and nodes with GPUs.

    Flags come after the plugin's name: `kubectl muster pending -n team`, not `kubectl -n team muster`.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


def main() -> None:
    """The script ``kubectl-muster``; kubectl runs it as ``kubectl muster``."""
    sys.exit(finish(kubectl_muster, "kubectl muster"))


if __name__ == "__main__":
    main()
