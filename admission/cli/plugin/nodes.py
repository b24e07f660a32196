"""``kubectl muster nodes``: the nodes with GPUs by rack, what is free, who has seats there, and what is wrong."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from admission.cli.access.object_forms import Lease, TopologyObject
from admission.cli.access.objects import ObjectForbidden, ObjectNotFound, all_objects, listed, path_of, read
from admission.cli.access.requests import Route, pages
from admission.cli.command_line import CommandFailed
from admission.cli.options import route
from admission.cli.output import Output, output
from admission.cli.plugin.reservations import Closures, closure_sentence, read_closures
from admission.cli.plugin.wanted_nodes import show_wanted_nodes
from admission.cli.rendering.node_use import use_table, with_use
from admission.cli.rendering.nodes import (
    NodeLine,
    SliceGpus,
    has_gpus,
    is_faulty,
    node_lines,
    node_table,
    slice_gpus,
)
from admission.cli.rendering.racks import Racks, is_in, largest_gangs, rack_lines, rack_table
from admission.cli.rendering.terminal import say
from admission.wire import WireNode, WireNodeDevices, WireResourceSlice
from queues.api.api_resources import DEVICES, LEASES, NODES, RESOURCE_SLICES, TOPOLOGIES
from queues.api.names import AGENT_NAMESPACE
from queues.errors import MusterError
from queues.read_api.bodies import NodeBody, NodeList

_RIGHT: Final = "The role muster-queue-admin has that right (devices.scheduling.koordinator.sh)."

_UNREAD_SLICES: Final = " You may not list resourceslices, in which drivers publish GPUs that pods claim."
#: Nodes that are shown one by one; of more, the racks.
_MOST_NODES: Final = 40
#: Nodes that one sentence names.
_MOST_TOLD: Final = 8
_TABLES: Final = ("table", "wide")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reports:
    """What agents report."""

    #: Device objects.
    devices: list[WireNodeDevices]
    #: Why there are none, for people; "": they could be listed.
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Which nodes, and how."""

    names: tuple[str, ...]
    selector: str | None
    rack: str | None
    level: str | None
    racks: bool | None
    faulty: bool
    health: bool
    wanted: bool

    def __post_init__(self) -> None:
        """Raises UsageError: options that exclude each other."""
        if self.names and self.selector is not None:
            raise click.UsageError("Names of nodes and -l exclude each other.")
        if self.racks and (self.faulty or self.health):
            raise click.UsageError("--racks excludes --faulty and --health, which are about single nodes.")
        chosen = (self.names, self.selector, self.rack, self.level, self.faulty, self.health)
        if self.wanted and (any(chosen) or self.racks is not None):
            raise click.UsageError(
                "--wanted is about nodes that are not there, so it goes with no other choice."
            )

    @property
    def is_health(self) -> bool:
        """Whether the table is that of agents and faults."""
        return self.faulty or self.health


@click.command(short_help="Nodes with GPUs by rack: what is free, who has it, and what is wrong.")
@click.argument("names", metavar="[NODE]...", nargs=-1)
@click.option("-l", "--selector", metavar="SELECTOR", help="Only nodes with these labels, as of kubectl.")
@click.option(
    "--rack", metavar="RACK", help="Only nodes of this rack: its whole name, or the last part of it."
)
@click.option(
    "--level",
    metavar="LABEL",
    help="Node label that tells the rack [the lowest level above the host of the first Topology].",
)
@click.option(
    "--racks/--no-racks",
    default=None,
    help=f"A line for each rack, or for each node [racks if there are more than {_MOST_NODES} nodes].",
)
@click.option(
    "--faulty", is_flag=True, help="Only nodes with an unhealthy GPU, or out of service for GPU work."
)
@click.option("--health", is_flag=True, help="What the agents on the nodes say, as with --faulty.")
@click.option("--wanted", is_flag=True, help="Instead: which nodes waiting gangs would need.")
@output
@route
def nodes(output: Output, route: Route, **asked: Any) -> int:
    """Show the nodes with GPUs: rack, state, how many GPUs are free, and which workloads have the others.

    FREE are whole GPUs that new pods may have: none on a node that is cordoned, not ready, out of service, drained,
    reserved (for other queues), or closed because it kills the pods of gangs. ILL are unhealthy ones, or held back by
    the device plugin. WORKLOADS have the GPUs that each holds on the node; workloads that you may not list are
    counted only.

    Of racks: OUT are nodes that take no pods, EMPTY nodes with all GPUs free, and SPLIT the part of the free GPUs that
    is on nodes with others in use. Below are the largest gangs that fit, as far as GPUs decide.

    --faulty and --health show what the agents on the nodes say. HELD and FAULTS are `-` without an agent: nothing was
    checked. AGENT is how long ago it was last heard of; more than three minutes: it does not run, or does not reach
    the API server.

    --wanted shows what is missing: the pods of gangs that have quota and no place, by queue and by what each pod asks
    for. LARGEST is the most pods of one gang, IN-ONE the topology level if one domain of it has to hold a gang. It
    counts the workloads that you may list, and needs no right to list nodes.

    You need the right to list nodes, and for faults devices.scheduling.koordinator.sh. AGENT is `?` without the right
    to list leases in the namespace muster-agents, and nodes that have their GPUs only in ResourceSlices are not shown
    without the right to list these.
    """
    wanted = _Asked(**asked)
    return show_wanted_nodes(output, route) if wanted.wanted else _show(wanted, output, route)


