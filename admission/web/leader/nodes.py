"""Nodes as the leader knows them: their devices, what is free there, what is wrong with them, and what closes them.

A rack is a domain of one level of topology, as the engine has it: nodes with the same labels from the outermost level
down to that one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.facts.cluster import NodeFact
from admission.facts.devices import NodeDevicesFact, ReportedDevice, ResourceSliceFact
from admission.node_recovery.state import read_state
from admission.reconcile.closure_status import closure_nodes
from admission.web.http import BadQuery
from admission.web.lists.queries import limit_of
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import DEVICES, NODE_DRAINS, RESERVATIONS
from queues.label_selectors import selector_of, selects
from queues.node_closures import ClosureKind, ClosurePhase
from queues.read_api.nodes import (
    AcceleratorBody,
    ClosureBody,
    DeviceFaultBody,
    NodeBody,
    NodeList,
    RecoveryBody,
)
from queues.read_api.quantities import quantities
from queues.resources import (
    DEVICE_MARK,
    NOTHING,
    WHOLE,
    Resources,
    is_device,
    is_whole_gpu,
    scale,
    usual_gpus,
)
from queues.text_format import printable, rfc3339, span
from queues.workload import NodeName, Requirement

#: Labels of racks where no Topology names any; the first that some node has.
USUAL_LABELS: Final = (
    "topology.muster.dev/rack",
    "topology.kubernetes.io/rack",
    "muster.dev/rack",
    "topology.kubernetes.io/zone",
)
#: Parts of devices: their number does not say how many devices there are.
_PARTS: Final = re.compile(r"nvidia\.com/mig-.+|volcano\.sh/vgpu-number")
#: What names of drivers of GPUs begin with: ``gpu.nvidia.com``, ``gpu.amd.com``, ``gpu.intel.com``.
_GPU_DRIVER: Final = "gpu."
#: What the attribute ``type`` of a whole device is, with its type, where it has one. Parts have another one.
_WHOLE_TYPES: Final = (None, "str gpu", "str amdgpu")
#: Taints that the state of the node says.
_OF_STATE: Final = "node.kubernetes.io/"


class NodeQuestion(NamedTuple):
    """Which nodes are asked for."""

    #: Empty: all.
    names: frozenset[str] = frozenset()
    labels: tuple[Requirement, ...] = ()
    #: Node label of the level of racks; "": the innermost one above the host of the first Topology.
    level: str = ""
    #: Only nodes after this name.
    after: str = ""
    limit: int = 1000

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "NodeQuestion":
        """The question of these parameters of ``/nodes``. Raises BadQuery."""
        selector, names = query.get("labels", ""), query.get("names", "")
        labels = selector_of(selector)
        if labels is None:
            raise BadQuery(
                f"labels is {selector[:100]!r}", expected="a selector as kubectl takes it: a=b,c in (d, e),!f"
            )
        return cls(
            names=frozenset(filter(None, names.split(","))),
            labels=labels,
            level=query.get("level", ""),
            after=query.get("continue", ""),
            limit=limit_of(query),
        )


class SliceGpus(NamedTuple):
    """Numbers of GPUs in the ResourceSlices of a node."""

    #: Whole ones.
    whole: int = 0
    #: Those of them with a taint that keeps pods off.
    tainted: int = 0


class KnownNode(NamedTuple):
    """What the world knows of one node."""

    fact: NodeFact
    #: None: no agent reports devices.
    reported: NodeDevicesFact | None
    slices: SliceGpus
    flavor: str
    #: Why it may not take new pods, in words; "": it may.
    why_not: str
    #: Why it takes no gangs all the same; "": it does.
    closed: str
    #: What admissions may use of it, and what they hold.
    limit: Resources
    seats: Resources
    closures: tuple[ClosureBody, ...]
    rack: str


class KnownNodes(NamedTuple):
    """Nodes in the order of their names, at most as many as were asked for."""

    #: Seconds since the epoch.
    now: int
    nodes: Sequence[KnownNode]
    #: The last of these if more follow, else "".
    end: str


def known_nodes(world: World, table: NodeTable, question: NodeQuestion, now: int) -> KnownNodes:
    """The nodes that are asked for, as values that another thread can use. ``table``: of the last turn; ``now``:
    seconds since the epoch. Only the controller's loop calls this."""
    inventory, closures = world.node_inventory, _closures(world, table, now)
    facts = inventory.nodes
    racks = rack_labels(inventory.levels(), facts.values(), question.level)
    chosen = sorted(
        name
        for name, fact in facts.items()
        if name > question.after
        and (not question.names or name in question.names)
        and selects(question.labels, fact.labels)
    )
    page = chosen[: question.limit]
    return KnownNodes(
        now=now,
        nodes=[
            KnownNode(
                fact=facts[name],
                reported=world.devices.reported(name),
                slices=_slice_gpus(world.devices.slices_on(name)),
                flavor=inventory.flavor(name),
                why_not=inventory.why_not(name),
                closed=inventory.faulty.closed(name),
                limit=inventory.limit(name) or NOTHING,
                seats=inventory.seats_on(name),
                closures=tuple(closures.get(name, ())),
                rack=rack_of(facts[name].labels, racks),
            )
            for name in page
        ],
        end=page[-1] if page and len(page) < len(chosen) else "",
    )


