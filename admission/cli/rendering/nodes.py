"""Nodes with devices, as ``kubectl muster nodes`` shows them: from Node and Device objects. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.cli.rendering.table import NONE, Cell, age, table
from queues.api import names

Document = Mapping[str, Any]

_NUMBERS: Final = "GPUS WELL HELD ISLANDS"
#: Resources of whole devices, the usual one first.
_DEVICES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "gpu.intel.com/i915")


def node_lines(nodes: Iterable[Document], devices: Iterable[Document]) -> list[dict[str, Any]]:
    """What is told of each node with devices, by name; the form of ``-o json``. Devices without a node are left out."""
    by_node = {each["metadata"]["name"]: each for each in devices}
    lines = (_line(node, by_node.get(node["metadata"]["name"])) for node in nodes)
    return sorted((line for line in lines if line["gpus"] or line["reported"]), key=lambda line: line["name"])


def _line(node: Document, device: Document | None) -> dict[str, Any]:
    metadata, status = node["metadata"], node.get("status", {})
    resource = next((name for name in _DEVICES if name in status.get("capacity", {})), _DEVICES[0])
    reported = [] if device is None else _devices(device)
    offered = int(status.get("allocatable", {}).get(resource, "0"))
    faults = [each for each in reported if not each.get("health")]
    return {
        "name": metadata["name"],
        "state": _state(node),
        "model": (metadata.get("labels") or {}).get(names.GPU_MODEL) or _models(reported),
        "driver": (metadata.get("labels") or {}).get(names.GPU_DRIVER, ""),
        "gpus": len(reported) or int(status.get("capacity", {}).get(resource, "0")),
        "well": min(offered, len(reported) - len(faults)) if reported else offered,
        "reported": device is not None,
        "held": None if device is None else len(_held(device)),
        "islands": _islands(reported),
        "faults": [_fault(each) for each in faults],
    }


def _devices(device: Document) -> list[Document]:
    return [each for each in device.get("spec", {}).get("devices") or () if each.get("type") == "gpu"]


def _state(node: Document) -> str:
    """What keeps new work off the whole node, the strongest first."""
    annotations = node["metadata"].get("annotations") or {}
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "NotReady"
    if phase := _phase(annotations.get(names.RECOVERY, "")):
        return phase
    return "Cordoned" if node.get("spec", {}).get("unschedulable") else "Ready"


def _phase(text: str) -> str:
    """The phase of the node's recovery; "": there is none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return ""
    phase = found.get("phase") if isinstance(found, dict) else None
    return phase.capitalize() if isinstance(phase, str) and phase != "none" else ""


def _models(devices: Iterable[Document]) -> str:
    found = sorted({(each.get("labels") or {}).get(names.GPU_MODEL, "") for each in devices} - {""})
    return ",".join(found)


def _held(device: Document) -> set[int]:
    """Numbers of the devices that pods have."""
    allocations = (device.get("status") or {}).get("allocations") or ()
    entries = (
        entry for each in allocations if each.get("type") == "gpu" for entry in each.get("entries") or ()
    )
    return {minor for entry in entries for minor in entry.get("minors") or ()}


def _islands(devices: Iterable[Document]) -> int | None:
    """Number of sets of devices that NVLinks join; None: not told."""
    found = {(each.get("labels") or {}).get(names.NVLINK_ISLAND) for each in devices} - {None}
    return len(found) or None


def _fault(device: Document) -> dict[str, Any]:
    told: Document = next(
        (each for each in device.get("conditions") or () if each.get("type") == "Healthy"), {}
    )
    return {
        "device": device.get("minor"),
        "id": device.get("id", ""),
        "reason": told.get("reason") or "Unhealthy",
        "message": told.get("message") or "",
        "since": told.get("lastTransitionTime"),
    }


def node_table(lines: Iterable[Mapping[str, Any]], now: str, *, wide: bool, headers: bool) -> str:
    """One line for each node, and one more for each further device that is not well."""
    columns = ["NODE", "STATE", "MODEL", "GPUS", "WELL", "HELD", "FAULTS"]
    if wide:
        columns[3:3] = ["DRIVER", "ISLANDS"]
    rows: list[list[Cell]] = []
    for line in lines:
        faults = [_told(fault, now, wide) for fault in line["faults"]] or [NONE]
        more: list[Cell] = [line["driver"] or None, line["islands"]] if wide else []
        counts: list[Cell] = [line["gpus"], line["well"], line["held"]]
        rows.append([line["name"], line["state"], line["model"] or None, *more, *counts, faults[0]])
        blank: list[Cell] = [""] * (len(columns) - 1)
        rows += [[*blank, fault] for fault in faults[1:]]
    return table(columns, rows, headers=headers, right=_NUMBERS)


def _told(fault: Mapping[str, Any], now: str, wide: bool) -> str:
    """``3 XidFault (5m): XID 79 …``."""
    since = f" ({age(fault['since'], now)})" if fault["since"] else ""
    text = f"{fault['device']} {fault['reason']}{since}"
    return f"{text}: {fault['message']}" if wide and fault["message"] else text
