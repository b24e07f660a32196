"""``kubectl muster``: the commands of users. A kubectl plugin, found on PATH by its name kubectl-muster."""

import sys
from typing import Final

import click

from admission.cli.command_line import CommandGroup, finish
from admission.cli.options import route_before

#: Where each command is. Only the one that is called is imported.
_PLACES: Final = (
    "admission.cli.plugin.jobs:jobs",
    "admission.cli.plugin.pending:pending",
    "admission.cli.plugin.explain:explain",
    "admission.cli.plugin.events:events",
    "admission.cli.plugin.who:who",
    "admission.cli.plugin.queues:queues",
    "admission.cli.plugin.quota:quota",
    "admission.cli.plugin.nodes:nodes",
    "admission.cli.plugin.page:page",
    "admission.cli.plugin.usage:usage",
    "admission.cli.plugin.reserve:reserve",
    "admission.cli.plugin.reservations:reservations",
    "admission.cli.plugin.reserve:drain",
    "admission.cli.plugin.reserve:undrain",
    "admission.cli.plugin.run:run",
    "admission.cli.plugin.logs:logs",
    "admission.cli.plugin.cancel:cancel",
    "admission.cli.plugin.hold:suspend",
    "admission.cli.plugin.hold:resume",
    "admission.cli.plugin.hold:hold",
    "admission.cli.plugin.hold:unhold",
    "admission.cli.plugin.queue:queue",
    "admission.cli.plugin.try_objects:try_",
    "admission.cli.plugin.version:version",
)


@click.group(
    cls=CommandGroup,
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@route_before
@click.pass_context
def kubectl_muster(context: click.Context, /, **given: object) -> None:
    """Show workloads that wait, run or have ended, and why; users, queues and nodes with GPUs; suspend and resume
    Jobs, hold workloads back, close and open queues, reserve and drain nodes.

    Flags come after the plugin's name: `kubectl muster pending -n team`, not `kubectl -n team muster`.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


def main() -> None:
    """The script ``kubectl-muster``; kubectl runs it as ``kubectl muster``."""
    sys.exit(finish(kubectl_muster, "kubectl muster"))


if __name__ == "__main__":
    main()
