"""Nodes with devices, as ``kubectl muster nodes`` shows them: from Node and Device objects. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from admission.cli.output import Output
from admission.cli.plugin.reservations import Closure
from admission.cli.rendering.terminal import NONE, Cell, TableColumn, age, item_table, printable
from admission.wire import (
    Quantity,
    WireCondition,
    WireNode,
    WireNodeDevices,
    WireNodeStatus,
    WireReportedDevice,
    WireResourceSlice,
    WireSliceDevice,
    WireSliceSpec,
)
from queues.api import names
from queues.read_api.bodies import Body, NodeWorkloadsBody


class Recovery(Body, frozen=True, kw_only=True):
    """How far the recovery of a node is."""

    #: "": it does not recover.
    phase: str = ""
    #: What the recovery waits for; "": nothing.
    waits: str = ""
    #: Whether a person keeps GPU work off the node, by a taint.
    by_person: bool = False


class DeviceFaultLine(Body, frozen=True, kw_only=True):
    """What is wrong with a device."""

    #: The number by which pods and people name the device. Null: it has none.
    number: int | None
    id: str
    reason: str
    message: str
    since: str | None


class Accelerator(Body, frozen=True, kw_only=True):
    """A kind of whole device of a node."""

    name: str
    resource: str
    total: int
    #: What new pods may have. Null: Muster does not know the node.
    free: int | None


class NodeLine(Body, frozen=True, kw_only=True):
    """A node with devices: what it and its agent say, and what is free and held there. Null: not known."""

    name: str
    #: In the words of ``kubectl get nodes``.
    state: str
    recovery: Recovery = Recovery()
    model: str = ""
    driver: str = ""
    gpus: int | None = None
    healthy: int | None = None
    #: Devices that the device plugin or the driver holds back.
    not_offered: int = 0
    #: Whether an agent reports devices.
    reported: bool = False
    held: int | None = None
    #: Sets of devices that NVLinks join.
    islands: int | None = None
    faults: tuple[DeviceFaultLine, ...] = ()
    #: When the agent was last heard of; "": never.
    agent: str | None = None
    closures: tuple[Closure, ...] = ()
    #: "": in none.
    rack: str = ""
    #: Whether it takes new pods with GPUs.
    usable: bool = False
    #: Why Muster places no gangs there; "": it does.
    closed: str = ""
    accelerators: tuple[Accelerator, ...] = ()
    free: int | None = None
    taints: tuple[str, ...] = ()
    workloads: NodeWorkloadsBody | None = None


#: Resources of whole devices, the usual one first.
_DEVICES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "gpu.intel.com/i915")
#: Resources of one model, as NVIDIA's plugin names them where it is set up so. Others of its domain are parts of
#: devices, memory and cores of them, and network cards.
_OF_A_MODEL: Final = re.compile(
    r"nvidia\.com/(?!mig-|gpumem|gpucores|priority$|hostdev|.*(?:rdma|sriov|nic))[\w.-]+", re.IGNORECASE
)
#: Parts of devices: their number does not say how many devices there are.
_PARTS: Final = re.compile(r"nvidia\.com/mig-.+|volcano\.sh/vgpu-number")
#: Value of the taint ``muster.dev/gpu-fault`` that Muster itself sets.
_MUSTER: Final = "muster"
#: Lines of faults of one node, and characters of one cell: a Device may report any number of devices, and any texts.
_MOST_FAULTS: Final = 16
_LONGEST_CELL: Final = 300
#: What names of drivers of GPUs begin with: ``gpu.nvidia.com``, ``gpu.amd.com``, ``gpu.intel.com``.
_GPU_DRIVER: Final = "gpu."
#: What the attribute ``type`` of a whole device is, where it has one. Parts have another one.
_WHOLE: Final = (None, "gpu", "amdgpu")
_KEEPS_OFF: Final = ("NoSchedule", "NoExecute")


class SliceGpus(NamedTuple):
    """Numbers of GPUs in the ResourceSlices of a node."""

    #: Whole ones.
    whole: int = 0
    #: Those of them with a taint that keeps pods off.
    tainted: int = 0


def node_lines(
    nodes: Iterable[WireNode],
    devices: Iterable[WireNodeDevices],
    slices: Mapping[str, SliceGpus] | None = None,
    agents: Mapping[str, str] | None = None,
) -> list[NodeLine]:
    """What nodes with devices and their agents say, by name. Devices without a node are left out.

    ``slices``: GPUs in ResourceSlices, by node. ``agents``: when the agent of each node was last heard of, None if that
    may not be read.
    """
    by_node = {reported.metadata.name: reported for reported in devices}
    lines = []
    for node in nodes:
        name = node.metadata.name
        claimed = (slices or {}).get(name, SliceGpus())
        if name in by_node or claimed.whole or has_gpus(node):
            heard = None if agents is None else _clean(agents.get(name))
            lines.append(_line(node, by_node.get(name), claimed, heard))
    return sorted(lines, key=lambda line: line.name)


def has_gpus(node: WireNode) -> bool:
    """Whether a node itself says that it has GPUs, or parts of them."""
    return bool(_plugin_gpus(node.status)[0] or _amounts(node.status, _named(node.status, _PARTS))[0])


def whole_gpus(amounts: Mapping[str, str]) -> int:
    """Whole devices among amounts by resource, one that is shared counted whole."""
    from queues.resources import amount, scale

    named = [name for name in amounts if is_whole_gpu(name)]
    return sum(-(-amount(name, amounts[name]) // scale(name)) for name in named)


def is_whole_gpu(resource: str) -> bool:
    """Whether a resource counts whole GPUs."""
    return resource in _DEVICES or _OF_A_MODEL.fullmatch(resource) is not None


def is_faulty(line: NodeLine) -> bool:
    """Whether a node has an unhealthy device, or is out of service for GPU work, or waits for being so."""
    recovery = line.recovery
    out = recovery.phase or recovery.waits or recovery.by_person
    return bool(line.faults or (line.healthy or 0) < (line.gpus or 0) or out)


def _line(
    node: WireNode, reported: WireNodeDevices | None, claimed: SliceGpus, heard: str | None
) -> NodeLine:
    labels = node.metadata.labels or {}
    devices = [] if reported is None else _devices(reported)
    faults = tuple(_fault(device) for device in devices if not device.health)
    by_resource = {} if reported is None else _by_resource(reported, devices)
    by_plugin, offered = _plugin_gpus(node.status)
    gpus = len(devices) or by_plugin or claimed.whole
    is_known = bool(gpus) or reported is not None
    if by_resource:
        not_offered = _not_offered(node.status, by_resource)
    else:
        not_offered = max(0, by_plugin - offered) if by_plugin else claimed.tainted
    return NodeLine(
        name=node.metadata.name,
        state=_state(node),
        recovery=_recovery(node),
        model=_clean(labels.get(names.GPU_MODEL)) or ",".join(_models(devices)),
        driver=_clean(labels.get(names.GPU_DRIVER)),
        gpus=gpus if is_known else None,
        healthy=max(0, gpus - max(len(faults), not_offered)) if is_known else None,
        not_offered=not_offered,
        reported=reported is not None,
        held=None if reported is None else len(_held(reported, devices)),
        islands=_islands(devices),
        faults=faults,
        agent=heard,
    )


def _devices(reported: WireNodeDevices) -> list[WireReportedDevice]:
    return [device for device in reported.spec.devices or () if device.type == "gpu"]


def _by_resource(
    reported: WireNodeDevices, devices: Iterable[WireReportedDevice]
) -> dict[str, list[WireReportedDevice]]:
    """The devices by the resource that each counts as while it is whole."""
    from queues.resources import usual_resource

    of_node = (reported.metadata.labels or {}).get(names.KOORDINATOR_GPU_VENDOR)
    found: dict[str, list[WireReportedDevice]] = {}
    for device in devices:
        labels = device.labels or {}
        vendor = labels.get(names.KOORDINATOR_GPU_VENDOR) or of_node or "nvidia"
        found.setdefault(labels.get(names.DEVICE_RESOURCE) or usual_resource(vendor), []).append(device)
    return found


def _amounts(status: WireNodeStatus, resources: Iterable[str] = _DEVICES) -> tuple[int, int]:
    """Capacity and allocatable amount of the first of these resources that the node has. (0, 0): it has none."""
    for resource in resources:
        capacity, allocatable = (
            _amount((amounts or {}).get(resource, "0")) for amounts in (status.capacity, status.allocatable)
        )
        if capacity > 0:
            return capacity, allocatable
    return 0, 0


def _plugin_gpus(status: WireNodeStatus) -> tuple[int, int]:
    """Capacity and allocatable amount of whole devices: of the usual resource, or of those of all models."""
    usual = _amounts(status)
    if usual[0]:
        return usual
    found = [_amounts(status, (resource,)) for resource in _named(status, _OF_A_MODEL)]
    return sum(each for each, _ in found), sum(each for _, each in found)


def _named(status: WireNodeStatus, names: re.Pattern[str]) -> list[str]:
    return [resource for resource in status.capacity or () if names.fullmatch(resource)]


def _amount(text: Quantity) -> int:
    """Whole devices of a quantity, such as ``8`` or ``1k``; 0: it cannot be read."""
    from queues.errors import InvalidQuantity
    from queues.resources import quantity

    try:
        return int(quantity(text))
    except InvalidQuantity:
        return 0


def _not_offered(status: WireNodeStatus, by_resource: Mapping[str, list[WireReportedDevice]]) -> int:
    """Devices that the device plugin holds back. Where it shares devices, each counts several times in the amounts."""
    found = 0
    for resource, devices in by_resource.items():
        # A reporter that knows no resources means the one that the node has.
        capacity, allocatable = _amounts(
            status, (resource,) if len(by_resource) > 1 else (resource, *_DEVICES)
        )
        shares = max(1, capacity // len(devices)) if devices else 1
        found += max(0, -(-(capacity - allocatable) // shares))
    return found


def _state(node: WireNode) -> str:
    """The state of the node in the words of ``kubectl get nodes``."""
    conditions = {condition.type: condition.status for condition in node.status.conditions or ()}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if node.spec.unschedulable else ready


def _recovery(node: WireNode) -> Recovery:
    """How far the recovery of the node is."""
    told = _told((node.metadata.annotations or {}).get(names.RECOVERY, ""))
    phase = told.get("phase", "")
    taints = node.spec.taints or ()
    return Recovery(
        phase="" if phase == "none" else phase,
        waits=told.get("waits", ""),
        by_person=any(taint.key == names.GPU_FAULT and taint.value != _MUSTER for taint in taints),
    )


def _told(annotation: str) -> dict[str, str]:
    """Texts of the annotation ``muster.dev/recovery``, clean. Empty: there is none, or it cannot be read."""
    try:
        found = json.loads(annotation or "{}")
    except (ValueError, RecursionError):
        return {}
    fields = found.items() if isinstance(found, dict) else ()
    return {name: _clean(value) for name, value in fields if isinstance(value, str)}


def _clean(text: str | None) -> str:
    """A text that others wrote, on one line, also for JSON and YAML: they write some control characters as they are."""
    return printable(" ".join((text or "").split()))


def _models(devices: Iterable[WireReportedDevice]) -> list[str]:
    return sorted({_clean((device.labels or {}).get(names.GPU_MODEL)) for device in devices} - {""})


def _number(device: WireReportedDevice) -> int | None:
    """The number by which pods and people name a device. None if it has none."""
    text = (device.labels or {}).get(names.DEVICE_INDEX, "")
    if text.isascii() and text.isdecimal() and len(text) < 4:
        return int(text)
    return device.minor if device.minor >= 0 else None


def _held(reported: WireNodeDevices, devices: Iterable[WireReportedDevice]) -> set[int]:
    """Numbers of the devices that pods have. The allocations name devices by their minors."""
    allocations = reported.status.allocations or ()
    entries = (entry for held in allocations if held.type == "gpu" for entry in held.entries or ())
    minors = {minor for entry in entries for minor in entry.minors or ()}
    numbers = (_number(device) for device in devices if device.minor in minors)
    return {number for number in numbers if number is not None}


def _islands(devices: Iterable[WireReportedDevice]) -> int | None:
    """Number of sets of devices that NVLinks join. None if not reported."""
    found = {(device.labels or {}).get(names.NVLINK_ISLAND) for device in devices} - {None}
    return len(found) or None


def _fault(device: WireReportedDevice) -> DeviceFaultLine:
    conditions = (condition for condition in device.conditions or () if condition.type == "Healthy")
    told = next(conditions, WireCondition())
    return DeviceFaultLine(
        number=_number(device),
        id=_clean(device.id),
        reason=_clean(told.reason) or "Unhealthy",
        message=_clean(told.message),
        since=_clean(told.last_transition_time) or None,
    )


def node_table(lines: Iterable[NodeLine], now: str, output: Output) -> str:
    """One line for each node, and one more for each further fault, up to a bound."""

    def first(cell: Callable[[NodeLine], Cell]) -> Callable[[tuple[NodeLine, str, bool]], Cell]:
        return lambda row: _cut(cell(row[0])) if row[2] else ""

    columns: list[TableColumn[tuple[NodeLine, str, bool]]] = [
        TableColumn("NODE", first(lambda line: line.name), least=14),
        TableColumn("STATE", first(lambda line: line.state), least=10),
        TableColumn("RECOVERY", first(lambda line: _recovery_text(line.recovery)), least=10),
        TableColumn("AGENT", first(lambda line: _agent_text(line.agent, now)), goes=2),
        TableColumn("MODEL", first(lambda line: line.model or None), wide=True),
        TableColumn("DRIVER", first(lambda line: line.driver or None), wide=True),
        TableColumn("ISLANDS", first(lambda line: line.islands), right=True, wide=True),
        TableColumn("GPUS", first(lambda line: line.gpus), right=True),
        TableColumn("HEALTHY", first(lambda line: line.healthy), right=True),
        TableColumn("HELD", first(lambda line: line.held), right=True, goes=1),
        TableColumn("FAULTS", lambda row: _cut(row[1]), least_rest=18),
    ]
    rows = [
        (line, fault, index == 0)
        for line in lines
        for index, fault in enumerate(_faults(line, now, wide=output.is_wide) or [NONE])
    ]
    return item_table(columns, rows, output)


def _cut(cell: Cell) -> Cell:
    """The cell, cut where it is so long that it would widen all lines beyond use."""
    too_long = isinstance(cell, str) and len(cell) > _LONGEST_CELL
    return f"{str(cell)[: _LONGEST_CELL - 1]}…" if too_long else cell


def _recovery_text(recovery: Recovery) -> str:
    """``draining, waits for foreign-pods``."""
    parts = (
        recovery.phase,
        "no GPU work" if recovery.by_person else "",
        f"waits for {recovery.waits}" if recovery.waits else "",
    )
    return ", ".join(filter(None, parts)) or NONE


def _agent_text(heard: str | None, now: str) -> str:
    """How long ago the agent was heard of. ``-``: the node has none, ``?``: that may not be read."""
    return NONE if heard == "" else _age(heard, now) or "?"


def _faults(line: NodeLine, now: str, *, wide: bool) -> list[str]:
    """The first faults that the agent reports, and devices that only the device plugin or the driver holds back."""
    faults = line.faults
    told = [_fault_text(fault, now, wide=wide) for fault in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        told.append(f"and {len(faults) - _MOST_FAULTS} more")
    more = line.not_offered - len(faults)
    return [*told, f"{more} not offered by the device plugin or driver"] if more > 0 else told


def _fault_text(fault: DeviceFaultLine, now: str, *, wide: bool) -> str:
    """``GPU 3 Xid79 (5m)``, and in the wide form the message."""
    since = f" ({told})" if (told := _age(fault.since, now)) else ""
    name = fault.id if fault.number is None else f"GPU {fault.number}"
    text = f"{name} {fault.reason}{since}"
    return f"{text}: {fault.message}" if wide and fault.message else text


def _age(since: str | None, now: str) -> str:
    """The age of a fault; "": it is not reported, or is no time."""
    try:
        return age(since, now) if since else ""
    except (ValueError, TypeError, OverflowError):
        return ""


def slice_gpus(slices: Iterable[WireResourceSlice]) -> dict[str, SliceGpus]:
    """Whole GPUs by node, in slices of the newest generation of each pool."""
    specs = [published.spec for published in slices if published.spec.driver.startswith(_GPU_DRIVER)]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), spec.pool.generation)
    found: dict[str, SliceGpus] = {}
    for spec in specs:
        if spec.node_name and spec.pool.generation == newest[_pool(spec)]:
            devices = [device for device in spec.devices or () if _type(device) in _WHOLE]
            whole, tainted = found.get(spec.node_name, SliceGpus())
            tainted += sum(map(_is_tainted, devices))
            found[spec.node_name] = SliceGpus(whole + len(devices), tainted)
    return found


def _pool(spec: WireSliceSpec) -> tuple[str, str]:
    return spec.driver, spec.pool.name


def _type(device: WireSliceDevice) -> str | None:
    attributes = (device.attributes or {}).items()
    return next((value.get("string") for key, value in attributes if key.rpartition("/")[2] == "type"), None)


def _is_tainted(device: WireSliceDevice) -> bool:
    return any(taint.effect in _KEEPS_OFF for taint in device.taints or ())
