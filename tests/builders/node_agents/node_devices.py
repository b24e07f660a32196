"""Devices of nodes as agents report them: facts, and Device objects as the API server has them."""

from typing import Any

from admission.facts.devices import DeviceFault, NodeDevicesFact, ReportedDevice
from queues.workload import NodeName

Document = dict[str, Any]


def fault(number: int, **more: Any) -> DeviceFault:
    given = {"device": f"GPU-{number}", "number": number, "reason": "XidFault", "message": "XID 79", **more}
    return DeviceFault(**given)


def reported(number: int, **more: Any) -> ReportedDevice:
    return ReportedDevice(**{"id": f"GPU-{number}", "number": number, **more})


def node_devices(node: str, count: int = 8, *, faulty: tuple[int, ...] = (), **more: Any) -> NodeDevicesFact:
    """So many whole devices of a node, some of them with a fault."""
    devices = (reported(minor, fault=fault(minor) if minor in faulty else None) for minor in range(count))
    return NodeDevicesFact(**{"node": NodeName(node), "devices": tuple(devices), **more})


def device(minor: int, *, health: bool = True, **more: Any) -> Document:
    """A device of a Device object."""
    condition = {
        "type": "Healthy",
        "status": "True" if health else "False",
        "reason": "Healthy" if health else "XidFault",
        "message": "" if health else "XID 79: it has fallen off the bus",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    found = {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": health, "conditions": [condition]}
    return {**found, **more}


def device_object(
    node: str, *devices: Document, holders: dict[str, list[int]] | None = None, **metadata: Any
) -> Document:
    """A Device object. ``holders``: minors by the uid of the pod that has them."""
    entries = [
        {"name": uid, "namespace": "ns", "uuid": uid, "minors": minors}
        for uid, minors in (holders or {}).items()
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node, **metadata},
        "spec": {"devices": list(devices)},
        "status": {"allocations": [{"type": "gpu", "entries": entries}]} if entries else {},
    }
