"""Nodes with devices, as ``kubectl muster nodes`` shows them: from Node and Device objects. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.cli.rendering.slice_gpus import SliceGpus
from admission.cli.rendering.table import NONE, Cell, age, printable
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from queues.api import names

Document = Mapping[str, Any]

_RIGHT: Final = "GPUS HEALTHY HELD ISLANDS"
_NARROW: Final = Narrowing(
    names={"NODE": 14, "STATE": 10, "RECOVERY": 10}, left_out=("HELD", "AGENT"), rest="FAULTS", least_rest=18
)
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
#: Nodes that one sentence names.
_MOST_NAMES: Final = 8
#: Lines of faults of one node, and characters of one cell: a Device may report any number of devices, and any texts.
_MOST_FAULTS: Final = 16
_LONGEST_CELL: Final = 300


def node_lines(
    nodes: Iterable[Document],
    devices: Iterable[Document],
    slices: Mapping[str, SliceGpus] | None = None,
    agents: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """What is shown of each node with devices, by name; the form of ``-o json``. Devices without a node are left out.

    ``slices``: GPUs in ResourceSlices, by node. ``agents``: when the agent of each node was last heard of, None if that
    may not be read.
    """
    by_node = {each["metadata"]["name"]: each for each in devices}
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        claimed = (slices or {}).get(name, SliceGpus())
        if name in by_node or claimed.whole or has_gpus(node):
            heard = None if agents is None else _clean(agents.get(name))
            found.append({**_line(node, by_node.get(name), claimed), "agent": heard})
    return sorted(found, key=lambda line: str(line["name"]))


def has_gpus(node: Document) -> bool:
    """Whether a node itself says that it has GPUs, or parts of them."""
    status = node.get("status", {})
    return bool(_plugin_gpus(status)[0] or _amounts(status, _named(status, _PARTS))[0])


def whole_gpus(amounts: Mapping[str, str]) -> int:
    """Whole devices among amounts by resource, one that is shared counted whole."""
    from queues.resources import amount, scale

    named = [name for name in amounts if is_whole_gpu(name)]
    return sum(-(-amount(name, amounts[name]) // scale(name)) for name in named)


def is_whole_gpu(resource: str) -> bool:
    """Whether a resource counts whole GPUs."""
    return resource in _DEVICES or _OF_A_MODEL.fullmatch(resource) is not None


def is_faulty(line: Mapping[str, Any]) -> bool:
    """Whether a node has an unhealthy device, or is out of service for GPU work, or waits for being so."""
    recovery = line["recovery"]
    out = recovery["phase"] or recovery["waits"] or recovery["byPerson"]
    return bool(line["faults"] or (line["healthy"] or 0) < (line["gpus"] or 0) or out)


def _line(node: Document, device: Document | None, claimed: SliceGpus) -> dict[str, Any]:
    metadata, status = node["metadata"], node.get("status", {})
    labels = metadata.get("labels") or {}
    reported = [] if device is None else _devices(device)
    faults = [_fault(each) for each in reported if not each.get("health")]
    by_resource = {} if device is None else _by_resource(device, reported)
    by_plugin, offered = _plugin_gpus(status)
    gpus = len(reported) or by_plugin or claimed.whole
    is_known = bool(gpus) or device is not None
    if by_resource:
        not_offered = _not_offered(status, by_resource)
    else:
        not_offered = max(0, by_plugin - offered) if by_plugin else claimed.tainted
    return {
        "name": metadata["name"],
        "state": _state(node),
        "recovery": _recovery(node),
        "model": _clean(labels.get(names.GPU_MODEL)) or _models(reported),
        "driver": _clean(labels.get(names.GPU_DRIVER)),
        "gpus": gpus if is_known else None,
        "healthy": max(0, gpus - max(len(faults), not_offered)) if is_known else None,
        "notOffered": not_offered,
        "reported": device is not None,
        "held": None if device is None else len(_held(device, reported)),
        "mixedResources": _mixed(status, by_resource),
        "islands": _islands(reported),
        "faults": faults,
    }


def _devices(device: Document) -> list[Document]:
    return [each for each in device.get("spec", {}).get("devices") or () if each.get("type") == "gpu"]


def _by_resource(device: Document, reported: Iterable[Document]) -> dict[str, list[Document]]:
    """The devices by the resource that each counts as while it is whole."""
    from queues.resources import usual_resource

    of_node = (device["metadata"].get("labels") or {}).get(names.KOORDINATOR_GPU_VENDOR)
    found: dict[str, list[Document]] = {}
    for each in reported:
        labels = each.get("labels") or {}
        vendor = labels.get(names.KOORDINATOR_GPU_VENDOR) or of_node or "nvidia"
        found.setdefault(labels.get(names.DEVICE_RESOURCE) or usual_resource(vendor), []).append(each)
    return found


def _mixed(status: Document, by_resource: Mapping[str, list[Document]]) -> list[dict[str, Any]]:
    """Resources of the node that devices of several models count as: no pod can ask for one of the models."""
    mixed = []
    for resource, devices in sorted(by_resource.items()):
        whole = [each for each in devices if (each.get("labels") or {}).get(names.MIG_MODE) != "enabled"]
        models = sorted({_clean((each.get("labels") or {}).get(names.GPU_MODEL)) for each in whole} - {""})
        if len(models) > 1 and _amounts(status, (resource,))[0] > 0:
            mixed.append({"resource": _clean(resource), "models": models})
    return mixed


def mixed_notes(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each resource that stands for several models, with the nodes on which it does."""
    nodes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for line in lines:
        for each in line["mixedResources"]:
            nodes.setdefault((each["resource"], tuple(each["models"])), []).append(line["name"])
    return [
        f"{resource} is {' or '.join(models)} on {_some(found)}: a pod that asks for it may get any of them. "
        'To tell them apart, see "Nodes with several models" in docs/how-to/gpu-nodes.md.'
        for (resource, models), found in sorted(nodes.items())
    ]


