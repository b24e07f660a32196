"""``kubectl muster cancel``: remove workloads with their pods."""

import click

from admission.cli.access.objects import Refused, delete_this
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import find_workloads, labelled_workloads, workloads_of_user
from admission.cli.command_line import complain, confirm
from admission.cli.options import WORKLOAD, namespace, route
from admission.cli.rendering.terminal import say


@click.command(short_help="Remove workloads and their pods.")
@click.argument("names", metavar="[KIND/]NAME…", type=WORKLOAD, nargs=-1)
@click.option("-l", "--selector", metavar="SELECTOR", help="Those with these labels: sweep=7,user!=ada.")
@click.option("--mine", is_flag=True, help="Those that you created and that wait, run or are suspended.")
@click.option("--yes", is_flag=True, help="Do not ask, however many they are.")
@namespace
@route
def cancel(
    names: tuple[str, ...], selector: str | None, mine: bool, yes: bool, namespace: str | None, route: Route
) -> int:
    """Remove workloads of a namespace with their pods, and give back what they hold.

    Asks first if they are more than one; without a terminal it then needs --yes.
    """
    if [bool(names), bool(selector), mine].count(True) != 1:
        raise click.UsageError("Expected names, -l SELECTOR or --mine: one of the three.")
    here = route.namespace(namespace)
    if names:
        found = find_workloads(route, here, names, "cancel")
    else:
        found = labelled_workloads(route, here, selector) if selector else workloads_of_user(route, here)
    if not found:
        say(f"No workload in namespace {here} is so; nothing was changed.", err=True)
        return 0
    if len(found) > 1 and not yes:
        say("\n".join(map(str, found)), err=True)
        confirm(f"Cancel these {len(found)} workloads of namespace {here}?", yes=yes)
    code = 0
    for each in found:
        try:
            uid, tried = each.document["metadata"]["uid"], f"Cancelling {each}"
            delete_this(route, each.path, uid, tried=tried, propagationPolicy="Background")
        except Refused as error:
            complain(str(error))
            code = 1
        else:
            say(f"{each} is cancelled")
    return code