def node_list(known: KnownNodes) -> NodeList:
    """The nodes as the read API shows them, without the workloads on them."""
    now = rfc3339(known.now)
    return NodeList(now=now, as_of=now, items=tuple(map(_node, known.nodes)), continue_=known.end)


#: Kinds of objects that say something about nodes, besides the nodes.
ABOUT_NODES: Final = (DEVICES, RESERVATIONS, NODE_DRAINS)


def as_seen(found: NodeList, unread: tuple[str, ...]) -> NodeList:
    """The nodes for a user who may not list these kinds, in the plural: without what objects of them say."""
    hidden = {each.kind for each in ABOUT_NODES if each.plural in unread}
    if not hidden:
        return found
    unhealthy: dict[str, Any] = {}
    if DEVICES.kind in hidden:
        unhealthy = {"healthy": None, "reported": False, "held": None, "islands": None, "faults": ()}
    items = (
        replace(node, closures=tuple(each for each in node.closures if each.kind not in hidden), **unhealthy)
        for node in found.items
    )
    return replace(found, items=tuple(items), unread=unread)


def rack_labels(levels: Iterable[Sequence[str]], nodes: Iterable[NodeFact], level: str) -> tuple[str, ...]:
    """Node labels from the outermost level down to that of racks; empty: there are no racks.

    ``levels``: of each Topology. By the first that has ``level``, or any above the host ("": the innermost of these);
    without one by ``level`` alone, or by the first of the usual labels that a node has.
    """
    for keys in levels:
        above = tuple(key for key in keys if key != HOST)
        if level in keys:
            return tuple(keys[: keys.index(level) + 1])
        if not level and above:
            return above
    if level:
        return (level,)
    nodes = tuple(nodes)
    usual = (key for key in USUAL_LABELS if any(key in node.labels for node in nodes))
    return tuple(usual)[:1]


