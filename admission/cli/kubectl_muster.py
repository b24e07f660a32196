"""``kubectl muster``: the commands of users. A kubectl plugin, found on PATH by its name kubectl-muster."""

import sys

import click

from admission.cli.closures.drain import drain, undrain
from admission.cli.closures.reservations import reservations
from admission.cli.closures.reserve import reserve
from admission.cli.examples import add_examples
from admission.cli.failures import finish
from admission.cli.objects.job import job
from admission.cli.objects.jobflow import jobflow
from admission.cli.objects.nodes import nodes
from admission.cli.objects.queue import queue
from admission.cli.objects.queues import queues
from admission.cli.objects.quota import quota
from admission.cli.options import route_before
from admission.cli.page.command import page
from admission.cli.questions.events import events
from admission.cli.questions.explain import explain
from admission.cli.questions.jobs import jobs
from admission.cli.questions.pending import pending
from admission.cli.questions.top import top
from admission.cli.questions.version import version
from admission.cli.questions.who import who
from admission.cli.trials.command import try_
from admission.cli.usage.command import usage


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@route_before
@click.pass_context
def kubectl_muster(context: click.Context, /, **given: object) -> None:
    """Show workloads that wait, run or have ended, and why; users, queues and nodes with GPUs; suspend and resume
    Jobs, close and open queues, reserve and drain nodes.

    Flags come after the plugin's name: `kubectl muster pending -n team`, not `kubectl -n team muster`.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


_COMMANDS = (
    *(jobs, pending, explain, events, who, queues, quota, nodes, page, top, usage),
    *(reserve, reservations, drain, undrain),
    *(job, jobflow, queue, try_, version),
)
for command in _COMMANDS:
    kubectl_muster.add_command(command)
add_examples(kubectl_muster, "kubectl muster")


def main() -> None:
    """The script ``kubectl-muster``; kubectl runs it as ``kubectl muster``."""
    sys.exit(finish(kubectl_muster, "kubectl muster"))


if __name__ == "__main__":
    main()
