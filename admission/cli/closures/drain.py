"""``kubectl muster drain`` and ``undrain``: nodes are taken out of service at a time, and given back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import click

from admission.cli.access.object_forms import HOST, ClosureObject, TopologyObject, levels_of
from admission.cli.access.objects import ClusterRoute, Refused, all_objects, listed, path_of, read
from admission.cli.closures.objects import create, delete, dry_run_option, shown_window
from admission.cli.failures import CommandFailed
from admission.cli.options import cluster
from admission.cli.rendering.sentences import say
from admission.cli.times import FutureTime, LastingTime
from admission.wire import Bare
from queues.api.api_resources import NODE_DRAINS, NODES, TOPOLOGIES
from queues.text_format import counted

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
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
@dry_run_option
@cluster
def drain(
    nodes: tuple[str, ...],
    rack: str | None,
    selector: str | None,
    at: datetime | None,
    dry_run: str,
    cluster: ClusterRoute,
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
    labels = _rack(cluster, rack) if rack is not None else _labels(selector)
    which = list(dict.fromkeys(nodes))
    if len(which) > _MOST_NAMED:
        raise click.UsageError(f"Found {len(which)} names, expected at most {_MOST_NAMED}: choose by -l.")
    count = _count(cluster, which, labels)
    first = which[0] if which else next(iter(labels.values()))
    lasts = given["for_"]
    spec = {
        "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        **({"nodes": which} if which else {"nodeSelector": labels}),
        **({"for": lasts} if lasts is not None else {}),
        **({"leadTime": given["lead_time"]} if given["lead_time"] is not None else {}),
    }
    name = given["name"] or f"{_as_name(first)}-{at:%Y%m%d-%H%M}"
    create(cluster, NODE_DRAINS, {"metadata": {"name": name}, "spec": spec}, dry_run=dry_run)
    say(
        f"nodedrain {name} {'would be ' if dry_run == 'server' else ''}created: "
        f"{count} out of service {shown_window(at, lasts)}"
    )


@click.command(short_help="Give drained nodes back.")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@dry_run_option
@cluster
def undrain(names: tuple[str, ...], dry_run: str, cluster: ClusterRoute) -> None:
    """Delete NodeDrains: their nodes take work again. NAME is that of a drain, or of the only node of one."""
    would = "would be " if dry_run == "server" else ""
    for name in dict.fromkeys(names):
        if delete(cluster, NODE_DRAINS, name, dry_run=dry_run):
            say(f"nodedrain {name} {would}deleted")
            continue
        for drain_name in _drains_of(cluster, name):
            delete(cluster, NODE_DRAINS, drain_name, dry_run=dry_run)
            say(f"nodedrain {drain_name} {would}deleted")


def _drains_of(cluster: ClusterRoute, node: str) -> list[str]:
    """Drains of this node only. Raises CommandFailed: there is none, or one is of other nodes as well."""
    found = listed(cluster, NODE_DRAINS, ClosureObject) or []
    about = [drain for drain in found if node in (drain.spec.nodes or ())]
    hint = "`kubectl muster reservations` lists drains."
    if not about:
        raise CommandFailed(
            tried="", found=f"There is no nodedrain {node}, and none of a node {node}", hint=hint
        )
    names = sorted(drain.metadata.name for drain in about)
    if any(drain.spec.nodes != (node,) or drain.spec.node_selector for drain in about):
        found_text = f"Node {node} is drained together with others by {', '.join(names)}"
        raise CommandFailed(tried="", found=found_text, hint="Give the name of the drain to end all of it.")
    return names


def _labels(text: str | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in (text or "").split(",") if text is not None else ():
        key, sign, value = part.strip().partition("=")
        if not key or not sign or value.startswith("="):
            raise click.UsageError(f"-l: found {part!r}, expected KEY=VALUE[,…].")
        labels[key] = value
    return labels


def _rack(cluster: ClusterRoute, rack: str) -> dict[str, str]:
    """The label of a rack: of the lowest level above the host, in the first Topology by name."""
    for labels in levels_of(all_objects(cluster, TOPOLOGIES, TopologyObject)):
        if above := [label for label in labels if label != HOST]:
            return {above[-1]: rack}
    raise CommandFailed(
        tried="",
        found="No Topology of the cluster has racks",
        hint="Choose nodes by a label: kubectl muster drain -l KEY=VALUE.",
    )


def _count(cluster: ClusterRoute, names: Sequence[str], labels: Mapping[str, str]) -> str:
    """How many nodes it is about, in words. Raises CommandFailed: there are none."""
    if labels:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = listed(cluster, NODES, Bare, labelSelector=selector)
        if found is not None and not found:
            raise CommandFailed(tried="", found=f"No node has the label {selector}")
        return f"nodes with {selector}" if found is None else counted(len(found), "node")
    for name in names:
        try:
            read(cluster, path_of(NODES, None, name), Bare, tried=f"Looking for node {name}")
        except Refused as error:
            if error.status == _NOT_FOUND:
                hint = "`kubectl get nodes` lists them."
                raise CommandFailed(tried="", found=f"There is no node {name}", hint=hint) from error
            if error.status != _FORBIDDEN:
                raise
    return counted(len(names), "node")


def _as_name(text: str) -> str:
    """A label value as a part of a name."""
    found = "".join(each if each.isalnum() or each in "-." else "-" for each in text.lower())
    return found.strip("-.")[:200] or "nodes"
