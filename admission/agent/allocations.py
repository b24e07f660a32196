"""Which pod uses which devices, and where that differs from what it was admitted to. Pure.

Three things are held against one another: the devices that Muster admitted the pod to (``muster.dev/devices``),
those that the kubelet gave to its containers, and those that its processes compute on.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from admission.agent.kubelet_checkpoint import GivenDevices
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceId, DeviceReading, NodeReading

#: Vendor of ``NodeReading`` by the end of the domain of a resource.
_VENDORS: Final = {"nvidia.com": "nvidia", "amd.com": "amd", "intel.com": "intel"}
#: How device plugins name a device: NVIDIA's by its index (``0``; a MIG instance ``0:1``), Google's by its
#: device file (``nvidia0/gi1``, ``nvidia0/vgpu2``), Intel's by its card and the share of it (``card0-1``).
_INDEX: Final = re.compile(r"(?P<index>[0-9]{1,4})(:[0-9]{1,4})?", re.ASCII)
_DEVICE_FILE: Final = re.compile(
    r"nvidia(?P<minor>[0-9]{1,4})(/gi(?P<gpu_instance>[0-9]{1,4}))?(/vgpu[0-9]+)?", re.ASCII
)
_CARD: Final = re.compile(r"card(?P<minor>[0-9]{1,4})-[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Devices of a pod: those that the kubelet gave to it, else those that its processes compute on."""

    pod_uid: str
    namespace: str
    name: str
    #: In the order of the readings; a device of which the pod has only a MIG instance is there too.
    devices: tuple[DeviceId, ...]
    #: The MIG instances of these devices that the pod has. A device without one is the pod's as a whole, or shared.
    instances: tuple[DeviceId, ...] = ()


class MismatchKind(StrEnum):
    """How a pod's devices are not as they should be."""

    #: The kubelet gave it other devices than it was admitted to.
    NOT_AS_ADMITTED = "not-as-admitted"
    #: Its processes compute on devices that it was not given.
    NOT_GIVEN = "not-given"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMismatch:
    """A pod whose devices are not as they should be."""

    kind: MismatchKind
    pod_uid: str
    namespace: str
    name: str
    #: ``DeviceReading.index``, ascending; with ``NOT_GIVEN`` only the devices too many.
    found: tuple[int, ...]
    expected: tuple[int, ...]
    #: A sentence with both.
    message: str


def allocations(
    readings: Sequence[NodeReading],
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
) -> tuple[Allocation, ...]:
    """Devices of each pod that has any, by namespace and name.

    ``pods`` are by uid. Pods that are not among them or have ended are left out, and so are devices that no
    vendor reports.
    """
    node = _Devices(readings)
    found = []
    for use in _uses(node, pods, given, pod_of_pid):
        if parts := use.given or use.computes_on:
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


def mismatches(
    readings: Sequence[NodeReading],
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
) -> tuple[DeviceMismatch, ...]:
    """Pods whose devices are not as they should be, by namespace and name.

    A pod that the kubelet gave nothing to counts as given what it was admitted to: parts of devices are no
    resource of the kubelet. Not judged is what a pod computes on that has resource claims, or devices of these
    vendors under ids that nothing is known of: it may have been given just that. On a node with devices of
    several vendors an index that a pod was admitted to stands for one of each.
    """
    node = _Devices(readings)
    found = []
    for use in _uses(node, pods, given, pod_of_pid):
        found += _not_as_admitted(node, use)
        found += _not_given(node, use)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Part:
    """A device, or a MIG instance of one."""

    device: DeviceId
    #: None: the device as a whole; of a process also: unknown.
    instance: DeviceId | None = None


@dataclass(frozen=True, slots=True)
class _Use:
    """What a pod was given and what it computes on."""

    pod: PodInfo
    given: set[_Part] = field(default_factory=set)
    computes_on: set[_Part] = field(default_factory=set)
    #: Ids of devices of a known vendor that no reading has.
    unknown: set[str] = field(default_factory=set)


