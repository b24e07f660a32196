"""Jobs of CronJobs and JobFlows, by their owner and by their template."""

import asyncio
from typing import Any

import msgspec
import pytest

from admission.job_starts.owned_jobs import OwnedJob, owned_job
from admission.kube.job_starts import started_jobs
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.workloads.kinds.volcano_job import WireVolcanoJob
from tests.waiting import LIMIT

DECODER = msgspec.json.Decoder(WireVolcanoJob)


def document(name: str, owner: str | None = "flow", phase: str = "Running") -> msgspec.Raw:
    owners = [{"kind": "JobFlow", "name": "f", "uid": owner, "controller": True}] if owner else []
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"u-{name}",
        "ownerReferences": owners,
        "annotations": {"volcano.sh/created-by-jobtemplate": "team.a"},
    }
    body = {"metadata": metadata, "spec": {"tasks": []}, "status": {"state": {"phase": phase}}}
    return msgspec.Raw(msgspec.json.encode(body))


def seen(jobs: StartedJobs, raw: msgspec.Raw) -> None:
    jobs.seen(DECODER.decode(raw), raw)


def of(raw: msgspec.Raw) -> OwnedJob:
    job = owned_job(raw)
    assert job is not None
    return job


def test_jobs_are_found_by_owner_and_template_until_they_are_gone() -> None:
    jobs, changed = StartedJobs(), list[str]()
    jobs.changed = lambda owner, job: changed.append(f"{owner} {job.name}")
    seen(jobs, document("f-a"))
    seen(jobs, document("other", owner=None))
    assert [job.name for job in jobs.of_owner("flow")] == ["f-a"]
    assert jobs.of_template("team", "a") == ["f-a"]
    seen(jobs, document("f-a"))
    seen(jobs, document("f-a", phase="Completed"))
    assert [job.phase for job in jobs.of_owner("flow")] == ["Completed"]
    # A Job whose owner was taken away is not its Job any more.
    seen(jobs, document("f-a", owner=None))
    assert jobs.of_owner("flow") == []
    assert jobs.of_template("team", "a") == []
    assert changed == ["flow f-a"] * 3
    jobs.gone("u-unknown")


async def test_a_job_that_no_informer_shows_is_gone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_jobs, "SHOWN_WITHIN", 0.02)
    jobs, gone = StartedJobs(), asyncio.Event()
    jobs.hand_in(of(document("shown")))
    jobs.hand_in(of(document("phantom")))
    seen(jobs, document("shown", phase="Pending"))
    jobs.changed = lambda owner, job: gone.set()
    await asyncio.wait_for(gone.wait(), LIMIT)
    assert [(job.name, job.phase) for job in jobs.of_owner("flow")] == [("shown", "Pending")]


async def test_what_is_handed_in_late_does_not_replace_what_is_shown() -> None:
    jobs = StartedJobs()
    seen(jobs, document("f-a", phase="Completed"))
    jobs.hand_in(of(document("f-a", phase="Pending")))
    assert [job.phase for job in jobs.of_owner("flow")] == ["Completed"]
