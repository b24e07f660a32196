"""The run time that an object declares, against what its queue allows (``access.maxRunTime``)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from queues.api.names import RUN_TIME
from queues.api.reading.user_values import duration
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.violations import Violation
from queues.quota.queue import Queue, run_limit
from queues.text_format import duration as duration_text
from queues.text_format import excerpt, span


class DeclaredRunTime(NamedTuple):
    """How long an object says that it will run."""

    #: The field that says so.
    path: str
    found: str
    seconds: int


def declared_run_time(document: Any) -> DeclaredRunTime | None:
    """The run time of an object that counts; None if it declares none that can be read."""
    metadata = document.metadata
    for field in ("annotations", "labels"):
        text = getattr(metadata, field).get(RUN_TIME)
        if text is not None:
            if seconds := duration(text):
                return DeclaredRunTime(f"metadata.{field}[{RUN_TIME}]", excerpt(text), seconds)
            break
    estimate: int | None = None
    path = "spec.activeDeadlineSeconds"
    if isinstance(document, VolcanoJob):
        estimate, path = duration(document.spec.running_estimate), "spec.runningEstimate"
    elif isinstance(document, BatchJob):
        estimate = document.spec.active_deadline_seconds
    elif isinstance(document, Pod):
        estimate = seconds if isinstance(seconds := document.spec.get("activeDeadlineSeconds"), int) else None
    return DeclaredRunTime(path, duration_text(estimate), estimate) if estimate else None


def run_time_violations(document: Any, queues: Sequence[Queue], *, tolerable: bool) -> Iterator[Violation]:
    """The violation of an object that declares a longer run time than a queue allows; none else.

    ``queues``: its queue and those above it, nearest first.
    """
    limit, declared = run_limit(queues), declared_run_time(document)
    if limit is None or declared is None or declared.seconds <= limit.seconds:
        return
    most = f"at most {span(limit.seconds)}, access.maxRunTime of queue {limit.queue}"
    expected = f"{most}: declare a shorter one, or use another queue"
    yield Violation(declared.path, declared.found, expected, tolerable=tolerable)
