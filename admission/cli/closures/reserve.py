"""``kubectl muster reserve``: whole nodes are kept for a queue in a window of time."""

from datetime import datetime
from typing import Final

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import check_queue
from admission.cli.closures.objects import create, delete, dry_run_option, shown_window
from admission.cli.failures import CommandFailed
from admission.cli.options import AMOUNTS, amounts, cluster
from admission.cli.rendering.sentences import say
from admission.cli.times import FutureTime, LastingTime
from queues.api.api_resources import RESERVATIONS, Document
from queues.resources import GPU

_LONGEST_NAME: Final = 200


@click.command(short_help="Keep nodes for a queue in a window of time.")
@click.argument("queue", required=False)
@click.option("--gpus", type=click.IntRange(min=1), metavar="NUMBER", help=f"Number of {GPU}.")
@click.option("--resources", metavar=AMOUNTS, help="What else the nodes have to offer: amd.com/gpu=16.")
@click.option(
    "--from", "from_", type=FutureTime(or_now=True), metavar="TIME", help="When it begins: 14:00, 2h, a date."
)
@click.option("--for", "for_", type=LastingTime(), metavar="DURATION", help="How long it lasts: 4h.")
@click.option("--flavor", metavar="NAME", help="Only nodes of this ResourceFlavor.")
@click.option("--topology", metavar="LEVEL", help="All nodes in one domain of this level, a node label key.")
@click.option(
    "--lead-time", type=LastingTime(), metavar="DURATION", help="How long before nodes are chosen [1h]."
)
@click.option(
    "--clear-before",
    type=LastingTime(),
    metavar="DURATION",
    help="How long before what is left there is evicted [2m].",
)
@click.option("--name", metavar="NAME", help="Name of the Reservation [QUEUE-DATE-TIME].")
@click.option("--cancel", metavar="NAME", help="Delete this Reservation instead.")
@dry_run_option
@cluster
def reserve(
    queue: str | None,
    cancel: str | None,
    dry_run: str,
    cluster: ClusterRoute,
    **given: str | int | datetime | None,
) -> None:
    """Keep nodes for QUEUE, and the queues below it, in a window of time.

    An hour before (--lead-time) nodes are chosen where the least work is cut off; from then on they take only work that
    is known to end in time. What is still there two minutes before (--clear-before) is evicted and waits again. In the
    window only work of the queue is placed on them. Limits of the queue hold as always.

    You need the right to create reservations: platform administrators have it for all queues, administrators of a
    tenant for their queues, up to what these deserve.
    """
    if cancel is not None:
        if queue is not None or any(each is not None for each in given.values()):
            raise click.UsageError("--cancel takes nothing else but --dry-run.")
        if not delete(cluster, RESERVATIONS, cancel, dry_run=dry_run):
            hint = "`kubectl muster reservations` lists those that you may see."
            raise CommandFailed(tried="", found=f"There is no reservation {cancel}", hint=hint)
        say(f"reservation {cancel} {'would be ' if dry_run == 'server' else ''}cancelled")
        return
    document = _document(queue, given)
    check_queue(cluster, document["spec"]["queue"])
    create(cluster, RESERVATIONS, document, dry_run=dry_run)
    spec, start = document["spec"], given["from_"]
    assert isinstance(start, datetime)
    asked = ", ".join(f"{amount} {name}" for name, amount in spec["resources"].items())
    say(
        f"reservation {document['metadata']['name']} {'would be ' if dry_run == 'server' else ''}created: "
        f"{asked} for queue {queue} {shown_window(start, spec['for'])}"
    )


def _document(queue: str | None, given: dict[str, str | int | datetime | None]) -> Document:
    """The object. Raises UsageError: something is missing."""
    resources: dict[str, str] = {} if given["gpus"] is None else {GPU: str(given["gpus"])}
    text = given["resources"]
    resources |= amounts("--resources", text if isinstance(text, str) else None)
    start = given["from_"]
    if queue is None:
        raise click.UsageError("Missing argument 'QUEUE'.")
    if not resources:
        raise click.UsageError("Say what to keep: --gpus 64, or --resources NAME=AMOUNT.")
    if not isinstance(start, datetime):
        raise click.UsageError("Say when it begins: --from 14:00, --from 2h, --from 2026-11-20T14:00.")
    if given["for_"] is None:
        raise click.UsageError("Say how long it lasts: --for 4h.")
    optional = {
        "flavor": given["flavor"],
        "topology": given["topology"],
        "leadTime": given["lead_time"],
        "clearBefore": given["clear_before"],
    }
    return {
        "metadata": {"name": given["name"] or f"{queue[:_LONGEST_NAME]}-{start:%Y%m%d-%H%M}"},
        "spec": {
            "queue": queue,
            "resources": resources,
            "from": f"{start:%Y-%m-%dT%H:%M:%SZ}",
            "for": given["for_"],
            **{name: value for name, value in optional.items() if value is not None},
        },
    }