def rack_of(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    """Values of these labels, joined by "/"; "": some are missing."""
    values = [labels.get(key, "") for key in keys]
    return printable("/".join(values)) if values and all(values) else ""


def _closures(world: World, table: NodeTable, now: int) -> dict[NodeName, list[ClosureBody]]:
    """Reservations and drains that have not ended, by node."""
    found: dict[NodeName, list[ClosureBody]] = {}
    for state in world.node_inventory.closures.states(now, world.queue_facts.deserved_over_time()):
        closure = state.fact.closure
        if closure is None or state.phase not in (ClosurePhase.PLANNED, ClosurePhase.ACTIVE):
            continue
        is_reservation = closure.kind is ClosureKind.RESERVATION
        body = ClosureBody(
            kind=(RESERVATIONS if is_reservation else NODE_DRAINS).kind,
            name=closure.name,
            queue=closure.queue,
            from_=rfc3339(closure.start),
            for_=None if closure.end is None else span(closure.end - closure.start),
            phase=state.phase.value,
            closed=closure.closes_nodes(now),
        )
        for name in closure_nodes(state, table):
            found.setdefault(name, []).append(body)
    return found


def _slice_gpus(slices: Iterable[ResourceSliceFact]) -> SliceGpus:
    """Whole GPUs in these slices, all of the newest generation of their pools."""
    devices = [
        device
        for each in slices
        if each.driver.startswith(_GPU_DRIVER)
        for device in each.devices
        if next((text for key, text in device.attributes if key.endswith("/type")), None) in _WHOLE_TYPES
    ]
    return SliceGpus(len(devices), sum(device.is_tainted for device in devices))


def _node(known: KnownNode) -> NodeBody:
    fact, reported = known.fact, known.reported
    devices = () if reported is None else reported.devices
    offers = fact.allocatable + fact.unhealthy
    counts = {name: units // scale(name) for name, units in offers.items() if is_whole_gpu(name)}
    by_plugin = usual_gpus(counts)
    gpus = len(devices) or sum(counts[name] for name in by_plugin) or known.slices.whole
    has_whole = bool(gpus) or reported is not None
    not_offered = _not_offered(fact, devices, counts, by_plugin, known.slices)
    faults = tuple(_fault(device) for device in devices if device.fault is not None)
    state = read_state(fact.recovery)
    recovery = RecoveryBody(
        phase=state.phase.value if state.phase.is_out else "",
        waits=_clean(state.waits),
        by_person=any(
            taint.key == names.GPU_FAULT and taint.value != names.GPU_FAULT_BY_MUSTER for taint in fact.taints
        ),
    )
    is_out = recovery.phase or recovery.by_person or any(closure.closed for closure in known.closures)
    usable = not (known.why_not or known.closed or is_out)
    model = _clean(fact.labels.get(names.GPU_MODEL, "")) or ",".join(_models(devices))
    free_devices = free_on(known.limit, known.seats)
    has_parts = any(units > 0 and _PARTS.fullmatch(name) for name, units in offers.items())
    accelerators = _accelerators(counts, free_devices, gpus, model, usable=usable)
    if not accelerators and (has_whole or has_parts):
        accelerators = (AcceleratorBody(name=model or "gpu", resource="", total=gpus, free=None),)
    free = [each.free for each in accelerators if each.free is not None]
    return NodeBody(
        name=fact.name,
        flavor=known.flavor,
        state=("Ready" if fact.ready else "NotReady") + (",SchedulingDisabled" if fact.unschedulable else ""),
        usable=usable,
        closed=printable(known.closed),
        closures=known.closures,
        recovery=recovery,
        rack=known.rack,
        taints=_taints(fact),
        limits=quantities(known.limit),
        used=quantities(known.seats),
        free_devices=free_devices,
        accelerators=accelerators,
        free=sum(free) if free else None,
        model=model,
        driver=_clean(fact.labels.get(names.GPU_DRIVER, "")),
        gpus=gpus if has_whole else None,
        healthy=max(0, gpus - max(len(faults), not_offered)) if has_whole else None,
        not_offered=not_offered,
        reported=reported is not None,
        held=None if reported is None else len(frozenset[int]().union(*reported.holders.values())),
        islands=len({device.island for device in devices} - {None}) or None,
        faults=faults,
    )


def _not_offered(
    fact: NodeFact,
    devices: Sequence[ReportedDevice],
    counts: Mapping[str, int],
    by_plugin: Sequence[str],
    slices: SliceGpus,
) -> int:
    """Devices that the device plugin or the driver holds back. ``counts``: whole GPUs by resource, each of them several
    times where the plugin shares devices."""
    if not devices:
        return sum(fact.withheld[name] // WHOLE for name in by_plugin) if by_plugin else slices.tainted
    of_resource = Counter(device.resource for device in devices)
    found = 0
    for resource, number in of_resource.items():
        # A reporter that knows no resources means the one that the node has.
        is_known = counts.get(resource) or len(of_resource) > 1 or not by_plugin
        named = resource if is_known else by_plugin[0]
        shares = max(1, counts.get(named, 0) // number)
        found += -(-(fact.withheld[named] // WHOLE) // shares)
    return found


def _accelerators(
    counts: Mapping[str, int], free: Mapping[str, int], gpus: int, model: str, *, usable: bool
) -> tuple[AcceleratorBody, ...]:
    """Each kind of whole device of a node: how many there are, and how many new pods may have."""
    resources = sorted(name for name in {*counts, *filter(is_whole_gpu, free)} if counts.get(name))
    of_several = len(resources) > 1
    return tuple(
        AcceleratorBody(
            name=_short(name) if of_several else model or _short(name),
            resource=name,
            total=counts[name] if of_several else gpus,
            free=free.get(name, 0) if usable else 0,
        )
        for name in resources
    )


def free_on(limits: Mapping[str, int], used: Mapping[str, int]) -> dict[str, int]:
    """Whole devices that no pod uses any part of, by resource, as the engine counts them.

    The amounts have single devices (``nvidia.com/gpu#3``) where a node shares its devices. What is left of a device
    that a pod has a part of is no whole device, also not together with what is left of another one.
    """
    free = {name: amount - used.get(name, 0) for name, amount in limits.items()}
    found = {}
    for name, amount in free.items():
        if "/" not in name or is_device(name):
            continue
        each = [free[one] for one in free if one.startswith(f"{name}{DEVICE_MARK}") and one[-1].isdigit()]
        slack = sum(left for left in each if 0 < left < WHOLE)
        whole = max(0, amount - slack) // scale(name)
        found[name] = min(whole, sum(left >= WHOLE for left in each)) if each else whole
    return found


def _fault(device: ReportedDevice) -> DeviceFaultBody:
    fault = device.fault
    assert fault is not None, "it is unhealthy"
    return DeviceFaultBody(
        number=device.number,
        id=_clean(device.id),
        reason=_clean(fault.reason),
        message=_clean(fault.message),
        since=rfc3339(fault.since) if fault.since else None,
    )


def _models(devices: Iterable[ReportedDevice]) -> list[str]:
    return sorted({_clean(device.model) for device in devices} - {""})


def _taints(fact: NodeFact) -> tuple[str, ...]:
    return tuple(
        printable(f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}")
        for taint in fact.taints
        if not taint.key.startswith(_OF_STATE)
    )


def _short(resource: str) -> str:
    return resource.rpartition("/")[2]


def _clean(text: str) -> str:
    """A text that others wrote, on one line, also for JSON and YAML: they write some control characters as they are."""
    return printable(" ".join(text.split()))
