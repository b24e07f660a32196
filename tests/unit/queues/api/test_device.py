"""Koordinator's Device: objects of koordlet are read as Koordinator writes them."""

from typing import Any

from queues.api.crd import crds
from queues.api.types.device import Device

#: As koordlet writes it, with a field that only a newer Koordinator has.
OF_KOORDLET: dict[str, Any] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Device",
    "metadata": {"name": "n1", "labels": {"node.koordinator.sh/gpu-vendor": "nvidia"}},
    "spec": {
        "devices": [
            {
                "type": "gpu",
                "id": "GPU-1",
                "minor": 1,
                "moduleID": 3,
                "health": True,
                "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": 85899345920},
                "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:17", "busID": "0000:18:00.0"},
                "vfGroups": [{"labels": {"a": "b"}, "vfs": [{"minor": -1, "busID": "0000:18:00.1"}]}],
                "conditions": [
                    {
                        "type": "Healthy",
                        "status": "True",
                        "reason": "GPUHealthy",
                        "message": "",
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                        "observedGeneration": 3,
                    }
                ],
                "numaAffinity": [0],
            }
        ]
    },
    "status": {
        "allocations": [
            {"type": "gpu", "entries": [{"name": "a", "namespace": "b", "uuid": "u", "minors": [0, 1]}]}
        ]
    },
}

#: Fields by their paths, as Koordinator's definition has them.
FIELDS = {
    "spec.devices.conditions",
    "spec.devices.health",
    "spec.devices.id",
    "spec.devices.labels",
    "spec.devices.minor",
    "spec.devices.moduleID",
    "spec.devices.resources",
    "spec.devices.topology.busID",
    "spec.devices.topology.nodeID",
    "spec.devices.topology.pcieID",
    "spec.devices.topology.socketID",
    "spec.devices.type",
    "spec.devices.vfGroups.labels",
    "spec.devices.vfGroups.vfs.busID",
    "spec.devices.vfGroups.vfs.minor",
    "status.allocations.entries.minors",
    "status.allocations.entries.name",
    "status.allocations.entries.namespace",
    "status.allocations.entries.uuid",
    "status.allocations.type",
}


def paths(schema: dict[str, Any], above: str = "") -> set[str]:
    inner = schema.get("items", schema).get("properties")
    if inner is None or above == "spec.devices.conditions":
        return {above}
    return {
        path for name, each in inner.items() for path in paths(each, f"{above}.{name}" if above else name)
    }


def test_what_koordlet_writes_is_read_and_kept() -> None:
    read = Device.read(OF_KOORDLET)
    assert read.document() == OF_KOORDLET
    (device,) = read.spec.devices
    assert (device.id, device.module_id, device.health, device.minor) == ("GPU-1", 3, True, 1)
    assert device.topology is not None
    assert (device.topology.node_id, device.topology.socket_id, device.topology.pcie_id) == (
        0,
        -1,
        "pci0000:17",
    )
    assert device.topology.bus_id == "0000:18:00.0"
    assert device.vf_groups[0].vfs[0].bus_id == "0000:18:00.1"
    assert read.status.allocations[0].entries[0].minors == (0, 1)


def test_a_device_that_does_not_say_so_is_not_healthy() -> None:
    assert not Device.read({"spec": {"devices": [{"type": "gpu"}]}}).spec.devices[0].health


def test_the_definition_has_the_fields_of_koordinators_and_no_subresource() -> None:
    definition = next(one for one in crds() if one["spec"]["names"]["kind"] == "Device")
    (version,) = definition["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    found = {path for part in ("spec", "status") for path in paths(properties[part], part)}
    assert found == FIELDS
    assert (definition["metadata"]["name"], definition["spec"]["scope"]) == (
        "devices.scheduling.koordinator.sh",
        "Cluster",
    )
    assert "subresources" not in version
