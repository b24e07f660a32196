"""``kubectl muster job``: run, look at, read the logs of, suspend, resume and delete Jobs."""

import subprocess
import sys
from contextlib import suppress
from typing import Any, Final, Literal

import click

from admission.cli.access.objects import ObjectNotFound, ask_for_action, path_of, send
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed, CommandGroup
from admission.cli.options import AMOUNTS, QUEUE, amounts, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import JOBS, PODS, VOLCANO_JOBS, ApiResource, Document
from queues.api.names import DEFAULT_QUEUE, HOLD, JOB_NAME, TASK_SPEC, VOLCANO_SCHEDULER


@click.group(
    cls=CommandGroup, short_help="Run, look at, read the logs of, suspend, resume and delete Volcano Jobs."
)
def job() -> None:
    """Run, look at, read the logs of, suspend, resume and delete Volcano Jobs."""


@job.command(short_help="Make a Job of equal pods.")
@click.argument("name")
@click.option("-i", "--image", required=True, help="Image of the only container.")
@click.option("-r", "--replicas", type=click.IntRange(1), default=1, show_default=True, help="Pods.")
@click.option("-m", "--min", "minimum", type=click.IntRange(1), help="Pods that must start together [all].")
@click.option("-L", "--limits", metavar=AMOUNTS, help="Of each pod: nvidia.com/gpu=8,memory=64Gi.")
@click.option("-R", "--requests", metavar=AMOUNTS, help="Of each pod, where they are less than its limits.")
@click.option("-q", "--queue", default=DEFAULT_QUEUE, show_default=True, type=QUEUE, help="Its queue.")
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1)
@namespace
@cluster
def run(name: str, command: tuple[str, ...], namespace: str | None, route: Route, **given: Any) -> None:
    """Make a Job NAME of equal pods, with one container each.

    What has more to say is a document: `kubectl apply -f job.yaml`.
    """
    asked = {
        "limits": amounts("--limits", given["limits"]),
        "requests": amounts("--requests", given["requests"]),
    }
    container: Document = {"name": "main", "image": given["image"]}
    if resources := {kind: found for kind, found in asked.items() if found}:
        container["resources"] = resources
    if command:
        container["command"] = list(command)
    document = {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "schedulerName": VOLCANO_SCHEDULER,
            "queue": given["queue"],
            "minAvailable": given["minimum"] or given["replicas"],
            "tasks": [
                {
                    "name": "main",
                    "replicas": given["replicas"],
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                }
            ],
        },
    }
    here = route.namespace(namespace)
    send(route, "POST", path_of(VOLCANO_JOBS, here), document, tried=f"Creation of job {name}")
    say(f"job {name} created; `kubectl muster explain {name} -n {here}` tells how it is")


@job.command(short_help="What a Job's pods have printed.")
@click.argument("name")
@click.option("-t", "--task", metavar="TASK", help="Only pods of this task.")
@click.option("-c", "--container", metavar="NAME", help="Only this container [all].")
@click.option("-f", "--follow", is_flag=True, help="Go on with what they print.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Last lines of each container [all].")
@namespace
@cluster
def logs(
    name: str,
    task: str | None,
    container: str | None,
    follow: bool,
    tail: int | None,
    namespace: str | None,
    route: Route,
) -> int:
    """Show what the pods of the Job NAME have printed, each line with its pod and container: by `kubectl logs`.

    NAME is a Volcano Job, or a Job of batch/v1.
    """
    here = route.namespace(namespace)
    kind, found = send_for_job(route, "GET", here, name, tried=f"Looking for job {name}")
    tasks = {each.get("name") for each in found["spec"].get("tasks") or ()}
    if task is not None and kind is JOBS:
        raise click.UsageError(f"job {name} is a Job of batch/v1, which has no tasks.")
    if task is not None and task not in tasks:
        known = ", ".join(sorted(filter(None, tasks))) or "none"
        raise click.UsageError(f"job {name} has no task {task}. It has: {known}.")
    selector = f"{POD_LABELS[kind]}={name}" + (f",{TASK_SPEC}={task}" if task else "")
    pods = send(
        route, "GET", path_of(PODS, here), tried=f"Listing the pods of job {name}", labelSelector=selector
    )["items"]
    if not pods:
        say(f"job {name} has no pods now; `kubectl muster explain {name} -n {here}` tells why.", err=True)
        return 1
    words = ["kubectl", "logs", "-n", here, "-l", selector, "--prefix", f"--max-log-requests={len(pods)}"]
    words += [f"--kubeconfig={route.kubeconfig}"] if route.kubeconfig else []
    words += [f"--context={route.context}"] if route.context else []
    words += ["-c", container] if container else ["--all-containers"]
    # With a selector kubectl shows ten lines of each by default.
    words += [f"--tail={-1 if tail is None else tail}", *(["-f"] if follow else [])]
    sys.stdout.flush()
    try:
        return subprocess.call(words)
    except FileNotFoundError as error:
        tried = f"Running {' '.join(words[:2])}"
        raise CommandFailed(tried=tried, found="there is no kubectl on PATH") from error