def _some(found: list[str]) -> str:
    """The first names of many."""
    more = len(found) - _MOST_NAMES
    return f"{', '.join(found[:_MOST_NAMES])} and {more} more" if more > 0 else ", ".join(found)


def _amounts(status: Document, resources: Iterable[str] = _DEVICES) -> tuple[int, int]:
    """Capacity and allocatable amount of the first of these resources that the node has. (0, 0): it has none."""
    for resource in resources:
        capacity, allocatable = (
            _amount((status.get(which) or {}).get(resource, "0")) for which in ("capacity", "allocatable")
        )
        if capacity > 0:
            return capacity, allocatable
    return 0, 0


def _plugin_gpus(status: Document) -> tuple[int, int]:
    """Capacity and allocatable amount of whole devices: of the usual resource, or of those of all models."""
    usual = _amounts(status)
    if usual[0]:
        return usual
    found = [_amounts(status, (resource,)) for resource in _named(status, _OF_A_MODEL)]
    return sum(each for each, _ in found), sum(each for _, each in found)


def _named(status: Document, names: re.Pattern[str]) -> list[str]:
    return [resource for resource in status.get("capacity") or () if names.fullmatch(resource)]


def _amount(text: str) -> int:
    """Whole devices of a quantity, such as ``8`` or ``1k``; 0: it cannot be read."""
    from queues.errors import InvalidQuantity
    from queues.resources import quantity

    try:
        return int(quantity(text))
    except InvalidQuantity:
        return 0


def _not_offered(status: Document, by_resource: Mapping[str, list[Document]]) -> int:
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


def _state(node: Document) -> str:
    """The state of the node in the words of ``kubectl get nodes``."""
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions") or ()}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ready


def _recovery(node: Document) -> dict[str, Any]:
    """How far the recovery of the node is. ``byPerson``: a person keeps GPU work off the node, by a taint."""
    annotations = node["metadata"].get("annotations") or {}
    told = _told(annotations.get(names.RECOVERY, ""))
    phase = told.get("phase", "")
    taints = node.get("spec", {}).get("taints") or ()
    return {
        "phase": "" if phase == "none" else phase,
        "waits": told.get("waits", ""),
        "byPerson": any(
            each.get("key") == names.GPU_FAULT and each.get("value") != _MUSTER for each in taints
        ),
    }


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


def _models(devices: Iterable[Document]) -> str:
    found = sorted({_clean((each.get("labels") or {}).get(names.GPU_MODEL)) for each in devices} - {""})
    return ",".join(found)


def _number(device: Document) -> int | None:
    """The number by which pods and people name a device. None if it has none."""
    text = (device.get("labels") or {}).get(names.DEVICE_INDEX, "")
    minor: int | None = device.get("minor")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else minor


