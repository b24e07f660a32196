"""Fields of Volcano Jobs in which 0 counts as absent, so that a default is taken: what is said of a 0 there. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from queues.api.validation.defaults import MAX_RETRY
from queues.api.validation.violations import Violation

_RETRIES = (
    f"1 or more: 0 counts as {MAX_RETRY}, as in Volcano. For no restart leave its policies RestartJob out"
)
_OF_TASK = f"-1 or 1 and more: 0 counts as {MAX_RETRY}, as in Volcano; -1 is never"
_MINIMUM = "1 or more: 0 counts as the sum of the tasks' minAvailable, as in Volcano"


def zero_field_warnings(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Warnings about a Volcano Job, or an object that Jobs are made from, as its user wrote it, without defaults."""
    spec = document.get("spec")
    match document.get("kind"):
        case "Job" | "JobTemplate":
            yield from _of_spec(spec, "spec")
        case "CronJob":
            yield from _of_spec(_member(_member(spec, "jobTemplate"), "spec"), "spec.jobTemplate.spec")
        case "JobFlow":
            flows = _member(spec, "flows")
            for index, flow in enumerate(flows if isinstance(flows, list) else ()):
                for field in ("spec", "jobSpec"):
                    patch = _member(_member(flow, "patch"), field)
                    yield from _of_spec(patch, f"spec.flows[{index}].patch.{field}")


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _of_spec(spec: Any, path: str) -> Iterator[Violation]:
    if not isinstance(spec, Mapping):
        return
    if _is_zero(spec.get("maxRetry")):
        yield Violation(f"{path}.maxRetry", "0", _RETRIES, tolerable=True)
    if _is_zero(spec.get("minAvailable")):
        yield Violation(f"{path}.minAvailable", "0", _MINIMUM, tolerable=True)
    tasks = spec.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(task, Mapping) and _is_zero(task.get("maxRetry")):
            yield Violation(f"{path}.tasks[{index}].maxRetry", "0", _OF_TASK, tolerable=True)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0
