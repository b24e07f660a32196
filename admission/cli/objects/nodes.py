"""``kubectl muster nodes``: the nodes with GPUs, how many GPUs are healthy, and what is wrong with the others."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.closures.objects import closed_nodes
from admission.cli.options import cluster
from admission.cli.output import Output, list_output
from admission.cli.rendering.nodes import has_gpus, is_faulty, mixed_notes, node_lines, node_table
from admission.cli.rendering.slice_gpus import SliceGpus, slice_gpus
from queues.api.api_resources import DEVICES, LEASES, NODES, RESOURCE_SLICES, ApiResource
from queues.api.names import AGENT_NAMESPACE

_NOT_FOUND = 404
_FORBIDDEN = 403
_RIGHT: Final = "Ask for the right to list devices.scheduling.koordinator.sh."

_UNREAD_SLICES: Final = " You may not list resourceslices, in which drivers publish GPUs that pods claim."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reports:
    """What agents report."""

    #: Device objects.
    devices: list[Any]
    #: Why there are none, for people; "": they could be listed.
    gap: str = ""


@click.command(short_help="Nodes with GPUs: how many are healthy, and what is wrong with the others.")
@click.argument("names", metavar="[NODE]...", nargs=-1)
@click.option(
    "--faulty", is_flag=True, help="Only nodes with an unhealthy GPU, or out of service for GPU work."
)
@list_output
@cluster
def nodes(names: tuple[str, ...], faulty: bool, output: Output, cluster: ClusterRoute) -> None:
    """Show the nodes with GPUs: how many GPUs are healthy, how many pods have, and what is wrong with the others.

    HELD and FAULTS come from the agent on the node. Without an agent both are `-`: nothing was checked. AGENT is how
    long ago it was last heard of; more than three minutes: it does not run, or does not reach the API server.

    You need the right to list nodes and devices.scheduling.koordinator.sh. AGENT is `?` without the right to list
    leases in the namespace muster-agents, and nodes that have their GPUs only in ResourceSlices are not shown without
    the right to list these.
    """
    found = [_one(cluster, name) for name in dict.fromkeys(names)] if names else _all_nodes(cluster)
    reports = _reports(cluster, needed=faulty)
    if reports.gap:
        click.echo(reports.gap, err=True)
    slices = _slices(cluster, found, reports.devices)
    lines = node_lines(found, reports.devices, slices or {}, _agents(cluster))
    if not faulty:
        _tell_of_others(names, {line["name"] for line in lines}, _UNREAD_SLICES if slices is None else "")
    elif not (lines := [line for line in lines if is_faulty(line)]):
        click.echo("None of these nodes is faulty." if names else "No node is faulty.", err=True)
    lines = output.sorted(lines)
    text = output.document({"items": lines}, name=lambda line: f"node/{line['name']}")
    if text is None and lines:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        text = node_table(lines, now, wide=output.is_wide, headers=output.headers)
    click.echo(output.fitted(text or ""), nl=False)
    for note in () if faulty else mixed_notes(lines):
        click.echo(note, err=True)
    closed = closed_nodes(cluster) if output.is_table else {}
    for line in lines:
        for told in closed.get(line["name"], ()):
            click.echo(f"Node {line['name']} is {told}.", err=True)


def _tell_of_others(names: tuple[str, ...], shown: set[str], gap: str) -> None:
    """Say of each node that was asked for and is not shown why it is not. ``gap``: what could not be read."""
    for name in dict.fromkeys(names):
        if name not in shown:
            click.echo(f"Node {name} has no GPUs, and no agent reports any.{gap}", err=True)
    if not names and not shown:
        click.echo(f"No node has GPUs.{gap}", err=True)


def _one(cluster: ClusterRoute, name: str) -> Any:
    return send(cluster, "GET", path_of(NODES, None, name), tried=f"Looking for node {name}")


def _all_nodes(cluster: ClusterRoute) -> list[Any]:
    listed: list[Any] = send(cluster, "GET", path_of(NODES, None), tried="Listing nodes")["items"]
    return listed


def _reports(cluster: ClusterRoute, *, needed: bool) -> _Reports:
    """What agents report. ``needed``: without the right to read it there is no answer. Raises CommandFailed."""
    tried = "Listing devices"
    try:
        return _Reports(devices=send(cluster, "GET", path_of(DEVICES, None), tried=tried)["items"])
    except Refused as refused:
        if refused.status == _NOT_FOUND:
            return _Reports(devices=[], gap="No agent reports anything: this cluster has no Devices.")
        if refused.status != _FORBIDDEN:
            raise
        if needed:
            found = "You may not list devices, so it is not known which are faulty"
            raise Refused(status=_FORBIDDEN, tried=tried, found=found, hint=_RIGHT) from refused
        return _Reports(devices=[], gap=f"You may not list devices, so faults are not shown. {_RIGHT}")


def _slices(cluster: ClusterRoute, nodes: list[Any], devices: list[Any]) -> dict[str, SliceGpus] | None:
    """GPUs in ResourceSlices, by node. Empty also if all nodes are shown anyway; None: the user may not list them."""
    reported = {each["metadata"]["name"] for each in devices}
    if all(has_gpus(each) or each["metadata"]["name"] in reported for each in nodes):
        return {}
    slices = _listed(cluster, RESOURCE_SLICES)
    return None if slices is None else slice_gpus(slices)


def _agents(cluster: ClusterRoute) -> dict[str, str] | None:
    """When the agent of each node was last heard of; None: the user may not list their leases."""
    leases = _listed(cluster, LEASES, AGENT_NAMESPACE)
    if leases is None:
        return None
    return {each["metadata"]["name"]: (each.get("spec") or {}).get("renewTime") or "" for each in leases}


def _listed(cluster: ClusterRoute, resource: ApiResource, namespace: str | None = None) -> list[Any] | None:
    """All objects of a kind; None: the user may not list them."""
    path, tried = path_of(resource, namespace), f"Listing {resource.plural}"
    try:
        found: list[Any] = send(cluster, "GET", path, tried=tried)["items"]
    except Refused as refused:
        if refused.status == _NOT_FOUND:
            return []
        if refused.status != _FORBIDDEN:
            raise
        return None
    return found
