"""Processes that compute on a device."""

from collections.abc import Sequence
from typing import Any, Final

import pynvml

from admission.agent.readings import MigInstance, Process
from admission.agent.vendors.nvidia.library import asked

_CALLS: Final = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
)


def processes(handle: Any, instances: Sequence[MigInstance]) -> tuple[Process, ...]:
    """Processes of a device, by pid as the agent's own pid namespace has it: the agent needs ``hostPID``.

    Empty also where the driver does not report them. Raises SessionOver, DeviceLost.
    """
    answers: list[Any] = next(
        (told for told in (asked(call, handle) for call in _CALLS) if told is not None), []
    )
    parts = {(each.gpu_instance, each.compute_instance): each.id for each in instances}
    return tuple(
        Process(
            pid=each.pid,
            memory_bytes=each.usedGpuMemory,
            instance=parts.get((each.gpuInstanceId, each.computeInstanceId)),
        )
        for each in sorted(answers, key=lambda each: int(each.pid))
    )
