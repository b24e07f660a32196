"""``kubectl muster queue``: create, look at, close, open and delete one queue."""

from typing import Any

import click

from admission.cli.access.objects import ClusterRoute, ask_for_action, path_of, send
from admission.cli.objects.queues import queues
from admission.cli.options import AMOUNTS, amounts, cluster
from queues.api.api_resources import QUEUES
from queues.api.names import DEFAULT_QUEUE, ROOT_QUEUE


@click.group(short_help="Create, look at, close, open and delete queues.")
def queue() -> None:
    """Create, look at, close, open and delete queues.

    What is closed takes no new workloads, and what runs in it goes on; with a queue all below it are closed.
    To stop admissions without refusing workloads: `muster pause`.
    """


queue.add_command(queues, "list")
queue.add_command(queues, "get")


@queue.command(short_help="Make a queue.")
@click.argument("name")
@click.option("--parent", default=ROOT_QUEUE, show_default=True, metavar="QUEUE", help="The queue above.")
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="Weight among its siblings [1].")
@click.option("--deserved", metavar=AMOUNTS, help="Its own share: nvidia.com/gpu=32,cpu=128.")
@click.option("--guarantee", metavar=AMOUNTS, help="What is never lent.")
@click.option("--capability", metavar=AMOUNTS, help="What is never exceeded.")
@cluster
def create(
    name: str,
    parent: str,
    weight: int | None,
    deserved: str | None,
    guarantee: str | None,
    capability: str | None,
    cluster: ClusterRoute,
) -> None:
    """Make the queue NAME."""
    spec: dict[str, Any] = {} if parent == ROOT_QUEUE else {"parent": parent}
    if weight is not None:
        spec["weight"] = weight
    if deserved is not None:
        spec["deserved"] = amounts("--deserved", deserved)
    if capability is not None:
        spec["capability"] = amounts("--capability", capability)
    if guarantee is not None:
        spec["guarantee"] = {"resource": amounts("--guarantee", guarantee)}
    document = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    send(cluster, "POST", path_of(QUEUES, None), document, tried=f"Creation of queue {name}")
    click.echo(f"queue {name} created")


@queue.command(short_help="Take no new workloads; what runs goes on.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@cluster
def close(names: tuple[str, ...], cluster: ClusterRoute) -> None:
    """Have queues take no new workloads, nor those below them. What runs goes on; what waits stays."""
    _ask("CloseQueue", names, cluster, "is being closed")


@queue.command("open", short_help="Take workloads again.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@cluster
def open_(names: tuple[str, ...], cluster: ClusterRoute) -> None:
    """Have queues take workloads again, and those below them that were not closed themselves."""
    _ask("OpenQueue", names, cluster, "is being opened")


@queue.command(short_help="Remove queues.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@cluster
def delete(names: tuple[str, ...], cluster: ClusterRoute) -> None:
    """Remove queues. What runs in them goes on; what waits in them waits until there is a queue of that name."""
    for name in names:
        send(cluster, "DELETE", path_of(QUEUES, None, name), tried=f"Deletion of queue {name}")
        click.echo(f"queue {name} deleted")


def _ask(action: str, names: tuple[str, ...], cluster: ClusterRoute, done: str) -> None:
    for name in names:
        if name == ROOT_QUEUE:
            raise click.ClickException("Queue root is always open; `muster pause` stops all admissions.")
        # Volcano's Commands for queues are in this namespace too.
        ask_for_action(cluster, action, QUEUES, DEFAULT_QUEUE, name, "asked for by kubectl muster")
        click.echo(f"queue {name} {done}")
