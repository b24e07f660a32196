"""Volcano CronJobs: a Job starts when it is due, once."""

from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox


def cron_job(sandbox: Sandbox, name: str, schedule: str, **spec: Any) -> Document:
    """Suspended: what is due is decided by the test."""
    job = volcano_job(sandbox, name, 2)
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": job["spec"]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "suspend": True, "jobTemplate": template, **spec},
    }


def started_last(sandbox: Sandbox, name: str, time: datetime) -> None:
    """As if the last Job was started then; now the CronJob goes on."""
    at = path("CronJob", sandbox.name, name)
    sandbox.api.merge(f"{at}/status", {"status": {"lastScheduleTime": time.strftime("%Y-%m-%dT%H:%M:%SZ")}})
    sandbox.merge("CronJob", name, {"spec": {"suspend": False}})


def jobs(sandbox: Sandbox, name: str) -> dict[str, Document]:
    found = sandbox.api.get(path("Job", sandbox.name))["items"]
    names = {job["metadata"]["name"]: job for job in found}
    return {job: names[job] for job in sorted(names) if job.startswith(f"{name}-")}


def wait_jobs(sandbox: Sandbox, name: str, count: int) -> dict[str, Document]:
    sandbox.wait(lambda: len(jobs(sandbox, name)) == count, f"{count} Jobs of {name}")
    return jobs(sandbox, name)


def status(sandbox: Sandbox, name: str) -> Document:
    return dict(sandbox.get("CronJob", name).get("status", {}))


def hours_ago(count: int, now: float = 0.0) -> tuple[str, datetime, str]:
    """A schedule that was due at a full hour some hours ago, the time before, and the minutes in a Job's name."""
    due = datetime.fromtimestamp((now or time()) // 3600 * 3600, UTC) - timedelta(hours=count)
    return f"0 {due.hour} * * *", due - timedelta(minutes=5), str(int(due.timestamp()) // 60)


def test_a_job_that_is_due_starts_once_and_is_recorded(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    schedule, before, minutes = hours_ago(3)
    sandbox.add(cron_job(sandbox, "nightly", schedule))
    started_last(sandbox, "nightly", before)

    sandbox.wait_running("nightly-", 2)
    [(name, job)] = jobs(sandbox, "nightly").items()
    assert name == f"nightly-{minutes}"
    metadata = job["metadata"]
    due = before + timedelta(minutes=5)
    assert metadata["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == due.strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    assert metadata["labels"]["team"] == "vision"
    created_by = sandbox.get("CronJob", "nightly")["metadata"]["annotations"]["muster.dev/user"]
    assert created_by
    assert metadata["annotations"]["muster.dev/user"] == created_by
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "nightly", True)
    sandbox.wait(lambda: len(status(sandbox, "nightly").get("active", ())) == 1, "the Job to be active")
    assert status(sandbox, "nightly")["lastScheduleTime"] == due.strftime("%Y-%m-%dT%H:%M:%SZ")

    finish_all(sandbox, "nightly-")
    sandbox.wait_phase("Job", name, "Completed")
    sandbox.wait(lambda: "lastSuccessfulTime" in status(sandbox, "nightly"), "the success to be recorded")
    assert not status(sandbox, "nightly").get("active")
    assert list(jobs(sandbox, "nightly")) == [name]
    sandbox.delete("CronJob", "nightly")
    wait_jobs(sandbox, "nightly", 0)
