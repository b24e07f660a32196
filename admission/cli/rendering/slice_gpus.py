"""GPUs that drivers of dynamic resource allocation publish in ResourceSlices, by node. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from admission.wire import WireResourceSlice, WireSliceDevice, WireSliceSpec

#: What names of drivers of GPUs begin with: ``gpu.nvidia.com``, ``gpu.amd.com``, ``gpu.intel.com``.
_GPU_DRIVER: Final = "gpu."
#: What the attribute ``type`` of a whole device is, where it has one. Parts have another one.
_WHOLE: Final = (None, "gpu", "amdgpu")
_KEEPS_OFF: Final = ("NoSchedule", "NoExecute")


class SliceGpus(NamedTuple):
    """Numbers of GPUs in the ResourceSlices of a node."""

    #: Whole ones.
    whole: int = 0
    #: Those of them with a taint that keeps pods off.
    tainted: int = 0


def slice_gpus(slices: Iterable[WireResourceSlice]) -> dict[str, SliceGpus]:
    """Whole GPUs by node, in slices of the newest generation of each pool."""
    specs = [published.spec for published in slices if published.spec.driver.startswith(_GPU_DRIVER)]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), spec.pool.generation)
    found: dict[str, SliceGpus] = {}
    for spec in specs:
        if spec.node_name and spec.pool.generation == newest[_pool(spec)]:
            devices = [device for device in spec.devices or () if _type(device) in _WHOLE]
            whole, tainted = found.get(spec.node_name, SliceGpus())
            tainted += sum(map(_is_tainted, devices))
            found[spec.node_name] = SliceGpus(whole + len(devices), tainted)
    return found


def _pool(spec: WireSliceSpec) -> tuple[str, str]:
    return spec.driver, spec.pool.name


def _type(device: WireSliceDevice) -> str | None:
    attributes = (device.attributes or {}).items()
    return next((value.get("string") for key, value in attributes if key.rpartition("/")[2] == "type"), None)


def _is_tainted(device: WireSliceDevice) -> bool:
    return any(taint.effect in _KEEPS_OFF for taint in device.taints or ())
