"""The resource that each whole device of a node is registered as. Pure.

A device plugin may be set up to name devices by model (``nvidia.com/h100``, ``nvidia.com/l40s``), and devices that it
shares by another word (``nvidia.com/gpu.shared``). The kubelet forgets the resource of a device while the plugin calls
it unhealthy and until the plugin has registered again: what was known before goes on until another one is.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from admission.agent.kubelet.named_devices import NamedDevices, vendor_of
from admission.agent.readings import DeviceId, DeviceReading, NodeReading
from queues.resources import usual_resource


def registered_resources(
    readings: Sequence[NodeReading],
    registered: Mapping[str, Collection[str]],
    before: Mapping[DeviceId, str],
) -> dict[DeviceId, str]:
    """The resource of each whole device, as far as it is known. ``registered``: ids that plugins use, by resource.

    A device that MIG has cut in parts has none, since each instance is registered by its profile. Of several resources
    the usual one of the vendor counts, else the one of before.
    """
    names = _names_of_devices(NamedDevices(readings), registered)
    known = dict(before)
    for reading in readings:
        for device in reading.devices:
            if _is_partitioned(device):
                known.pop(device.id, None)
            elif found := names.get(device.id):
                preferred = (usual_resource(reading.vendor), known.get(device.id), min(found))
                known[device.id] = next(name for name in preferred if name in found)
    return known


def unusual_resources(readings: Sequence[NodeReading], known: Mapping[DeviceId, str]) -> dict[DeviceId, str]:
    """The resources that are not the usual one of the device's vendor."""
    usual = {device.id: usual_resource(reading.vendor) for reading in readings for device in reading.devices}
    return {device: known[device] for device in usual if known.get(device, usual[device]) != usual[device]}


def offered_devices(
    readings: Sequence[NodeReading], registered: Mapping[str, Collection[str]]
) -> dict[DeviceId, bool]:
    """Whether the kubelet may give a pod a device, or a part of it, as far as that is known.

    The kubelet lists the devices that their plugin calls healthy. Nothing is known of the devices of a vendor if one of
    the names in the list is that of no device.
    """
    devices = NamedDevices(readings)
    listed: dict[str, set[DeviceId | None]] = defaultdict(set)
    for resource, ids in registered.items():
        if (vendor := vendor_of(resource)) is not None:
            parts = (devices.part(plugin_id, vendor) for plugin_id in ids)
            listed[vendor] |= {None if part is None else part.device for part in parts}
    return {
        device.id: device.id in listed[reading.vendor]
        for reading in readings
        for device in reading.devices
        if reading.vendor in listed and None not in listed[reading.vendor]
    }


def _names_of_devices(
    devices: NamedDevices, registered: Mapping[str, Collection[str]]
) -> dict[DeviceId, set[str]]:
    """Resources of each whole device. Those of other domains than a vendor's count parts, or memory."""
    found: dict[DeviceId, set[str]] = defaultdict(set)
    for resource, ids in registered.items():
        vendor = vendor_of(resource)
        for plugin_id in ids if vendor is not None else ():
            part = devices.part(plugin_id, vendor)
            if part is not None and part.instance is None:
                found[part.device].add(resource)
    return found


def _is_partitioned(device: DeviceReading) -> bool:
    return bool(device.mig_instances)
