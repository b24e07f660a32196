"""``kubectl muster logs``: what the pods of a workload have printed, by ``kubectl logs``."""

import click

from admission.cli.access.kubectl import call_kubectl
from admission.cli.access.objects import path_of, send
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import WorkloadObject, find_workloads
from admission.cli.command_line import CommandFailed
from admission.cli.options import WORKLOAD, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import PODS, VOLCANO_JOBS
from queues.api.names import TASK_SPEC


@click.command(short_help="What a workload's pods have printed.")
@click.argument("workload", metavar="[KIND/]NAME", type=WORKLOAD)
@click.option("-t", "--task", metavar="TASK", help="Only pods of this task of a Volcano Job.")
@click.option("-c", "--container", metavar="NAME", help="Only this container [all].")
@click.option("-f", "--follow", is_flag=True, help="Go on with what they print.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Last lines of each container [all].")
@namespace
@cluster
def logs(
    workload: str,
    task: str | None,
    container: str | None,
    follow: bool,
    tail: int | None,
    namespace: str | None,
    route: Route,
) -> int:
    """Show what the pods of a workload have printed, each line with its pod and container: by `kubectl logs`."""
    here = route.namespace(namespace)
    (found,) = find_workloads(route, here, (workload,), "logs")
    pods = [found.name] if found.kind.resource is PODS else _labelled(route, found, task)
    if not pods:
        say(f"{found} has no pods now; `kubectl muster explain {found} -n {here}` tells why.", err=True)
        return 1
    words = ["-c", container] if container else ["--all-containers"]
    # With a selector kubectl shows ten lines of each by default.
    words += [f"--tail={-1 if tail is None else tail}", *(["-f"] if follow else [])]
    return call_kubectl(route, here, "logs", *pods, "--prefix", *words)


def _labelled(route: Route, workload: WorkloadObject, task: str | None) -> list[str]:
    """The words by which kubectl finds the pods of a workload; empty if it has none. Raises UsageError, and
    CommandFailed."""
    tasks = {each.get("name") for each in workload.document["spec"].get("tasks") or ()}
    if task is not None and workload.kind.resource is not VOLCANO_JOBS:
        raise click.UsageError(f"{workload} has no tasks: those are of Volcano Jobs.")
    if task is not None and task not in tasks:
        known = ", ".join(sorted(filter(None, tasks))) or "none"
        raise click.UsageError(f"{workload} has no task {task}. It has: {known}.")
    if not workload.kind.label:
        raise CommandFailed(
            found=f"No label of its pods has the name of {workload}",
            hint=f"`kubectl get pods -n {workload.namespace}` lists pods, `kubectl muster logs pod/NAME` shows one's.",
        )
    selector = f"{workload.kind.label}={workload.name}" + (f",{TASK_SPEC}={task}" if task else "")
    tried = f"Listing the pods of {workload}"
    path = path_of(PODS, workload.namespace)
    pods = send(route, "GET", path, tried=tried, labelSelector=selector)["items"]
    return ["-l", selector, f"--max-log-requests={len(pods)}"] if pods else []
