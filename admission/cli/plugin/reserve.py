"""``kubectl muster reserve``: whole nodes are kept for a queue in a window of time."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import click

from admission.cli.access.object_forms import HOST, ClosureObject, TopologyObject, levels_of
from admission.cli.access.objects import (
    ObjectForbidden,
    ObjectNotFound,
    Refused,
    all_objects,
    listed,
    path_of,
    read,
    send,
)
from admission.cli.access.queue_objects import check_queue
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from admission.cli.options import AMOUNTS, QUEUE, amounts, cluster, dry_run
from admission.cli.rendering.terminal import say
from admission.cli.times import FutureTime, LastingTime
from admission.wire import Bare
from queues.api.api_resources import NODE_DRAINS, NODES, RESERVATIONS, TOPOLOGIES, ApiResource, Document
from queues.resources import GPU
from queues.text_format import counted, rfc3339, span

_LONGEST_NAME: Final = 200


@click.command(short_help="Keep nodes for a queue in a window of time.")
@click.argument("queue", type=QUEUE, required=False)
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
@dry_run("Create")
@cluster
def reserve(
    queue: str | None,
    cancel: str | None,
    dry_run: str,
    route: Route,
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
        if not delete(route, RESERVATIONS, cancel, dry_run=dry_run):
            hint = "`kubectl muster reservations` lists those that you may see."
            raise CommandFailed(found=f"There is no reservation {cancel}", hint=hint)
        say(f"reservation {cancel} {'would be ' if dry_run == 'server' else ''}cancelled")
        return
    document = _document(queue, given)
    check_queue(route, document["spec"]["queue"])
    create(route, RESERVATIONS, document, dry_run=dry_run)
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


#: Nodes that are named one by one; more are chosen by a label.
_MOST_NAMED: Final = 200


@click.command(short_help="Take nodes out of service at a time.")
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
@click.option("--rack", metavar="NAME", help="All nodes of this rack, the lowest level of the Topology.")
@click.option("-l", "--selector", metavar="KEY=VALUE[,…]", help="All nodes with these labels.")
@click.option(
    "--at",
    type=FutureTime(or_now=True),
    metavar="TIME",
    help="When they have to be empty: 14:00, 2h, a date.",
)
@click.option(
    "--for", "for_", type=LastingTime(), metavar="DURATION", help="How long they stay out [until undrain]."
)
@click.option(
    "--lead-time",
    type=LastingTime(),
    metavar="DURATION",
    help="How long before they take only what ends in time [1h].",
)
@click.option("--name", metavar="NAME", help="Name of the NodeDrain [NODE-DATE-TIME].")
@dry_run("Create")
@cluster
def drain(
    nodes: tuple[str, ...],
    rack: str | None,
    selector: str | None,
    at: datetime | None,
    dry_run: str,
    route: Route,
    **given: str | None,
) -> None:
    """Take nodes out of service: from --at on no work of queues is on them.

    An hour before (--lead-time) they begin to take only work that is known to end in time. At that time the rest is
    evicted, gangs whole, and comes first in its queue. The nodes stay closed to queues until --for is over
    or `kubectl muster undrain`. Pods without a queue stay: cordon and drain the node by kubectl for these.

    You need the right to create nodedrains, as platform administrators have.
    """
    if at is None:
        raise click.UsageError("Say when they have to be empty: --at 14:00, --at 2h, --at 2026-11-20T14:00.")
    if sum((bool(nodes), rack is not None, selector is not None)) != 1:
        raise click.UsageError("Say which nodes: names, or --rack NAME, or -l KEY=VALUE.")
    labels = _rack(route, rack) if rack is not None else _labels(selector)
    which = list(dict.fromkeys(nodes))
    if len(which) > _MOST_NAMED:
        raise click.UsageError(f"Found {len(which)} names, expected at most {_MOST_NAMED}: choose by -l.")
    count = _count(route, which, labels)
    first = which[0] if which else next(iter(labels.values()))
    lasts = given["for_"]
    spec = {
        "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        **({"nodes": which} if which else {"nodeSelector": labels}),
        **({"for": lasts} if lasts is not None else {}),
        **({"leadTime": given["lead_time"]} if given["lead_time"] is not None else {}),
    }
    name = given["name"] or f"{_as_name(first)}-{at:%Y%m%d-%H%M}"
    create(route, NODE_DRAINS, {"metadata": {"name": name}, "spec": spec}, dry_run=dry_run)
    say(
        f"nodedrain {name} {'would be ' if dry_run == 'server' else ''}created: "
        f"{count} out of service {shown_window(at, lasts)}"
    )


@click.command(short_help="Give drained nodes back.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@dry_run("Create")
@cluster
def undrain(names: tuple[str, ...], dry_run: str, route: Route) -> None:
    """Delete NodeDrains: their nodes take work again. NAME is that of a drain, or of the only node of one."""
    would = "would be " if dry_run == "server" else ""
    for name in dict.fromkeys(names):
        if delete(route, NODE_DRAINS, name, dry_run=dry_run):
            say(f"nodedrain {name} {would}deleted")
            continue
        for drain_name in _drains_of(route, name):
            delete(route, NODE_DRAINS, drain_name, dry_run=dry_run)
            say(f"nodedrain {drain_name} {would}deleted")


def _drains_of(route: Route, node: str) -> list[str]:
    """Drains of this node only. Raises CommandFailed: there is none, or one is of other nodes as well."""
    found = listed(route, NODE_DRAINS, ClosureObject) or []
    about = [drain for drain in found if node in (drain.spec.nodes or ())]
    hint = "`kubectl muster reservations` lists drains."
    if not about:
        raise CommandFailed(found=f"There is no nodedrain {node}, and none of a node {node}", hint=hint)
    names = sorted(drain.metadata.name for drain in about)
    if any(drain.spec.nodes != (node,) or drain.spec.node_selector for drain in about):
        found_text = f"Node {node} is drained together with others by {', '.join(names)}"
        raise CommandFailed(found=found_text, hint="Give the name of the drain to end all of it.")
    return names


def _labels(text: str | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in (text or "").split(",") if text is not None else ():
        key, sign, value = part.strip().partition("=")
        if not key or not sign or value.startswith("="):
            raise click.UsageError(f"-l: found {part!r}, expected KEY=VALUE[,…].")
        labels[key] = value
    return labels


def _rack(route: Route, rack: str) -> dict[str, str]:
    """The label of a rack: of the lowest level above the host, in the first Topology by name."""
    for labels in levels_of(all_objects(route, TOPOLOGIES, TopologyObject)):
        if above := [label for label in labels if label != HOST]:
            return {above[-1]: rack}
    raise CommandFailed(
        found="No Topology of the cluster has racks",
        hint="Choose nodes by a label: kubectl muster drain -l KEY=VALUE.",
    )


def _count(route: Route, names: Sequence[str], labels: Mapping[str, str]) -> str:
    """How many nodes it is about, in words. Raises CommandFailed: there are none."""
    if labels:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = listed(route, NODES, Bare, labelSelector=selector)
        if found is not None and not found:
            raise CommandFailed(found=f"No node has the label {selector}")
        return f"nodes with {selector}" if found is None else counted(len(found), "node")
    for name in names:
        try:
            with suppress(ObjectForbidden):
                read(route, path_of(NODES, None, name), Bare, tried=f"Looking for node {name}")
        except ObjectNotFound as error:
            hint = "`kubectl get nodes` lists them."
            raise CommandFailed(found=f"There is no node {name}", hint=hint) from error
    return counted(len(names), "node")


def _as_name(text: str) -> str:
    """A label value as a part of a name."""
    found = "".join(each if each.isalnum() or each in "-." else "-" for each in text.lower())
    return found.strip("-.")[:200] or "nodes"


_CONFLICT: Final = 409


def create(route: Route, resource: ApiResource, document: Document, *, dry_run: str) -> Document:
    """Make the object. Raises CommandFailed: the API server does not take it, or has one of its name."""
    kind, name = resource.kind.lower(), document["metadata"]["name"]
    query = {"fieldManager": "kubectl-muster", "fieldValidation": "Strict"}
    if dry_run == "server":
        query["dryRun"] = "All"
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    try:
        made: Document = send(
            route, "POST", path_of(resource, None), body, tried=f"Creation of {kind} {name}", **query
        )
    except ObjectNotFound as error:
        hint = "`muster install` of this version adds the kind."
        raise CommandFailed(found=f"The cluster has no {resource.plural}", hint=hint) from error
    except Refused as error:
        if error.status != _CONFLICT:
            raise
        hint = "Give another name with --name."
        raise CommandFailed(found=f"There is a {kind} {name} already", hint=hint) from error
    return made


def delete(route: Route, resource: ApiResource, name: str, *, dry_run: str = "none") -> bool:
    """Delete an object; False: there is none of that name. Raises CommandFailed."""
    query = {"dryRun": "All"} if dry_run == "server" else {}
    tried = f"Deletion of {resource.kind.lower()} {name}"
    with suppress(ObjectNotFound):
        send(route, "DELETE", path_of(resource, None, name), tried=tried, **query)
        return True
    return False


def shown_window(start: datetime, lasts: str | None) -> str:
    """``from 2026-11-27T14:00:00Z for 4h``. ``lasts``: in seconds, as the object has it. None without an end."""
    text = f"from {rfc3339(start.timestamp())}"
    return text if lasts is None else f"{text} for {span(int(lasts[:-1]))}"
