"""Koordinator's Device: the definition has the fields of Koordinator's."""

from typing import Any

from queues.api.crd import crds

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
