"""``kubectl muster run``: make a Volcano Job of equal pods."""

from typing import Any

import click

from admission.cli.access.objects import path_of, send
from admission.cli.access.requests import Route
from admission.cli.options import AMOUNTS, QUEUE, amounts, cluster, namespace
from admission.cli.rendering.terminal import say
from queues.api.api_resources import VOLCANO_JOBS, Document
from queues.api.names import DEFAULT_QUEUE, VOLCANO_SCHEDULER


@click.command(short_help="Make a Job of equal pods.")
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
    send(route, "POST", path_of(VOLCANO_JOBS, here), document, tried=f"Creation of vcjob/{name}")
    say(f"vcjob/{name} created; `kubectl muster explain {name} -n {here}` tells how it is")
