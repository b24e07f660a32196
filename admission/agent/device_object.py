"""What the agent writes of a node's devices: the Device object (Koordinator's kind) and labels of the Node. Pure.

Other programs write into the same objects: koordlet its RDMA devices, Koordinator's manager its annotations. What is
not the agent's is left as it is.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from admission.agent.allocations import Allocation
from admission.agent.health.conditions import DeviceHealth, condition_documents
from admission.agent.load import Load
from admission.agent.readings import SWITCH, DeviceId, DeviceReading, Fabric, NodeReading
from queues.api import names
from queues.errors import InvalidQuantity
from queues.json_values import list_at, mapping_at, value_at
from queues.resources import quantity

Document = dict[str, Any]

#: Koordinator's type of accelerators of all vendors.
GPU: Final = "gpu"
_UNKNOWN: Final = -1
_CORE: Final = "koordinator.sh/gpu-core"
_MEMORY: Final = "koordinator.sh/gpu-memory"
_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"

#: Labels and annotations of a Device that are the agent's to write and to take away.
_LABELS: Final = (
    names.KOORDINATOR_GPU_VENDOR,
    names.KOORDINATOR_GPU_MODEL,
    names.KOORDINATOR_GPU_DRIVER,
    names.GPU_RUNTIME,
    names.GPU_UTILISATION,
    names.GPU_TEMPERATURE,
)
_ANNOTATIONS: Final = (names.MIG_INSTANCES, names.HEALTH_MEMORY)

_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_LABEL: Final = 63
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def device_document(
    node_name: str,
    node_uid: str,
    readings: Sequence[NodeReading],
    health: Mapping[DeviceId, DeviceHealth],
    allocations: Sequence[Allocation],
    resources: Mapping[DeviceId, str] = MappingProxyType({}),
    offered: Mapping[DeviceId, bool] = MappingProxyType({}),
    memory: str = "",
) -> Document:
    """The Device object of a node: the same text for the same input, in any order.

    A device without an entry in ``health`` is unhealthy: nothing is known of it yet. ``resources``: what devices are
    registered as, where that is not the usual one of their vendor. ``offered``: whether the kubelet may give them to
    pods, as far as that is known; it is reported for unhealthy ones. ``memory``: what the agent has to remember.
    """
    minors = {device.id: device_minor(device) for reading in readings for device in reading.devices}
    minors |= {
        instance.id: device_minor(device)
        for reading in readings
        for device in reading.devices
        for instance in device.mig_instances
    }
    island = {reading.vendor: islands(reading) for reading in readings}
    devices = [
        _device(
            device,
            health.get(device.id),
            _device_labels(
                device,
                reading.vendor,
                island[reading.vendor].get(device.id),
                resources.get(device.id, ""),
            )
            | _offered(device, health.get(device.id), offered),
        )
        for reading in readings
        for device in reading.devices
    ]
    return {
        "apiVersion": names.KOORDINATOR_SCHEDULING,
        "kind": "Device",
        "metadata": {
            "name": node_name,
            "labels": _given(_labels(readings), _LABELS),
            "annotations": _annotations(readings) | {names.HEALTH_MEMORY: memory},
            "ownerReferences": [_owner(node_name, node_uid)],
        },
        "spec": {"devices": sorted(devices, key=_place)},
        "status": {"allocations": _allocations(allocations, minors)},
    }


def with_load(document: Document, load: Load) -> Document:
    """The Device object with labels that say how busy and how hot the devices are."""
    steps = {names.GPU_UTILISATION: load.utilisation, names.GPU_TEMPERATURE: load.temperature}
    told = {key: step.value for key, step in steps.items() if step is not None}
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**metadata["labels"], **told}}}


def node_labels(readings: Sequence[NodeReading]) -> dict[str, str | None]:
    """The agent's labels of the Node; the value None is for a label that it does not have (any more)."""
    found = _labels(readings)
    return {key: found.get(key) for key in names.AGENT_NODE_LABELS}


def label_value(text: str) -> str:
    """A text as the value of a label: other characters than labels may have become ``-``."""
    return _NOT_IN_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("._-")


def model_label(model: str) -> str:
    """A model as Koordinator's label has it: without the vendor NVIDIA, ``-`` for blanks."""
    return label_value(model.removeprefix("NVIDIA "))


def difference(stored: Mapping[str, Any] | None, wanted: Document) -> Document | None:
    """The Device object to write, so that a stored one says what ``wanted`` does. None if it says so already.

    ``stored``: as the API server has it, None if there is none. The order of lists, forms of quantities, and fields
    that are not the agent's make no difference; these fields are kept, the version of the object included.
    """
    if stored is None:
        return wanted
    if _compared(stored, wanted) == _compared(wanted, wanted):
        return None
    return _merged(stored, wanted)


