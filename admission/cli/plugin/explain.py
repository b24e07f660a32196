"""``kubectl muster explain``: everything about one workload, from why it waits to its seats on nodes."""

from collections.abc import Iterable

import click

from admission.cli.access.requests import Route, ask
from admission.cli.command_line import CommandFailed
from admission.cli.names import kind_named
from admission.cli.options import WORKLOAD, namespace, route
from admission.cli.output import Output, output, told_age
from admission.cli.rendering.explanation import workload_text
from admission.cli.rendering.terminal import say
from queues.read_api.bodies import ExplanationBody


@click.command(short_help="Why a workload waits, or where it runs.")
@click.argument("job", metavar="[KIND/]NAME", type=WORKLOAD)
@namespace
@output
@route
def explain(job: str, namespace: str | None, output: Output, route: Route) -> int:
    """Show everything about one workload.

    Its state and position, what it waits behind, which limit stops it and by how much, its seats by node, and
    what was decided about it. KIND is vcjob, job, podgroup, pod, jobset or another kind of an operator; without it,
    all workloads of that name.

    If its object is gone: how it ended, when it waited and ran, on which nodes, its GPU-hours, and what was decided
    about it, of the last workload of that name. If there is no such name, similar names are shown, and namespaces
    that you may see with a workload of that name.
    """
    named, _, name = job.rpartition("/")
    kind = kind_named(named, name) if named else None
    here = route.namespace(namespace)
    if not name:
        raise click.UsageError(f"{job!r}: expected NAME or KIND/NAME.")
    body = ask(route, path_of_workload(here, name), tuple[ExplanationBody, ...], {"kind": kind})
    if not body:
        raise CommandFailed(tried=f"Looking for {job} in namespace {here}", found="there is none")
    code = told_age(body[0])
    say_what_is_unknown(body)
    text = output.document(body)
    if text is None:
        text = "\n".join(workload_text(one, output) for one in body)
    click.echo(text, nl=False)
    return code


def say_what_is_unknown(workloads: Iterable[ExplanationBody]) -> None:
    """Print what the leader did not say of workloads that wait or run."""
    for workload in workloads:
        if workload.outlook_unknown:
            what = "What would let it in" if workload.state == "pending" else "Whether it goes on"
            say(f"{what} is not known: {workload.outlook_unknown}", err=True)


def path_of_workload(namespace: str, name: str) -> str:
    """Where the read API has the workloads of a name."""
    from urllib.parse import quote

    return f"namespaces/{quote(namespace, safe='')}/workloads/{quote(name, safe='')}"
