"""Parts of devices, as pods ask for them and as nodes offer them → DeviceShare and rows of devices.

Pods ask in two ways:

- as Volcano's vGPU users do, in the limits of containers: ``volcano.sh/vgpu-number`` devices, of each
  ``volcano.sh/vgpu-memory`` MiB and ``volcano.sh/vgpu-cores`` per cent; neither of the two: whole devices. Several
  containers that ask get devices of their own, each with the most that one of them asks for;
- as KAI's users do, by annotation: ``gpu-fraction: "0.5"`` or ``gpu-memory: "2000"`` (MiB) of one device, or of
  ``gpu-fraction-num-devices``.

Nodes offer parts of their devices if they have ``volcano.sh/vgpu-cores`` (100 for each device), or say so by
the label ``muster.dev/shares-devices: "true"``. Memory per device is ``volcano.sh/vgpu-memory`` divided by the
devices, or what the label ``nvidia.com/gpu.memory`` (MiB) says.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, Protocol

from queues.api.names import SHARES_DEVICES
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import GPU, WHOLE, Resources, amount, device, device_memory, quantity
from queues.workload import DeviceShare

NUMBER: Final = "volcano.sh/vgpu-number"

MEMORY: Final = "volcano.sh/vgpu-memory"

CORES: Final = "volcano.sh/vgpu-cores"

#: What devices of nodes with Volcano's vGPU plugin are counted as, in quotas too: thousandths of a device.
VGPU: Final = "volcano.sh/gpu"

FRACTION: Final = "gpu-fraction"

FRACTION_MEMORY: Final = "gpu-memory"

FRACTION_DEVICES: Final = "gpu-fraction-num-devices"

_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"

_PER_CENT: Final = 100

_MOST_DEVICES: Final = 64


class _Containers(Protocol):
    @property
    def containers(self) -> Sequence[Any]: ...


def share_of(spec: _Containers, annotations: Mapping[str, str] | None) -> DeviceShare | None:
    """What one pod takes of devices; None: whole ones as any other resource, or none.

    Raises InvalidDocument, and InvalidQuantity.
    """
    devices = memory = cores = 0
    for container in spec.containers:
        limits = (container.resources.limits or {}) if container.resources is not None else {}
        if NUMBER in limits or MEMORY in limits or CORES in limits:
            devices += _units(limits, NUMBER) if NUMBER in limits else 1
            memory = max(memory, _units(limits, MEMORY))
            cores = max(cores, _units(limits, CORES))
    if devices:
        if devices > _MOST_DEVICES or cores > _PER_CENT:
            raise InvalidDocument(
                where="spec.containers[].resources.limits",
                found=f"{devices} {NUMBER} with {cores} {CORES} each",
                expected=f"at most {_MOST_DEVICES} with at most {_PER_CENT}",
            )
        milli = cores * WHOLE // _PER_CENT or (0 if memory else WHOLE)
        return DeviceShare(devices=devices, milli=milli, memory=memory, resource=VGPU)
    return _annotated(annotations or {})


def with_share(takes: Resources, share: DeviceShare | None) -> Resources:
    """What one pod takes, its parts of devices included, as far as that is known before it has a node."""
    if share is None:
        return takes
    return Resources({**takes, share.resource: share.devices * share.milli})


def with_devices(allocatable: Resources, labels: Mapping[str, str]) -> Resources:
    """What a node offers, with a row for each of its devices if it offers parts of them."""
    cores = allocatable.get(CORES)
    if cores:
        resource, count = VGPU, cores // (_PER_CENT * WHOLE)
        memory = allocatable.get(MEMORY) // WHOLE // max(count, 1)
    elif labels.get(SHARES_DEVICES) == "true":
        resource, count = GPU, allocatable.get(GPU) // WHOLE
        memory = _whole_number(labels.get(_MEMORY_LABEL, ""))
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


def _annotated(said: Mapping[str, str]) -> DeviceShare | None:
    fraction, memory = said.get(FRACTION), said.get(FRACTION_MEMORY)
    if fraction is None and memory is None:
        return None
    devices = _whole_number(said.get(FRACTION_DEVICES, "1"))
    if not 0 < devices <= _MOST_DEVICES:
        raise InvalidDocument(
            where=f"metadata.annotations[{FRACTION_DEVICES}]",
            found=repr(said.get(FRACTION_DEVICES)),
            expected=f"a number from 1 to {_MOST_DEVICES}",
        )
    return DeviceShare(devices=devices, milli=_milli(fraction), memory=_mebibytes(memory))


def _milli(text: str | None) -> int:
    """Thousandths of a device, rounded up."""
    if text is None:
        return 0
    try:
        part = quantity(text)
    except InvalidQuantity:
        part = Decimal(0)
    if not 0 < part <= 1:
        raise InvalidDocument(
            where=f"metadata.annotations[{FRACTION}]", found=repr(text), expected="a part of 1 such as 0.5"
        )
    return int((part * WHOLE).to_integral_value(ROUND_CEILING))


def _mebibytes(text: str | None) -> int:
    if text is None:
        return 0
    if not (memory := _whole_number(text)):
        raise InvalidDocument(
            where=f"metadata.annotations[{FRACTION_MEMORY}]", found=repr(text), expected="a number of MiB"
        )
    return memory


def _whole_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
