"""``kubectl muster cancel``: remove workloads with their pods."""

import click

from admission.cli.access.objects import send
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import find_workloads
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.rendering.terminal import say


@click.command(short_help="Remove workloads and their pods.")
@click.argument("names", metavar="[KIND/]NAME…", type=WORKLOAD, nargs=-1, required=True)
@namespace
@cluster
def cancel(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Remove workloads with their pods, and give back what they hold."""
    for each in find_workloads(route, route.namespace(namespace), names, "cancel"):
        send(route, "DELETE", each.path, tried=f"Cancelling {each}", propagationPolicy="Background")
        say(f"{each} is cancelled")
