"""Parts of devices: a pod's request → DeviceShare, a node's offer → one amount for each device.

Pods ask in two ways:

- as in Volcano's vGPU plugin, by limits of containers: ``volcano.sh/vgpu-number`` devices, of each
  ``volcano.sh/vgpu-memory`` MiB and ``volcano.sh/vgpu-cores`` per cent; neither of the two: whole devices. Containers
  do not share devices with one another; the largest memory and the largest cores of any container count for all;
- as in KAI, by annotations of the pod: ``gpu-fraction: "0.5"`` or ``gpu-memory: "2000"`` (MiB) of one device, or of
  ``gpu-fraction-num-devices``.

A node offers parts of its devices if it has ``volcano.sh/vgpu-cores`` (100 for each device), or the label
``muster.dev/shares-devices: "true"``. Memory per device is ``volcano.sh/vgpu-memory`` divided by the number of
devices, or the label ``nvidia.com/gpu.memory`` (MiB).
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from queues.api.names import DEVICE_MEMORY, GPU_FRACTION, GPU_FRACTION_DEVICES, GPU_MEMORY, SHARES_DEVICES
from queues.api.types.pod import WirePodSpec
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import GPU, WHOLE, Resources, amount, device, device_memory, quantity
from queues.workload import DeviceShare

#: Resources of Volcano's vGPU plugin: devices, MiB of each, per cent of each.
_NUMBER: Final = "volcano.sh/vgpu-number"

_MEMORY: Final = "volcano.sh/vgpu-memory"

_CORES: Final = "volcano.sh/vgpu-cores"

#: The resource that devices of nodes with Volcano's vGPU plugin count as, in quotas too: thousandths of a device.
VGPU: Final = "volcano.sh/gpu"

#: What a node says of its devices, which count as ``VGPU``: these are no further devices.
PARTS_OF_VGPU: Final = frozenset((_NUMBER, _MEMORY, _CORES))

_PER_CENT: Final = 100
_MOST_DEVICES: Final = 64


def share_of(spec: WirePodSpec, annotations: Mapping[str, str] | None) -> DeviceShare | None:
    """The parts of devices that one pod takes. None if it takes whole devices, as any other resource, or none.

    Raises InvalidDocument, and InvalidQuantity.
    """
    devices = memory = cores = 0
    for container in spec.containers:
        limits = (container.resources.limits or {}) if container.resources is not None else {}
        if _NUMBER in limits or _MEMORY in limits or _CORES in limits:
            devices += _units(limits, _NUMBER) if _NUMBER in limits else 1
            memory = max(memory, _units(limits, _MEMORY))
            cores = max(cores, _units(limits, _CORES))
    if devices:
        if devices > _MOST_DEVICES or cores > _PER_CENT:
            raise InvalidDocument(
                where="spec.containers[].resources.limits",
                found=f"{devices} {_NUMBER} with {cores} {_CORES} each",
                expected=f"at most {_MOST_DEVICES} with at most {_PER_CENT}",
            )
        milli = cores * WHOLE // _PER_CENT or (0 if memory else WHOLE)
        return DeviceShare(devices=devices, milli=milli, memory=memory, resource=VGPU)
    return _annotated(annotations or {})


def with_share(takes: Resources, share: DeviceShare | None) -> Resources:
    """Requests of one pod with its thousandths of devices added. Unchanged if ``share`` is None.

    What a share by memory is in thousandths is known only with the node, and counts as 0 here.
    """
    if share is None:
        return takes
    return Resources({**takes, share.resource: share.devices * share.milli})


def with_devices(allocatable: Resources, labels: Mapping[str, str]) -> Resources:
    """Allocatable amounts of a node, with an amount for each of its devices if the node offers parts of them."""
    cores = allocatable.get(_CORES)
    if cores:
        resource, count = VGPU, cores // (_PER_CENT * WHOLE)
        memory = allocatable.get(_MEMORY) // WHOLE // max(count, 1)
    elif labels.get(SHARES_DEVICES) == "true":
        resource, count = GPU, allocatable.get(GPU) // WHOLE
        memory = _whole_number(labels.get(DEVICE_MEMORY, ""))
    else:
        return allocatable
    count = min(count, _MOST_DEVICES)
    rows = {device(resource, index): WHOLE for index in range(count)}
    return Resources({**allocatable, resource: count * WHOLE, device_memory(resource): memory, **rows})


def _units(limits: Mapping[str, Any], resource: str) -> int:
    units, rest = divmod(amount(resource, limits.get(resource, 0)), WHOLE)
    if units < 0 or rest:
        raise InvalidDocument(
            where=f"spec.containers[].resources.limits[{resource}]",
            found=repr(limits[resource]),
            expected="a whole number, 0 or more",
        )
    return units


def _annotated(annotations: Mapping[str, str]) -> DeviceShare | None:
    fraction, memory = annotations.get(GPU_FRACTION), annotations.get(GPU_MEMORY)
    if fraction is None and memory is None:
        return None
    devices = _whole_number(annotations.get(GPU_FRACTION_DEVICES, "1"))
    if not 0 < devices <= _MOST_DEVICES:
        found = annotations.get(GPU_FRACTION_DEVICES)
        raise _invalid(GPU_FRACTION_DEVICES, found, f"a number from 1 to {_MOST_DEVICES}")
    return DeviceShare(devices=devices, milli=_milli(fraction), memory=_mebibytes(memory))


def _milli(text: str | None) -> int:
    """Thousandths of a device, rounded up. 0 for None."""
    if text is None:
        return 0
    try:
        part = quantity(text)
    except InvalidQuantity:
        part = Decimal(0)
    if not 0 < part <= 1:
        raise _invalid(GPU_FRACTION, text, "a part of 1 such as 0.5")
    return int((part * WHOLE).to_integral_value(ROUND_CEILING))


def _mebibytes(text: str | None) -> int:
    """Mebibytes of device memory. 0 for None, if no memory is asked for."""
    if text is None:
        return 0
    if not (memory := _whole_number(text)):
        raise _invalid(GPU_MEMORY, text, "a number of MiB")
    return memory


def _invalid(annotation: str, text: str | None, expected: str) -> InvalidDocument:
    return InvalidDocument(where=f"metadata.annotations[{annotation}]", found=repr(text), expected=expected)


def _whole_number(text: str) -> int:
    """0: not a whole number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
