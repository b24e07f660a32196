"""Which pod has which devices: those that the kubelet gave to its containers, else those that it computes on. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from admission.agent.kubelet.checkpoint import GivenDevices
from admission.agent.kubelet.named_devices import NamedDevices, vendor_of
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceId, NodeReading


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of a pod: those that the kubelet gave to it, else those that its processes compute on."""

    pod_uid: str
    namespace: str
    name: str
    #: In the order of the readings; a device is there too if the pod has only a MIG instance of it.
    devices: tuple[DeviceId, ...]


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
    #: By the uid that the kubelet and the cgroups use.
    given_to: defaultdict[str, set[DeviceId]] = defaultdict(set)
    used_by: defaultdict[str, set[DeviceId]] = defaultdict(set)
    for entry in given:
        parts = (node.part(plugin_id, vendor_of(entry.resource)) for plugin_id in entry.ids)
        given_to[entry.pod_uid] |= {part.device for part in parts if part is not None}
    for _, device in node.devices:
        for pid in device.processes:
            used_by[pod_of_pid(pid) or ""].add(device.id)
    lost = {device.id for _, device in node.devices if device.lost}
    kept = {each.pod_uid: lost.intersection(each.devices) for each in before}
    # A pod of the API server comes before a static one that would have its uid.
    in_order = sorted(pods.values(), key=lambda pod: (pod.kubelet_uid == pod.uid, pod.uid))
    found = []
    for uid, pod in {pod.kubelet_uid: pod for pod in in_order}.items():
        if devices := given_to[uid] or used_by[uid] | kept.get(pod.uid, set()):
            found.append(
                Allocation(
                    pod_uid=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    devices=node.in_order(devices),
                )
            )
    return tuple(sorted(found, key=lambda each: (each.namespace, each.name, each.pod_uid)))
