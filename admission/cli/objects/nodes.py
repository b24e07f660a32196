"""``kubectl muster nodes``: the nodes with GPUs, how many GPUs are healthy, and what is wrong with the others."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.options import cluster, document, output
from admission.cli.rendering.nodes import is_faulty, mixed_notes, node_lines, node_table
from queues.api.api_resources import DEVICES, NODES

_NOT_FOUND = 404
_FORBIDDEN = 403
_RIGHT: Final = "Ask for the right to list devices.scheduling.koordinator.sh."


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
@output
@cluster
def nodes(names: tuple[str, ...], faulty: bool, output: str, no_headers: bool, cluster: ClusterRoute) -> None:
    """Show the nodes with GPUs: how many GPUs are healthy, how many pods have, and what is wrong with the others.

    HELD and FAULTS come from the agent on the node. Without an agent both are `-`: nothing was checked.

    You need the right to list nodes and devices.scheduling.koordinator.sh.
    """
    found = [_one(cluster, name) for name in dict.fromkeys(names)] if names else _all_nodes(cluster)
    reports = _reports(cluster, needed=faulty)
    if reports.gap:
        click.echo(reports.gap, err=True)
    lines = node_lines(found, reports.devices)
    if not faulty:
        _tell_of_others(names, {line["name"] for line in lines})
    elif not (lines := [line for line in lines if is_faulty(line)]):
        click.echo("None of these nodes is faulty." if names else "No node is faulty.", err=True)
    text = document({"items": lines}, output)
    if text is None and lines:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        text = node_table(lines, now, wide=output == "wide", headers=not no_headers)
    click.echo(text or "", nl=False)
    for note in () if faulty else mixed_notes(lines):
        click.echo(note, err=True)


def _tell_of_others(names: tuple[str, ...], shown: set[str]) -> None:
    """Say of each node that was asked for and is not shown why it is not."""
    for name in dict.fromkeys(names):
        if name not in shown:
            click.echo(f"Node {name} has no GPUs, and no agent reports any.", err=True)
    if not names and not shown:
        click.echo("No node has GPUs.", err=True)


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
