"""Volcano CronJobs: a Job starts when it is due, once, and old ones go."""

from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, condition, path
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


def test_the_policies_about_jobs_that_still_run(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    now = time()
    schedule, before, minutes = hours_ago(2, now)
    for policy in ("Allow", "Forbid", "Replace"):
        sandbox.add(cron_job(sandbox, policy.lower(), schedule, concurrencyPolicy=policy))
        started_last(sandbox, policy.lower(), before - timedelta(days=2))
        wait_jobs(sandbox, policy.lower(), 1)
        sandbox.wait_running(f"{policy.lower()}-", 2)

    # From now on it is due an hour later, which has passed as well.
    hour_later, _, later = hours_ago(1, now)
    for policy in ("allow", "forbid", "replace"):
        sandbox.merge("CronJob", policy, {"spec": {"schedule": hour_later}})
    assert list(wait_jobs(sandbox, "allow", 2)) == [f"allow-{minutes}", f"allow-{later}"]
    sandbox.wait(
        lambda: list(jobs(sandbox, "replace")) == [f"replace-{later}"], "the older Job to be replaced"
    )
    sandbox.wait_running(f"replace-{later}", 2)
    assert list(jobs(sandbox, "forbid")) == [f"forbid-{minutes}"]
    finish_all(sandbox, "forbid-")
    sandbox.wait(lambda: f"forbid-{later}" in jobs(sandbox, "forbid"), "the start to be made up for")


def test_old_jobs_go_and_a_start_that_is_too_late_is_missed(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    schedule, before, _ = hours_ago(3)
    cron = cron_job(
        sandbox, "short", schedule, successfulJobsHistoryLimit=0, startingDeadlineSeconds=1_000_000
    )
    sandbox.add(cron)
    started_last(sandbox, "short", before)
    sandbox.wait_running("short-", 2)
    finish_all(sandbox, "short-")
    wait_jobs(sandbox, "short", 0)
    assert "lastSuccessfulTime" in status(sandbox, "short")

    sandbox.add(cron_job(sandbox, "late", schedule, startingDeadlineSeconds=60))
    started_last(sandbox, "late", before)
    sandbox.wait(lambda: "MissSchedule" in reasons(sandbox, "late"), "the missed start to be told")
    assert jobs(sandbox, "late") == {}


def reasons(sandbox: Sandbox, name: str) -> set[str]:
    """Reasons of events about a CronJob."""
    events = sandbox.api.get(path("Event", sandbox.name))["items"]
    return {event["reason"] for event in events if event["regarding"]["name"] == name}


def test_a_cron_job_that_cannot_start_says_so_and_stops_no_other(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    schedule, before, minutes = hours_ago(2)
    for name in ("stolen", "good"):
        sandbox.add(cron_job(sandbox, name, schedule))
    # A user's Job has the name that the CronJob's own would have.
    sandbox.add(volcano_job(sandbox, f"stolen-{minutes}", 1))
    for name in ("stolen", "good"):
        started_last(sandbox, name, before)
    sandbox.wait(
        lambda: condition(sandbox.get("CronJob", "stolen"), "Ready").get("status") == "False",
        "the CronJob to say so",
    )
    assert "is not owned by this CronJob" in condition(sandbox.get("CronJob", "stolen"), "Ready")["message"]
    wait_jobs(sandbox, "good", 1)


def test_a_cron_job_with_a_wrong_schedule_is_refused(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    for spec, words in (
        ({"schedule": "60 * * * *"}, "expected a schedule such as"),
        ({"schedule": "TZ=UTC 0 * * * *"}, "no TZ: write spec.timeZone"),
        ({"schedule": "0 * * * *", "timeZone": "Mars/City"}, "spec.timeZone: found"),
    ):
        with pytest.raises(ApiError, match=words):
            sandbox.add(cron_job(sandbox, "wrong", **spec))