def _show(asked: _Asked, output: Output, route: Route) -> int:
    if asked.names:
        found = [_one(route, name) for name in dict.fromkeys(asked.names)]
    else:
        found = _all_nodes(route, asked.selector)
    reports = _reports(route, needed=asked.faulty)
    if reports.gap:
        say(reports.gap, err=True)
    slices = _slices(route, found, reports.devices)
    lines = node_lines(found, reports.devices, slices or {}, _agents(route))
    if not asked.faulty:
        _tell_of_others(asked, {line.name for line in lines}, _UNREAD_SLICES if slices is None else "")
    elif not (lines := [line for line in lines if is_faulty(line)]):
        say("None of these nodes is faulty." if asked.names else "No node is faulty.", err=True)
    # The table of agents and faults needs neither.
    is_full = not asked.is_health or output.form not in _TABLES
    topologies = listed(route, TOPOLOGIES, TopologyObject) if is_full or asked.rack else ()
    use = _use(route) if lines and is_full else {}
    closures = read_closures(route, time.time()) if lines and is_full else Closures()
    racks = Racks.known(topologies or (), found, asked.level)
    lines = with_use(lines, found, racks, use, closures.by_node)
    lines = _of_rack(lines, asked.rack)
    _print(asked, lines, output)
    for told in _told_closures(lines, closures) if output.is_table else ():
        say(told, err=True)
    return 0