# ── parts of the document ───────────────────────────────────────────────────────────────────────────────────────


def _labels(readings: Sequence[NodeReading]) -> dict[str, str]:
    """All labels of a node and its Device. What differs between devices of the node is absent."""
    devices = [device for reading in readings for device in reading.devices]
    model = _only(model_label(device.model) for device in devices)
    driver = _only(label_value(reading.driver_version) for reading in readings)
    found = {
        names.KOORDINATOR_GPU_VENDOR: _only(label_value(reading.vendor) for reading in readings),
        names.KOORDINATOR_GPU_MODEL: model,
        names.KOORDINATOR_GPU_DRIVER: driver,
        names.GPU_RUNTIME: _only(label_value(reading.runtime_version) for reading in readings),
        names.GPU_MODEL: model,
        names.GPU_DRIVER: driver,
        names.NVL_DOMAIN: _only(_domain(device.fabric) for device in devices if not device.lost),
        names.GPU_COUNT: str(sum(1 for device in devices if not device.lost)) if devices else "",
    }
    return {key: value for key, value in found.items() if value}


def _only(values: Iterable[str]) -> str:
    """The value that all have; "": they differ, or there are none."""
    different = set(values)
    return different.pop() if len(different) == 1 else ""


def _given(found: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: found[key] for key in keys if key in found}


def _domain(fabric: Fabric | None) -> str:
    """The NVLink domain across nodes; "": none, or the fabric manager has not finished.

    In one node without such links the uuid of the cluster is zero.
    """
    if fabric is None or not fabric.complete or not fabric.cluster.strip("0-"):
        return ""
    return label_value(f"{fabric.cluster}.{fabric.clique}")


