"""How a workload ended, for lists of what has ended."""

from typing import Final

from admission.facts.pods import PodPhase
from admission.workloads.inputs import WorkloadInputs
from queues.workload import Result

#: The phase of a Volcano Job that may be resumed.
_ABORTED: Final = "Aborted"
_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def result_of(inputs: WorkloadInputs) -> Result:
    """How a workload that is over ended, by its own status or its pods. UNKNOWN: it was stopped, and may go on."""
    if inputs.job_result is not None:
        return inputs.job_result
    fact = inputs.fact
    if fact is not None and fact.phase == _ABORTED:
        return Result.UNKNOWN
    if fact is not None and fact.finished:
        return Result.FAILED if fact.failed else Result.SUCCEEDED
    if inputs.pods and all(pod.phase in _ENDED for pod in inputs.pods):
        failed = any(pod.phase is PodPhase.FAILED for pod in inputs.pods)
        return Result.FAILED if failed else Result.SUCCEEDED
    return Result.DELETED
