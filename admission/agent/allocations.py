"""Which pod uses which devices, and where that differs from what it was admitted to. Pure.

Three things are held against one another: the devices that Muster admitted the pod to (``muster.dev/devices``),
those that the kubelet gave to its containers, and those that its processes compute on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from admission.agent.kubelet.checkpoint import GivenDevices
from admission.agent.kubelet.named_devices import DevicePart, NamedDevices, vendor_of
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceId, NodeReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Devices of a pod: those that the kubelet gave to it, else those that its processes compute on."""

    pod_uid: str
    namespace: str
    name: str
    #: In the order of the readings; a device is there too if the pod has only a MIG instance of it.
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


def allocations(
    readings: Sequence[NodeReading],
    pods: Mapping[str, PodInfo],
    given: Iterable[GivenDevices],
    pod_of_pid: Callable[[int], str | None],
    before: Iterable[Allocation] = (),
) -> tuple[Allocation, ...]:
    """Devices of each pod that has any, by namespace and name.

    ``pods`` are by uid. Pods that are not among them or have ended are left out, and so are devices that no
    vendor reports. ``before``: the allocations of before; a lost device, which shows no processes, stays with the pod
    that had it then.
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
    node = NamedDevices(readings)
    found = []
    for use in _uses(node, pods, given, pod_of_pid):
        found += _not_as_admitted(node, use)
        found += _not_given(node, use)
    return tuple(found)


class LastingMismatches:
    """Those of the mismatches that last. Others may be about a pod that the watch of pods has not shown yet."""

    def __init__(self) -> None:
        #: When each was seen first (monotonic seconds), by pod and kind.
        self._first: dict[tuple[str, MismatchKind], float] = {}

    def of(
        self, found: Sequence[DeviceMismatch], ticks: float, *, at_least: float
    ) -> tuple[DeviceMismatch, ...]:
        """Those that have lasted ``at_least`` so many seconds."""
        self._first = {
            key: self._first.get(key, ticks)
            for mismatch in found
            for key in [(mismatch.pod_uid, mismatch.kind)]
        }
        return tuple(
            mismatch for mismatch in found if ticks - self._first[mismatch.pod_uid, mismatch.kind] >= at_least
        )


@dataclass(frozen=True, slots=True)
class _Use:
    """What a pod was given and what it computes on."""

    pod: PodInfo
    given: set[DevicePart] = field(default_factory=set)
    computes_on: set[DevicePart] = field(default_factory=set)
    #: Ids of devices of a known vendor that no reading has.
    unknown: set[str] = field(default_factory=set)


def _uses(
    node: NamedDevices,
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
        vendor = vendor_of(entry.resource)
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
                use.computes_on.add(DevicePart(device.id, process.instance))

    return sorted(uses.values(), key=lambda use: (use.pod.namespace, use.pod.name, use.pod.uid))


def _of_lost_devices(node: NamedDevices, before: Iterable[Allocation]) -> dict[str, set[DevicePart]]:
    """The lost devices that each pod had, by its uid."""
    lost = {device.id for _, device in node.devices if device.lost}
    return {
        each.pod_uid: {DevicePart(device) for device in each.devices if device in lost} for each in before
    }


def _not_as_admitted(node: NamedDevices, use: _Use) -> list[DeviceMismatch]:
    found = node.indices(part.device for part in use.given)
    expected = use.pod.devices
    if expected is None or not found or found == expected:
        return []
    return [_mismatch(MismatchKind.NOT_AS_ADMITTED, use, found, expected)]


def _not_given(node: NamedDevices, use: _Use) -> list[DeviceMismatch]:
    if use.pod.has_claims or use.unknown:
        return []
    given = use.given or node.at_indices(use.pod.devices or ())
    found = node.indices(part.device for part in use.computes_on if not _covered(part, given))
    if not found:
        return []
    expected = node.indices(part.device for part in given)
    return [_mismatch(MismatchKind.NOT_GIVEN, use, found, expected)]


def _covered(part: DevicePart, given: set[DevicePart]) -> bool:
    """Whether a pod may compute on this: it, or its device as a whole; where the instance is unknown, any of
    the device."""
    if part.instance is None:
        return any(part.device == one.device for one in given)
    return part in given or DevicePart(part.device) in given


def _mismatch(
    kind: MismatchKind, use: _Use, found: tuple[int, ...], expected: tuple[int, ...]
) -> DeviceMismatch:
    return DeviceMismatch(
        kind=kind,
        pod_uid=use.pod.uid,
        namespace=use.pod.namespace,
        name=use.pod.name,
        found=found,
        expected=expected,
    )
