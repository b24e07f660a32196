"""``kubectl muster``: the commands of users. A kubectl plugin, found on PATH by its name kubectl-muster."""

import sys
from typing import Final

import click

from admission.cli.failures import finish
from admission.cli.loaded import LoadedGroup
from admission.cli.options import route_before

#: Where each command is. Only the one that is called is imported.
_PLACES: Final = {
    "jobs": "admission.cli.questions.jobs:jobs",
    "pending": "admission.cli.questions.pending:pending",
    "explain": "admission.cli.questions.explain:explain",
    "events": "admission.cli.questions.events:events",
    "who": "admission.cli.questions.who:who",
    "queues": "admission.cli.objects.queues:queues",
    "quota": "admission.cli.objects.quota:quota",
    "nodes": "admission.cli.objects.nodes:nodes",
    "page": "admission.cli.page.command:page",
    "usage": "admission.cli.usage.command:usage",
    "reserve": "admission.cli.closures.reserve:reserve",
    "reservations": "admission.cli.closures.reservations:reservations",
    "drain": "admission.cli.closures.drain:drain",
    "undrain": "admission.cli.closures.drain:undrain",
    "job": "admission.cli.objects.job:job",
    "queue": "admission.cli.objects.queue:queue",
    "try": "admission.cli.trials.command:try_",
    "version": "admission.cli.questions.version:version",
}


@click.group(
    cls=LoadedGroup,
    full_name="kubectl muster",
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@route_before
@click.pass_context
def kubectl_muster(context: click.Context, /, **given: object) -> None:
    """Show workloads that wait, run or have ended, and why; users, queues and nodes with GPUs; suspend and resume
    Jobs, close and open queues, reserve and drain nodes.

    Flags come after the plugin's name: `kubectl muster pending -n team`, not `kubectl -n team muster`.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


def main() -> None:
    """The script ``kubectl-muster``; kubectl runs it as ``kubectl muster``."""
    sys.exit(finish(kubectl_muster, "kubectl muster"))


if __name__ == "__main__":
    main()
