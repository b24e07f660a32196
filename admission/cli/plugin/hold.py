"""``kubectl muster hold``, ``unhold``, ``suspend`` and ``resume``: keep workloads from being admitted."""

import click

from admission.cli.access.objects import ask_for_action, send
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import find_workloads
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import VOLCANO_JOBS
from queues.api.names import HOLD

#: What the annotation says, what is said of it, and how a Volcano Job is asked.
_WISHES = {
    "hold": ("true", "is on hold; what runs of it goes on", ""),
    "unhold": ("false", "is not on hold any more", ""),
    "suspend": ("suspended", "is being suspended", "AbortJob"),
    "resume": ("false", "is being resumed", "ResumeJob"),
}
_names = click.argument("names", metavar="[KIND/]NAME…", type=WORKLOAD, nargs=-1, required=True)


@click.command(short_help="Keep workloads from being admitted; what runs goes on.")
@_names
@namespace
@cluster
def hold(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Keep workloads from being admitted until `unhold`.

    One that runs goes on. Once it has lost its seats, because it was evicted or went back to its queue, it is not
    admitted again. KIND is vcjob, job, podgroup, pod, jobset or another kind of an operator.
    """
    _wish(route, namespace, names, "hold")


@click.command(short_help="Let workloads be admitted again.")
@_names
@namespace
@cluster
def unhold(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Let workloads be admitted again that are on hold, or that were suspended by their owner."""
    _wish(route, namespace, names, "unhold")


@click.command(short_help="Take a workload's pods away; it can be resumed.")
@_names
@namespace
@cluster
def suspend(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Take the pods of workloads away, and give back what they hold. `resume` has them wait again, from the start."""
    _wish(route, namespace, names, "suspend")


@click.command(short_help="Have a suspended workload wait again.")
@_names
@namespace
@cluster
def resume(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Have suspended workloads wait for their places again. Others are left as they are."""
    _wish(route, namespace, names, "resume")


def _wish(route: Route, namespace: str | None, names: tuple[str, ...], verb: str) -> None:
    """Have Muster do it, as the kind of each workload wants to be asked. Raises CommandFailed, and UsageError."""
    wish, done, action = _WISHES[verb]
    here = route.namespace(namespace)
    for each in find_workloads(route, here, names, verb):
        if action and each.kind.resource is VOLCANO_JOBS:
            ask_for_action(route, action, VOLCANO_JOBS, here, each.document, "asked for by kubectl muster")
        else:
            body = {"metadata": {"annotations": {HOLD: wish}}}
            send(route, "PATCH", each.path, body, tried=f"Change of {each}")
        say(f"{each} {done}")
