"""``kubectl muster nodes``: the nodes with GPUs, how many of these are well, and what is wrong with the others."""

import time
from datetime import UTC, datetime
from typing import Any

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.options import cluster, document, output
from admission.cli.rendering.nodes import node_lines, node_table
from queues.api.api_resources import DEVICES, NODES, ApiResource

_NOT_FOUND = 404
_FORBIDDEN = 403


@click.command(short_help="Nodes with GPUs: how many are well, and what is wrong with the others.")
@click.argument("names", metavar="[NODE]...", nargs=-1)
@click.option("--faulty", is_flag=True, help="Only nodes with a GPU that is not well, or in recovery.")
@output
@cluster
def nodes(names: tuple[str, ...], faulty: bool, output: str, no_headers: bool, cluster: ClusterRoute) -> None:
    """Show the nodes with GPUs: how many of these are well and how many pods have, and what is wrong with the others.

    HELD and faults are what the agent on the node reports; a node without one shows `-`. You need the right to list
    nodes and devices.scheduling.koordinator.sh.
    """
    found = [_one(cluster, name) for name in names] if names else _all(cluster, NODES)
    lines = node_lines(found, _all(cluster, DEVICES, may_be_absent=True))
    if faulty:
        lines = [line for line in lines if line["faults"] or line["state"] not in ("Ready", "Cordoned")]
    text = document({"items": lines}, output)
    if text is None:
        if not lines:
            click.echo("No node has a GPU that is not well." if faulty else "No node has GPUs.", err=True)
            return
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        text = node_table(lines, now, wide=output == "wide", headers=not no_headers)
    click.echo(text, nl=False)


def _one(cluster: ClusterRoute, name: str) -> Any:
    return send(cluster, "GET", path_of(NODES, None, name), tried=f"Looking for node {name}")


def _all(cluster: ClusterRoute, resource: ApiResource, *, may_be_absent: bool = False) -> list[Any]:
    """All objects of a kind. ``may_be_absent``: none where there is no such kind, or the user may not list it."""
    try:
        found: list[Any] = send(cluster, "GET", path_of(resource, None), tried=f"Listing {resource.plural}")[
            "items"
        ]
    except Refused as refused:
        if not may_be_absent or refused.status not in (_NOT_FOUND, _FORBIDDEN):
            raise
        if refused.status == _FORBIDDEN:
            click.echo(f"You may not list {resource.plural}, so faults are not shown.", err=True)
        return []
    return found
