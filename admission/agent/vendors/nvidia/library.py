"""NVML: started, asked and stopped, with its errors by what they mean.

NVML counts devices once, when it starts, and its handles are worth nothing after a restart of the driver: what lies
between its start and its end is a session.
"""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pynvml

from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from queues.errors import MusterError

VENDOR: Final = "nvidia"

#: A value of a device by its number, and the NVLink that it is about (0 where it is about none).
Field = tuple[int, int]

#: What NVML returns when this session is over: the driver was stopped, or started again.
_SESSION_OVER: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_DEVICE_LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND})
_NO_DRIVER: Final = frozenset({pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
#: Members of the union that a value is in, by its type.
_MEMBERS: Final = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
}


class DriverReplaced(VendorFailed):
    """The driver is another version than the library of {vendor} in this process: {why}. Restart the agent."""


class SessionOver(MusterError):
    """NVML has to be started again: {why}."""


class DeviceLost(MusterError):
    """The device does not answer: {why}."""


def start(path: Path | None) -> None:
    """Start NVML. Raises VendorAbsent (no library, no driver), VendorFailed.

    ``path``: of the library; if None, the dynamic linker searches ``libnvidia-ml.so.1``.
    """
    if path is not None:
        # pynvml asks the linker for the library by its name, and gets the one that is loaded.
        try:
            ctypes.CDLL(str(path))
        except OSError as error:
            raise VendorAbsent(vendor=VENDOR, why=str(error)) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in _NO_DRIVER:
            raise VendorAbsent(vendor=VENDOR, why=str(error)) from error
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverReplaced(vendor=VENDOR, why=str(error)) from error
        raise VendorFailed(vendor=VENDOR, why=str(error)) from error


def stop() -> None:
    """End the session, which may be over already."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call of NVML says. None if this device, driver or permission does not give it.

    Raises SessionOver and DeviceLost.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _SESSION_OVER:
            raise SessionOver(why=str(error)) from error
        if error.value in _DEVICE_LOST:
            raise DeviceLost(why=str(error)) from error
        return None


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
