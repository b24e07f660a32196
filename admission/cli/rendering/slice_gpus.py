"""GPUs that drivers of dynamic resource allocation publish in ResourceSlices, by node. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

Document = Mapping[str, Any]

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


def slice_gpus(slices: Iterable[Document]) -> dict[str, SliceGpus]:
    """Whole GPUs by node, in slices of the newest generation of each pool."""
    specs = [each["spec"] for each in slices if each["spec"].get("driver", "").startswith(_GPU_DRIVER)]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), spec["pool"]["generation"])
    found: dict[str, SliceGpus] = {}
    for spec in specs:
        node = spec.get("nodeName")
        if node and spec["pool"]["generation"] == newest[_pool(spec)]:
            devices = [each for each in spec.get("devices") or () if _type(each) in _WHOLE]
            whole, tainted = found.get(node, SliceGpus())
            found[node] = SliceGpus(whole + len(devices), tainted + sum(map(_is_tainted, devices)))
    return found


def _pool(spec: Document) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _type(device: Document) -> str | None:
    attributes = device.get("attributes") or {}
    found = (value.get("string") for key, value in attributes.items() if key.rpartition("/")[2] == "type")
    return next(found, None)


def _is_tainted(device: Document) -> bool:
    return any(taint.get("effect") in _KEEPS_OFF for taint in device.get("taints") or ())
