"""Which pod has which devices: those that the kubelet gave to its containers, else those that it computes on. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from admission.agent.kubelet.checkpoint import GivenDevices
from admission.agent.kubelet.named_devices import DevicePart, NamedDevices, vendor_of
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceId, NodeReading


class Allocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Devices of a pod: those that the kubelet gave to it, else those that its processes compute on."""

    pod_uid: str
    namespace: str
    name: str
    #: In the order of the readings; a device is there too if the pod has only a MIG instance of it.
    devices: tuple[DeviceId, ...]
    #: The MIG instances of these devices that the pod has. A device without one is the pod's as a whole, or shared.
    instances: tuple[DeviceId, ...] = ()


def allocations(
    readings: Sequence[NodeReading],
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
    before: Iterable[Allocation] = (),
) -> tuple[Allocation, ...]:
    """Devices of each pod that has any, by namespace and name.

    ``pods`` are by uid, those that have not ended. Other pods are left out, and so are devices that no vendor reports.
    ``before``: the allocations of before; a lost device, which shows no processes, stays with the pod that had it then.
    """
    node = NamedDevices(readings)
    kept = _of_lost_devices(node, before)
    found = []
    for use in _uses(node, pods, given, pod_of_pid):
        if parts := use.given or use.computes_on | kept.get(use.pod.uid, set()):
            found.append(
                Allocation(
                    pod_uid=use.pod.uid,
                    namespace=use.pod.namespace,
                    name=use.pod.name,
                    devices=node.in_order({part.device for part in parts}),
                    instances=tuple(sorted({part.instance for part in parts if part.instance is not None})),
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Use:
    """What a pod was given and what it computes on."""

    pod: PodInfo
    given: set[DevicePart] = field(default_factory=set)
    computes_on: set[DevicePart] = field(default_factory=set)


def _uses(
    node: NamedDevices,
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
) -> list[_Use]:
    """What each pod was given and computes on, by namespace and name."""
    uses: dict[str, _Use] = {}
    # A pod of the API server comes before a static one that would have its uid.
    for pod in sorted(pods.values(), key=lambda pod: (pod.kubelet_uid == pod.uid, pod.uid)):
        uses[pod.kubelet_uid] = _Use(pod)

    for entry in given:
        vendor = vendor_of(entry.resource)
        if (use := uses.get(entry.pod_uid)) is None:
            continue
        for plugin_id in entry.ids:
            if part := node.part(plugin_id, vendor):
                use.given.add(part)

    pods_of_pids: dict[int, str | None] = {}
    for _, device in node.devices:
        for process in device.processes:
            if process.pid not in pods_of_pids:
                pods_of_pids[process.pid] = pod_of_pid(process.pid)
            if use := uses.get(pods_of_pids[process.pid] or ""):
                use.computes_on.add(DevicePart(device.id, process.instance))

    return sorted(uses.values(), key=lambda use: (use.pod.namespace, use.pod.name, use.pod.uid))


def _of_lost_devices(node: NamedDevices, before: Iterable[Allocation]) -> dict[str, set[DevicePart]]:
    """The lost devices that each pod had, by its uid."""
    lost = {device.id for _, device in node.devices if device.lost}
    return {
        each.pod_uid: {DevicePart(device) for device in each.devices if device in lost} for each in before
    }