def _held(device: Document, reported: Iterable[Document]) -> set[int]:
    """Numbers of the devices that pods have. The allocations name devices by their minors."""
    allocations = (device.get("status") or {}).get("allocations") or ()
    entries = (
        entry for each in allocations if each.get("type") == "gpu" for entry in each.get("entries") or ()
    )
    minors = {minor for entry in entries for minor in entry.get("minors") or ()}
    numbers = (_number(each) for each in reported if each.get("minor") in minors)
    return {number for number in numbers if number is not None}


def _islands(devices: Iterable[Document]) -> int | None:
    """Number of sets of devices that NVLinks join. None if not reported."""
    found = {(each.get("labels") or {}).get(names.NVLINK_ISLAND) for each in devices} - {None}
    return len(found) or None


def _fault(device: Document) -> dict[str, Any]:
    told: Document = next(
        (each for each in device.get("conditions") or () if each.get("type") == "Healthy"), {}
    )
    return {
        "number": _number(device),
        "id": _clean(device.get("id")),
        "reason": _clean(told.get("reason")) or "Unhealthy",
        "message": _clean(told.get("message")),
        "since": _clean(told.get("lastTransitionTime")) or None,
    }


def node_table(
    lines: Iterable[Mapping[str, Any]], now: str, *, wide: bool, headers: bool, width: int | None = None
) -> str:
    """One line for each node, and one more for each further fault, up to a bound."""
    columns = ["NODE", "STATE", "RECOVERY", "AGENT", "GPUS", "HEALTHY", "HELD", "FAULTS"]
    if wide:
        columns[4:4] = ["MODEL", "DRIVER", "ISLANDS"]
    rows: list[list[Cell]] = []
    for line in lines:
        faults = _faults(line, now, wide=wide) or [NONE]
        more: list[Cell] = [line["model"] or None, line["driver"] or None, line["islands"]] if wide else []
        counts: list[Cell] = [line["gpus"], line["healthy"], line["held"]]
        rows.append(
            [
                line["name"],
                line["state"],
                _recovery_text(line["recovery"]),
                _agent_text(line["agent"], now),
                *more,
                *counts,
                faults[0],
            ]
        )
        blank: list[Cell] = [""] * (len(columns) - 1)
        rows += [[*blank, fault] for fault in faults[1:]]
    cut = [[*map(_cut, row)] for row in rows]
    return fitted_table(columns, cut, _NARROW, width=width, headers=headers, right=_RIGHT)


def _cut(cell: Cell) -> Cell:
    """The cell, cut where it is so long that it would widen all lines beyond use."""
    too_long = isinstance(cell, str) and len(cell) > _LONGEST_CELL
    return f"{str(cell)[: _LONGEST_CELL - 1]}…" if too_long else cell


def _recovery_text(recovery: Mapping[str, Any]) -> str:
    """``draining, waits for foreign-pods``."""
    parts = (
        recovery["phase"],
        "no GPU work" if recovery["byPerson"] else "",
        f"waits for {recovery['waits']}" if recovery["waits"] else "",
    )
    return ", ".join(filter(None, parts)) or NONE


def _agent_text(heard: str | None, now: str) -> str:
    """How long ago the agent was heard of. ``-``: the node has none, ``?``: that may not be read."""
    return NONE if heard == "" else _age(heard, now) or "?"


def _faults(line: Mapping[str, Any], now: str, *, wide: bool) -> list[str]:
    """The first faults that the agent reports, and devices that only the device plugin or the driver holds back."""
    faults = line["faults"]
    told = [_fault_text(fault, now, wide=wide) for fault in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        told.append(f"and {len(faults) - _MOST_FAULTS} more")
    more = line["notOffered"] - len(faults)
    return [*told, f"{more} not offered by the device plugin or driver"] if more > 0 else told


def _fault_text(fault: Mapping[str, Any], now: str, *, wide: bool) -> str:
    """``GPU 3 Xid79 (5m)``, and in the wide form the message."""
    since = f" ({told})" if (told := _age(fault["since"], now)) else ""
    name = fault["id"] if fault["number"] is None else f"GPU {fault['number']}"
    text = f"{name} {fault['reason']}{since}"
    return f"{text}: {fault['message']}" if wide and fault["message"] else text


def _age(since: str | None, now: str) -> str:
    """The age of a fault; "": it is not reported, or is no time."""
    try:
        return age(since, now) if since else ""
    except (ValueError, TypeError, OverflowError):
        return ""