def _told_closures(lines: Sequence[NodeLine], closures: Closures) -> Iterator[str]:
    """A sentence for each reservation, drain or other reason that closes these nodes, and one if some are unread."""
    nodes: dict[str, list[str]] = {}
    for line in lines:
        sentences = [closure_sentence(closure) for closure in line.closures]
        for sentence in (*sentences, *filter(None, [line.closed])):
            nodes.setdefault(sentence, []).append(line.name)
    for sentence, names in nodes.items():
        more = len(names) - _MOST_TOLD
        some = ", ".join(names[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
        yield f"{'Node' if len(names) == 1 else 'Nodes'} {some}: {sentence}."
    if closures.unread:
        what = " and ".join(closures.unread)
        yield f"You may not list {what}, so FREE may count such nodes. The role muster-queue-viewer has that right."


def _print(asked: _Asked, lines: Sequence[NodeLine], output: Output) -> None:
    by_rack = rack_lines(lines)
    many = len(lines) > _MOST_NODES and not (asked.names or asked.is_health) and output.form in _TABLES
    if asked.racks or (asked.racks is None and many):
        racks = by_rack
        text = output.document({"items": racks}, name=lambda rack: f"rack/{rack.rack}")
        table = rack_table(racks, output) if text is None and lines else ""
        if many and asked.racks is None:
            told = f"{len(lines)} nodes. --no-racks shows each, --rack RACK those of one rack."
            say(told, err=True)
    else:
        shown = lines
        text = output.document({"items": shown}, name=lambda line: f"node/{line.name}")
        table = _node_table(asked, shown, output) if text is None and lines else ""
    if text is None:
        text = output.fitted(table)
        if table and output.headers and not asked.is_health:
            text += "".join(f"\n{told}" for told in largest_gangs(by_rack)) + "\n"
    click.echo(text, nl=False)


def _node_table(asked: _Asked, lines: Sequence[NodeLine], output: Output) -> str:
    if asked.is_health:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        return node_table(lines, now, output)
    return use_table(lines, output)


def _of_rack(lines: list[NodeLine], rack: str | None) -> list[NodeLine]:
    """The lines of one rack, None for all. Raises ClickException: no node is in it."""
    if rack is None:
        return lines
    found = [line for line in lines if is_in(line.rack, rack)]
    if not found:
        known = sorted({line.rack for line in lines} - {""})
        some = ", ".join(known[:_MOST_NODES]) + (
            f" and {len(known) - _MOST_NODES} more" if len(known) > _MOST_NODES else ""
        )
        raise click.ClickException(
            f"No node with GPUs is in rack {rack}. Racks: {some or 'none; see --level'}."
        )
    return found


def _use(route: Route) -> dict[str, NodeBody] | None:
    """What the read API says of each node, by name; None, with a line for people: it does not."""
    try:
        return node_uses(route)
    except MusterError as error:
        say(f"What is free, and who has seats, is not known: {error}", err=True)
        return None


def node_uses(route: Route) -> dict[str, NodeBody]:
    """What the read API says of each node, by name. Raises CommandFailed."""
    body = pages(route, "nodes", NodeList, {"workloads": "true"})
    return {node.name: node for node in body.items}


def _tell_of_others(asked: _Asked, shown: set[str], gap: str) -> None:
    """Say of each node that was asked for and is not shown why it is not. ``gap``: what could not be read."""
    for name in dict.fromkeys(asked.names):
        if name not in shown:
            say(f"Node {name} has no GPUs, and no agent reports any.{gap}", err=True)
    if not asked.names and not shown:
        which = "No node" if asked.selector is None else f"No node with the labels {asked.selector}"
        say(f"{which} has GPUs.{gap}", err=True)


def _one(route: Route, name: str) -> WireNode:
    return read(route, path_of(NODES, None, name), WireNode, tried=f"Looking for node {name}")


def _all_nodes(route: Route, selector: str | None) -> list[WireNode]:
    # As of the API server's cache: thousands of nodes need not be read from etcd for one look.
    query: dict[str, Any] = {"resourceVersion": "0"} | ({"labelSelector": selector} if selector else {})
    return all_objects(route, NODES, WireNode, **query)


def _reports(route: Route, *, needed: bool) -> _Reports:
    """What agents report. ``needed``: without the right to read it there is no answer. Raises CommandFailed."""
    try:
        return _Reports(devices=all_objects(route, DEVICES, WireNodeDevices))
    except ObjectNotFound:
        return _Reports(devices=[], gap="No agent reports anything: this cluster has no Devices.")
    except ObjectForbidden as error:
        if needed:
            reason = "You may not list devices, so it is not known which are faulty"
            raise CommandFailed(tried="Listing devices", found=reason, hint=_RIGHT) from error
        return _Reports(devices=[], gap=f"You may not list devices, so faults are not shown. {_RIGHT}")


def _slices(
    route: Route, nodes: list[WireNode], devices: list[WireNodeDevices]
) -> dict[str, SliceGpus] | None:
    """GPUs in ResourceSlices, by node. Empty also if all nodes are shown anyway. None if the user may not list them."""
    reported = {device.metadata.name for device in devices}
    if all(has_gpus(node) or node.metadata.name in reported for node in nodes):
        return {}
    slices = listed(route, RESOURCE_SLICES, WireResourceSlice)
    return None if slices is None else slice_gpus(slices)


def _agents(route: Route) -> dict[str, str] | None:
    """When the agent of each node was last heard of. None if the user may not list their leases."""
    leases = listed(route, LEASES, Lease, namespace=AGENT_NAMESPACE)
    return None if leases is None else {lease.metadata.name: lease.spec.renew_time or "" for lease in leases}
