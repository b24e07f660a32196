"""Bad and large input stops nobody else, and goes when it can."""

from typing import Any

from tests.e2e.support.api_paths import Document
from tests.e2e.support.manifests import batch_job, container, volcano_job
from tests.e2e.support.sandbox import Sandbox


def others_go_on(sandbox: Sandbox) -> None:
    """A good gang, sent after the bad one, runs."""
    if not sandbox.nodes:
        sandbox.add_nodes(1)
    sandbox.add(volcano_job(sandbox, "good", 2, 2))
    sandbox.wait_running("good-", 2)


def with_task(job: Document, **fields: Any) -> Document:
    """The same Job with other fields of its first task."""
    task = {**job["spec"]["tasks"][0], **fields}
    return {**job, "spec": {**job["spec"], "tasks": [task]}}


def with_container(job: Document, **fields: Any) -> Document:
    """The same Volcano Job with other fields of its container."""
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    main = {**spec["containers"][0], **fields}
    return with_task(job, template={"spec": {**spec, "containers": [main]}})


def test_a_job_for_an_unknown_queue_says_so_and_goes_when_the_queue_comes(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    job = batch_job(sandbox, "lost", 1)
    job["metadata"]["labels"]["muster.dev/queue-name"] = f"{sandbox.name}-late"
    sandbox.add(job)
    sandbox.wait_reason("lost", "UnknownQueue")
    sandbox.wait(
        lambda: f"{sandbox.name}-late" in sandbox.told("batch/v1 Job", "lost"), "the Job to say which queue"
    )
    others_go_on(sandbox)

    sandbox.add_queue("late")
    sandbox.wait_running("lost-", 1)


def megabytes(amount: float) -> list[str]:
    """Arguments of so many MiB; no single one above what Linux takes."""
    return ["a" * 2**16] * int(amount * 16)


def test_jobs_of_one_mebibyte_work(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    sandbox.add_nodes(2)
    sandbox.add(with_container(volcano_job(sandbox, "large", 2, 2), args=megabytes(1)))
    sandbox.wait_running("large-", 2)
    batch = batch_job(sandbox, "plain", 2, 2)
    batch["spec"]["template"]["spec"]["containers"] = [{**container(2), "args": megabytes(1)}]
    sandbox.add(batch)
    sandbox.wait_running("plain-", 2)
    assert len("".join(sandbox.pods("plain-")[0]["spec"]["containers"][0]["args"])) == 2**20
    others_go_on(sandbox)