@job.command(short_help="Take a Job's pods away; it can be resumed.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@namespace
@cluster
def suspend(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Take the pods of Jobs, of Volcano or of batch/v1, away, and give back what they hold. `resume` has them wait
    again, from the start."""
    _ask("AbortJob", names, namespace, route, "is being suspended")


@job.command(short_help="Have a suspended Job wait again.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@namespace
@cluster
def resume(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Have suspended Jobs wait for their places again. Others are left as they are."""
    _ask("ResumeJob", names, namespace, route, "is being resumed")


@job.command(short_help="Remove Jobs and their pods.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@namespace
@cluster
def delete(names: tuple[str, ...], namespace: str | None, route: Route) -> None:
    """Remove Jobs, of Volcano or of batch/v1, with their pods, and give back what they hold."""
    for name in names:
        here, tried = route.namespace(namespace), f"Deletion of job {name}"
        send_for_job(route, "DELETE", here, name, tried=tried, propagationPolicy="Background")
        say(f"job {name} deleted")


def _ask(action: str, names: tuple[str, ...], namespace: str | None, route: Route, done: str) -> None:
    for name in names:
        here = route.namespace(namespace)
        try:
            ask_for_action(route, action, VOLCANO_JOBS, here, name, "asked for by kubectl muster")
        except ObjectNotFound:
            held, tried = action == "AbortJob", f"Change of job {name}"
            if not hold(route, here, name, held=held, tried=tried):
                raise
        say(f"job {name} {done}")


#: Label of the pods of a Job, by which its controller knows them.
POD_LABELS: Final = {VOLCANO_JOBS: JOB_NAME, JOBS: "batch.kubernetes.io/job-name"}


def send_for_job(
    route: Route,
    method: Literal["GET", "DELETE"],
    namespace: str,
    name: str,
    *,
    tried: str,
    **query: str,
) -> tuple[ApiResource, Any]:
    """The kind of the Job, a Volcano Job before one of batch/v1, and the answer. Raises CommandFailed."""
    for resource in (VOLCANO_JOBS, JOBS):
        with suppress(ObjectNotFound):
            return resource, send(route, method, path_of(resource, namespace, name), tried=tried, **query)
    raise CommandFailed(
        tried=tried,
        found=f"there is no Volcano Job and no Job of batch/v1 {name} in namespace {namespace}",
        hint="Other kinds that `kubectl muster jobs` lists are changed by kubectl, with the KIND that it shows.",
    )


def hold(route: Route, namespace: str, name: str, *, held: bool, tried: str) -> bool:
    """Have Muster suspend a Job of batch/v1 for its owner, or have it wait again; whether there is one of that name.
    Raises CommandFailed."""
    annotations = {HOLD: "suspended" if held else "false"}
    body = {"metadata": {"annotations": annotations}}
    with suppress(ObjectNotFound):
        send(route, "PATCH", path_of(JOBS, namespace, name), body, tried=tried)
        return True
    return False
