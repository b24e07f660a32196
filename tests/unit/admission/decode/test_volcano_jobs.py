"""The documents that `muster check` and the webhook judge are read the same by what acts on them."""

from pathlib import Path

import pytest

from queues.api.check.document import documents_of
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.unsupported import unsupported
from queues.api.validation.validation import defaulted, kind_of
from tests.builders.volcano_jobs import read_job


def as_stored(value):
    """The API server drops nulls."""
    if isinstance(value, dict):
        return {key: as_stored(one) for key, one in value.items() if one is not None}
    return [as_stored(one) for one in value] if isinstance(value, list) else value


JOBS = [
    pytest.param(as_stored(document.value), id=f"{path.stem}-{document.number}")
    for path in sorted((Path(__file__).parents[2] / "queues/api/check/accepted_examples").glob("*.yaml"))
    for document in documents_of(path.read_text())
    if kind_of(document.value) is VolcanoJob
]


@pytest.mark.parametrize("document", JOBS)
def test_a_job_that_no_webhook_has_seen_has_the_same_defaults(document):
    acting, filled = read_job(document), VolcanoJob.read(defaulted(document)).spec
    assert acting.minimum == filled.min_available
    assert acting.queue == filled.queue
    assert acting.max_retry == filled.max_retry
    assert [(task.name, task.replicas, task.minimum) for task in acting.tasks] == [
        (task.name, task.replicas, task.min_available) for task in filled.tasks
    ]


@pytest.mark.parametrize("document", JOBS)
def test_check_and_the_objects_condition_name_the_same_fields(document):
    acting, judged = read_job(document), VolcanoJob.read(document)
    # A tier by number acts in a Job of one task, which is known only with the topology at hand.
    by_tier = {"spec.networkTopology"}
    assert set(acting.unsupported) - by_tier == set(unsupported(judged)) - by_tier