def _annotations(readings: Sequence[NodeReading]) -> dict[str, str]:
    instances = {
        device.id: [
            {"id": each.id, "profile": each.profile, "gpuInstance": each.gpu_instance}
            for each in sorted(device.mig_instances, key=lambda each: (each.gpu_instance, each.id))
        ]
        for reading in readings
        for device in reading.devices
        if device.mig_instances
    }
    return {names.MIG_INSTANCES: _json(instances)} if instances else {}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _owner(node_name: str, node_uid: str) -> Document:
    return {
        "apiVersion": names.CORE,
        "kind": "Node",
        "name": node_name,
        "uid": node_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _device(device: DeviceReading, health: DeviceHealth | None, labels: Mapping[str, str]) -> Document:
    found: Document = {
        "type": GPU,
        "id": device.id,
        "minor": device_minor(device),
        "health": health is not None and health.healthy,
        "labels": labels,
        "resources": {
            _CORE: "100",
            _MEMORY: binary_quantity(device.memory_bytes),
            _MEMORY_RATIO: "100",
        },
        "topology": {
            "socketID": _UNKNOWN,
            "nodeID": _UNKNOWN if device.numa_node is None else device.numa_node,
            "pcieID": device.pcie_root,
            "busID": device.bus_id,
        },
        "conditions": condition_documents(health) if health is not None else [],
    }
    if device.module is not None:
        found["moduleID"] = device.module
    return found


def device_minor(device: DeviceReading) -> int:
    """Number of the device in the object. Koordinator's programs stop at a device without one; then it is the index."""
    return device.index if device.minor is None else device.minor


def _device_labels(device: DeviceReading, vendor: str, island: int | None, resource: str) -> dict[str, str]:
    modes = {None: "", True: "enabled", False: "disabled"}
    found = {
        names.KOORDINATOR_GPU_VENDOR: label_value(vendor),
        names.GPU_MODEL: model_label(device.model),
        names.DEVICE_INDEX: str(device.index),
        names.DEVICE_RESOURCE: resource,
        names.NVLINK_ISLAND: "" if island is None else str(island),
        names.NVL_DOMAIN: _domain(device.fabric),
        names.MIG_MODE: modes[device.mig_enabled],
    }
    return {key: value for key, value in sorted(found.items()) if value}


def _offered(
    device: DeviceReading, health: DeviceHealth | None, offered: Mapping[DeviceId, bool]
) -> dict[str, str]:
    if device.id not in offered or (health is not None and health.healthy):
        return {}
    return {names.DEVICE_OFFERED: "true" if offered[device.id] else "false"}


def binary_quantity(amount: int) -> str:
    """Bytes as Kubernetes writes them: with the largest binary suffix that leaves a whole number."""
    suffix = ""
    for larger in _BINARY:
        if not amount or amount % 1024:
            break
        amount, suffix = amount // 1024, larger
    return f"{amount}{suffix}"


def _allocations(allocations: Iterable[Allocation], minors: Mapping[DeviceId, int]) -> list[Document]:
    entries = [
        {
            "namespace": each.namespace,
            "name": each.name,
            "uuid": each.pod_uid,
            "minors": sorted({minors[device] for device in each.devices if device in minors}),
        }
        for each in allocations
    ]
    used = [entry for entry in entries if entry["minors"]]
    return [{"type": GPU, "entries": sorted(used, key=_place_of_entry)}] if used else []


def _place(device: Mapping[str, Any]) -> tuple[str, int, str]:
    return str(device.get("type", "")), int(device.get("minor") or 0), str(device.get("id", ""))


def _place_of_entry(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(entry.get("namespace", "")), str(entry.get("name", "")), str(entry.get("uuid", ""))


# ── what a stored object says ───────────────────────────────────────────────────────────────────────────────────


def _compared(document: Mapping[str, Any], wanted: Document) -> Any:
    """What of an object is the agent's, in a form in which equal meanings are equal."""
    metadata = mapping_at(document, "metadata")
    own = [_normal_device(each) for each in _devices(document) if each.get("type") == GPU]
    entries = [
        (*_place_of_entry(entry), sorted(map(str, list_at(entry, "minors"))))
        for allocation in _allocated(document)
        if allocation.get("type") == GPU
        for entry in map(mapping_at, list_at(allocation, "entries"))
    ]
    owner = wanted["metadata"]["ownerReferences"][0]
    return (
        _given(mapping_at(metadata, "labels"), _LABELS),
        _given(mapping_at(metadata, "annotations"), _ANNOTATIONS),
        any(owner.items() <= mapping_at(each).items() for each in list_at(metadata, "ownerReferences")),
        sorted(own, key=_json),
        sorted(entries),
    )


def _normal_device(device: Mapping[str, Any]) -> Document:
    """A device with quantities as exact amounts, and conditions by type; empty fields count as absent."""
    resources = {name: _amount(value) for name, value in mapping_at(device, "resources").items()}
    conditions = sorted(map(_json, list_at(device, "conditions")))
    normal = {**device, "resources": resources, "conditions": conditions}
    return {key: value for key, value in normal.items() if value not in (None, "", [], {})}


def _amount(value: Any) -> str:
    try:
        return str(quantity(value).normalize())
    except InvalidQuantity:
        return f"invalid: {value}"


def _merged(stored: Mapping[str, Any], wanted: Document) -> Document:
    """The stored object with what is the agent's as it is wanted."""
    metadata, new = dict(mapping_at(stored, "metadata")), wanted["metadata"]
    for field, keys in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
        others = {key: value for key, value in mapping_at(metadata, field).items() if key not in keys}
        metadata[field] = {**others, **new[field]}
    owners = [each for each in list_at(metadata, "ownerReferences") if value_at(each, "kind") != "Node"]
    metadata["ownerReferences"] = [*owners, *new["ownerReferences"]]
    devices = [each for each in _devices(stored) if each.get("type") != GPU]
    allocations = [each for each in _allocated(stored) if each.get("type") != GPU]
    return {
        **stored,
        "metadata": metadata,
        "spec": {**mapping_at(stored, "spec"), "devices": [*devices, *wanted["spec"]["devices"]]},
        "status": {
            **mapping_at(stored, "status"),
            "allocations": [*allocations, *wanted["status"]["allocations"]],
        },
    }


def _devices(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping_at(each) for each in list_at(document, "spec", "devices")]


def _allocated(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping_at(each) for each in list_at(document, "status", "allocations")]


def islands(reading: NodeReading) -> Mapping[DeviceId, int]:
    """The NVLink island of each device, by number: the smallest index of a device in it.

    An island is a set of devices of a node that NVLinks join, directly or through other devices or switches.
    A device without active links is an island of its own. Lost devices are in none, and join nothing: a link that leads
    to one leads nowhere. Devices on NVSwitches are joined by them, except where the fabric manager has them in
    different cliques.
    """
    devices = [device for device in reading.devices if not device.lost]
    places = {device.bus_id for device in devices}
    joined: list[set[object]] = []
    for device in devices:
        reached: set[object] = {device.bus_id or device.id, *(device.linked_to & places)}
        if SWITCH in device.linked_to:
            reached.add((SWITCH, device.fabric))
        joined = [
            *(each for each in joined if each.isdisjoint(reached)),
            reached.union(*(each for each in joined if not each.isdisjoint(reached))),
        ]
    number = {
        place: min(device.index for device in devices if (device.bus_id or device.id) in island)
        for island in joined
        for place in island
    }
    return {device.id: number[device.bus_id or device.id] for device in devices}
