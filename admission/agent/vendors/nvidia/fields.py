"""Values of a device that NVML gives by their numbers, many by one call."""

from collections.abc import Sequence
from typing import Any, Final

import pynvml

from admission.agent.vendors.nvidia.library import asked

#: Scope of a value that is summed up over all NVLinks.
ALL_LINKS: Final = 0xFFFFFFFF
#: A value, and the NVLink that it is about (0 where it is about none).
Field = tuple[int, int]

_MEMBERS: Final = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def field_values(handle: Any, fields: Sequence[Field]) -> dict[Field, int]:
    """Values of these fields; those that the device does not report are left out. Raises SessionOver, DeviceLost."""
    values = asked(pynvml.nvmlDeviceGetFieldValues, handle, list(fields))
    if values is None:
        return {}
    return {
        field: int(getattr(value.value, _MEMBERS[value.valueType]))
        for field, value in zip(fields, values, strict=True)
        if value.nvmlReturn == pynvml.NVML_SUCCESS and value.valueType in _MEMBERS
    }
