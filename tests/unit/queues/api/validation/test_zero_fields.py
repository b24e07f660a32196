"""A 0 that counts as absent is warned of wherever Volcano Jobs are written, and nothing else is."""

from typing import Any

from queues.api.validation.validation import violations_of
from queues.api.validation.violations import Violation
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}


def job_spec(retries: int | None, of_task: int | None) -> dict[str, Any]:
    task = {"name": "w", "replicas": 1, "template": TEMPLATE}
    return {
        **({} if retries is None else {"maxRetry": retries, "minAvailable": retries}),
        "tasks": [task if of_task is None else {**task, "maxRetry": of_task}],
    }


def of_zeros(kind: str, spec: dict[str, Any]) -> list[Violation]:
    whole = {
        "CronJob": {"schedule": "0 1 * * *", "jobTemplate": {"spec": spec}},
        "JobFlow": {"flows": [{"name": "a", "patch": {"spec": spec}}]},
    }
    document = of_kind(kind, whole.get(kind, spec), namespace="team")
    return [each for each in violations_of(document) if "0 counts as" in each.expected]


@with_rows("kind", "path")
def test_each_kind_that_jobs_are_made_from_warns_of_each_zero(kind: str, path: str) -> None:
    found = of_zeros(kind, job_spec(0, 0))
    assert [each.path for each in found] == [
        f"{path}.maxRetry",
        f"{path}.minAvailable",
        f"{path}.tasks[0].maxRetry",
    ]
    assert all(each.tolerable for each in found)
    assert of_zeros(kind, job_spec(1, -1)) == []
    assert of_zeros(kind, job_spec(None, None)) == []
