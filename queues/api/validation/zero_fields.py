"""Fields of Volcano Jobs in which 0 counts as absent, so that a default is taken: what is said of a 0 there. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from queues.api.validation.defaults import MAX_RETRY
from queues.api.validation.violations import Violation
from queues.json_values import list_at, value_at

_RETRIES = (
    f"1 or more: 0 counts as {MAX_RETRY}, as in Volcano. For no restart leave its policies RestartJob out"
)
_OF_TASK = f"-1 or 1 and more: 0 counts as {MAX_RETRY}, as in Volcano; -1 is never"
_MINIMUM = "1 or more: 0 counts as the sum of the tasks' minAvailable, as in Volcano"


def zero_field_warnings(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Warnings about a Volcano Job, or an object that Jobs are made from, as its user wrote it, without defaults."""
    match document.get("kind"):
        case "Job" | "JobTemplate":
            yield from _of_spec(document.get("spec"), "spec")
        case "CronJob":
            yield from _of_spec(value_at(document, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec")
        case "JobFlow":
            for index, flow in enumerate(list_at(document, "spec", "flows")):
                for field in ("spec", "jobSpec"):
                    yield from _of_spec(value_at(flow, "patch", field), f"spec.flows[{index}].patch.{field}")


def _of_spec(spec: Any, path: str) -> Iterator[Violation]:
    if _is_zero(value_at(spec, "maxRetry")):
        yield Violation(f"{path}.maxRetry", "0", _RETRIES, tolerable=True)
    if _is_zero(value_at(spec, "minAvailable")):
        yield Violation(f"{path}.minAvailable", "0", _MINIMUM, tolerable=True)
    for index, task in enumerate(list_at(spec, "tasks")):
        if _is_zero(value_at(task, "maxRetry")):
            yield Violation(f"{path}.tasks[{index}].maxRetry", "0", _OF_TASK, tolerable=True)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0
