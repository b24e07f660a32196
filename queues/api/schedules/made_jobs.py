"""Volcano Jobs that Muster makes from what users wrote in a CronJob, a JobTemplate or a JobFlow.

The API server's policies do not look at what Muster itself creates, and the webhook is not asked about it. So the rules
that they hold are held here, before a Job is made and where its template is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from queues.api import names
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.defaults import defaulted_job
from queues.api.validation.job_rules import job_violations
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.queued_work import (
    job_violations_in_queue,
    own_name_violations,
)
from queues.api.validation.violations import Violation, of_model

Document = dict[str, Any]

#: Where a queue is named that may be created or opened before a Job is made.
_QUEUE: Final = "spec.queue"


def made_job(
    metadata: Mapping[str, Any], spec: Mapping[str, Any] | None, *, namespace_queue: str | None = None
) -> Document:
    """A Volcano Job with Volcano's defaults. ``namespace_queue``: the queue of its namespace; None if it has none."""
    document = {
        "apiVersion": names.BATCH_VOLCANO,
        "kind": "Job",
        "metadata": dict(metadata),
        "spec": dict(spec or {}),
    }
    return defaulted_job(document, namespace_queue=namespace_queue)


def signed(job: Document, user: str) -> Document:
    """A Job with the name of the user who asked for it; "": not known."""
    if not user:
        return job
    metadata = job["metadata"]
    annotations = {**metadata.get("annotations", {}), names.USER: user}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def made_job_violations(job: Document, known: Known = NOTHING_KNOWN) -> list[Violation]:
    """Violations of a Job that is to be made. A queue that is missing or closed is tolerable: the Job waits for it."""
    try:
        parsed = VolcanoJob.parse(job)
    except ValidationError as error:
        return of_model(error)
    found = [
        replace(each, tolerable=True) if each.path == _QUEUE else each
        for each in job_violations(parsed, known)
    ]
    return [*found, *guard_violations(job)]


def guard_violations(job: Document) -> Iterator[Violation]:
    """Where a Job says what only Muster may say, or asks for what no work in a queue may ask for."""
    yield from own_name_violations(job, "")
    yield from job_violations_in_queue(job)
