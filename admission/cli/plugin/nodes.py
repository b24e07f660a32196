"""``kubectl muster nodes``: the nodes with GPUs by rack, what is free, who has seats there, and what is wrong."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click
from msgspec import structs

from admission.cli.access.object_forms import Lease
from admission.cli.access.objects import listed
from admission.cli.access.requests import Route, pages
from admission.cli.command_line import CommandFailed
from admission.cli.options import route
from admission.cli.output import Output, output
from admission.cli.rendering.nodes import NodeLine, closure_sentence, is_faulty, node_table, use_table
from admission.cli.rendering.racks import is_in, largest_gangs, rack_lines, rack_table
from admission.cli.rendering.terminal import say
from queues.api.api_resources import DEVICES, LEASES
from queues.api.names import AGENT_NAMESPACE
from queues.read_api.nodes import NodeBody, NodeList

_RIGHT: Final = "The role muster-node-viewer has that right (devices.scheduling.koordinator.sh)."

#: Nodes that are shown one by one; of more, the racks.
_MOST_NODES: Final = 40
#: Nodes that one sentence names.
_MOST_TOLD: Final = 8
_TABLES: Final = ("table", "wide")


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

    def __post_init__(self) -> None:
        """Raises UsageError: options that exclude each other."""
        if self.names and self.selector is not None:
            raise click.UsageError("Names of nodes and -l exclude each other.")
        if self.racks and (self.faulty or self.health):
            raise click.UsageError("--racks excludes --faulty and --health, which are about single nodes.")

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
@output
@route
def nodes(output: Output, route: Route, **asked: Any) -> int:
    """Show the nodes with GPUs: rack, state, how many GPUs are free, and which workloads have the others.

    FREE are whole GPUs that new pods may have: none on a node that is cordoned, not ready, out of service, drained,
    reserved (for other queues), or closed because it kills the pods of gangs. UNHEALTHY are also those that the device
    plugin holds back. WORKLOADS have the GPUs that each holds on the node; workloads that you may not list are counted
    only.

    Of racks: OUT are nodes that take no pods, EMPTY nodes with all GPUs free, and SPLIT the part of the free GPUs that
    is on nodes with others in use. Below are the largest gangs that fit, as far as GPUs decide.

    --faulty and --health show what the agents on the nodes say. HELD and FAULTS are `-` without an agent: nothing was
    checked. AGENT is how long ago it was last heard of; more than three minutes: it does not run, or does not reach
    the API server.

    The leader of Muster answers. You need the right to list nodes, and for faults devices.scheduling.koordinator.sh.
    AGENT is `?` without the right to list leases in the namespace muster-agents.
    """
    return _show(_Asked(**asked), output, route)


def _show(asked: _Asked, output: Output, route: Route) -> int:
    body = nodes_with_gpus(route, names=asked.names, labels=asked.selector, level=asked.level)
    shown = list(body.items)
    if DEVICES.plural in body.unread:
        if asked.faulty:
            reason = "You may not list devices, so it is not known which are faulty"
            raise CommandFailed(tried="Listing devices", found=reason, hint=_RIGHT)
        say(f"You may not list devices, so faults are not shown. {_RIGHT}", err=True)
    if not asked.faulty:
        _tell_of_others(asked, {node.name for node in shown})
    elif not (shown := [node for node in shown if is_faulty(node)]):
        _tell_of_no_faults(asked, body)
    agents = _agents(route) if shown and (asked.is_health or not output.is_table) else None
    lines = [
        NodeLine(**structs.asdict(node), agent=None if agents is None else agents.get(node.name, ""))
        for node in _of_rack(shown, asked.rack)
    ]
    _print(asked, lines, output)
    for told in _told_closures(lines, body.unread) if output.is_table and not asked.is_health else ():
        say(told, err=True)
    return 0


def nodes_with_gpus(
    route: Route, *, names: Sequence[str] = (), labels: str | None = None, level: str | None = None
) -> NodeList:
    """The nodes that have GPUs, or parts of them, with the workloads there. Raises CommandFailed.

    ``names``: only these; empty for all. ``labels``: a selector. ``level``: the node label of racks.
    """
    chosen = ",".join(dict.fromkeys(names)) or None
    query = {"workloads": "true", "names": chosen, "labels": labels, "level": level}
    body = pages(route, "nodes", NodeList, query)
    return structs.replace(body, items=tuple(node for node in body.items if node.accelerators))


def _agents(route: Route) -> dict[str, str] | None:
    """When the agent of each node was last heard of. None if the user may not list their leases."""
    leases = listed(route, LEASES, Lease, namespace=AGENT_NAMESPACE)
    return None if leases is None else {lease.metadata.name: lease.spec.renew_time or "" for lease in leases}


def _told_closures(lines: Sequence[NodeBody], unread: Sequence[str]) -> Iterator[str]:
    """A sentence for each reservation, drain or other reason that closes these nodes, and one if some may not be
    listed."""
    nodes: dict[str, list[str]] = {}
    for line in lines:
        sentences = [closure_sentence(closure) for closure in line.closures]
        for sentence in (*sentences, *filter(None, [line.closed])):
            nodes.setdefault(sentence, []).append(line.name)
    for sentence, names in nodes.items():
        more = len(names) - _MOST_TOLD
        some = ", ".join(names[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
        yield f"{'Node' if len(names) == 1 else 'Nodes'} {some}: {sentence}."
    if hidden := [plural for plural in unread if plural != DEVICES.plural]:
        yield f"You may not list {' and '.join(hidden)}. The role muster-queue-viewer has that right."


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


def _of_rack(lines: list[NodeBody], rack: str | None) -> list[NodeBody]:
    """The nodes of one rack, None for all. Raises ClickException: no node is in it."""
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


def _tell_of_others(asked: _Asked, shown: set[str]) -> None:
    """Say of each node that was asked for and is not shown why it is not."""
    for name in dict.fromkeys(asked.names):
        if name not in shown:
            say(f"Node {name} has no GPUs, and no agent reports any.", err=True)
    if not asked.names and not shown:
        which = "No node" if asked.selector is None else f"No node with the labels {asked.selector}"
        say(f"{which} has GPUs.", err=True)


def _tell_of_no_faults(asked: _Asked, body: NodeList) -> None:
    if body.items and not any(node.reported for node in body.items):
        say("No agent reports anything.", err=True)
    say("None of these nodes is faulty." if asked.names else "No node is faulty.", err=True)