class _Devices:
    """The devices of the node, found by all names that device plugins have for them."""

    def __init__(self, readings: Sequence[NodeReading]) -> None:
        self.devices = [(reading.vendor, device) for reading in readings for device in reading.devices]
        self._by_name: dict[str, _Part] = {}
        self._by_place: dict[tuple[str, str, int], DeviceReading] = {}
        for vendor, device in reversed(self.devices):
            for instance in device.mig_instances:
                self._by_name[instance.id] = _Part(device.id, instance.id)
            self._by_name[device.id] = _Part(device.id)
            if device.bus_id:
                self._by_name[device.bus_id.lower()] = _Part(device.id)
            self._by_place[vendor, "index", device.index] = device
            if device.minor is not None:
                self._by_place[vendor, "minor", device.minor] = device

    def part(self, plugin_id: str, vendor: str | None) -> _Part | None:
        """The device that a plugin calls so; None: there is none. ``vendor``: of the resource; None: unknown."""
        name = plugin_id.partition("::")[0]
        if part := self._by_name.get(name) or self._by_name.get(name.lower()):
            return part
        if vendor == "nvidia" and (found := _INDEX.fullmatch(name)):
            return self._at(vendor, "index", int(found["index"]))
        if vendor == "nvidia" and (found := _DEVICE_FILE.fullmatch(name)):
            return self._at(vendor, "minor", int(found["minor"]), found["gpu_instance"])
        if vendor == "intel" and (found := _CARD.fullmatch(name)):
            return self._at(vendor, "minor", int(found["minor"]))
        return None

    def _at(self, vendor: str, kind: str, number: int, gpu_instance: str | None = None) -> _Part | None:
        device = self._by_place.get((vendor, kind, number))
        if device is None:
            return None
        if gpu_instance is not None:
            for instance in device.mig_instances:
                if instance.gpu_instance == int(gpu_instance):
                    return _Part(device.id, instance.id)
        return _Part(device.id)

    def in_order(self, ids: set[DeviceId]) -> tuple[DeviceId, ...]:
        return tuple(dict.fromkeys(device.id for _, device in self.devices if device.id in ids))

    def indices(self, ids: Iterable[DeviceId]) -> tuple[int, ...]:
        wanted = set(ids)
        return tuple(sorted({device.index for _, device in self.devices if device.id in wanted}))

    def at_indices(self, indices: Iterable[int]) -> set[_Part]:
        wanted = set(indices)
        return {_Part(device.id) for _, device in self.devices if device.index in wanted}


def _uses(
    node: _Devices,
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
) -> list[_Use]:
    """What each pod was given and computes on, by namespace and name."""
    uses: dict[str, _Use] = {}
    running = [pod for pod in pods.values() if not pod.ended]
    # A pod of the API server comes before a static one that would have its uid.
    for pod in sorted(running, key=lambda pod: (pod.kubelet_uid == pod.uid, pod.uid)):
        uses[pod.kubelet_uid] = _Use(pod)

    for entry in given:
        vendor = _vendor(entry.resource)
        if (use := uses.get(entry.pod_uid)) is None:
            continue
        for plugin_id in entry.ids:
            if part := node.part(plugin_id, vendor):
                use.given.add(part)
            elif vendor is not None:
                use.unknown.add(plugin_id)

    pods_of_pids: dict[int, str | None] = {}
    for _, device in node.devices:
        for process in device.processes:
            if process.pid not in pods_of_pids:
                pods_of_pids[process.pid] = pod_of_pid(process.pid)
            if use := uses.get(pods_of_pids[process.pid] or ""):
                use.computes_on.add(_Part(device.id, process.instance))

    return sorted(uses.values(), key=lambda use: (use.pod.namespace, use.pod.name, use.pod.uid))


def _vendor(resource: str) -> str | None:
    domain = resource.partition("/")[0]
    return next(
        (vendor for end, vendor in _VENDORS.items() if domain == end or domain.endswith(f".{end}")), None
    )


def _not_as_admitted(node: _Devices, use: _Use) -> list[DeviceMismatch]:
    found = node.indices(part.device for part in use.given)
    expected = use.pod.devices
    if expected is None or not found or found == expected:
        return []
    message = (
        f"The kubelet gave {_told(found)} of this node to the pod; expected {_told(expected)}, which Muster admitted"
        " it to (muster.dev/devices)."
    )
    return [_mismatch(MismatchKind.NOT_AS_ADMITTED, use, found, expected, message)]


def _not_given(node: _Devices, use: _Use) -> list[DeviceMismatch]:
    if use.pod.has_claims or use.unknown:
        return []
    given = use.given or node.at_indices(use.pod.devices or ())
    found = node.indices(part.device for part in use.computes_on if not _covered(part, given))
    if not found:
        return []
    expected = node.indices(part.device for part in given)
    source = "the kubelet gave it" if use.given else "Muster admitted it to" if given else "it was given"
    message = (
        f"The pod computes on {_told(found)} of this node; expected only {_told(expected)}, which {source}."
    )
    if set(found) <= set(expected):
        message = f"The pod computes on other MIG instances of {_told(found)} of this node than it was given."
    elif not expected:
        message = f"The pod computes on {_told(found)} of this node; expected none: it was given no device."
    return [_mismatch(MismatchKind.NOT_GIVEN, use, found, expected, message)]


def _covered(part: _Part, given: set[_Part]) -> bool:
    """Whether a pod may compute on this: it, or its device as a whole; where the instance is unknown, any of
    the device."""
    if part.instance is None:
        return any(part.device == one.device for one in given)
    return part in given or _Part(part.device) in given


def _told(indices: tuple[int, ...]) -> str:
    return f"device {indices[0]}" if len(indices) == 1 else f"devices {', '.join(map(str, indices))}"


def _mismatch(
    kind: MismatchKind, use: _Use, found: tuple[int, ...], expected: tuple[int, ...], message: str
) -> DeviceMismatch:
    return DeviceMismatch(
        kind=kind,
        pod_uid=use.pod.uid,
        namespace=use.pod.namespace,
        name=use.pod.name,
        found=found,
        expected=expected,
        message=message,
    )
