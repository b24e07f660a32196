"""What a user who suspends a Job of a queue, or unsuspends it, means: written down by the API server itself."""

from typing import Any

from tests.kube.support.cluster_objects import batch_job
from tests.kube.support.guarded_namespace import MUSTER, QUEUED, GuardedNamespace

HOLD, CREATED_SUSPENDED = "muster.dev/hold", "muster.dev/created-suspended"


def said(job: Any) -> tuple[bool, str | None]:
    return job["spec"]["suspend"], job["metadata"]["annotations"].get(HOLD)


async def running(guarded: GuardedNamespace, **spec: Any) -> Any:
    """A Job that Muster has resumed."""
    document = batch_job("a", labels=QUEUED)
    document["spec"] |= spec
    await guarded.create("jobs", document)
    return await suspend(guarded, False, by=MUSTER)


async def suspend(guarded: GuardedNamespace, value: bool | None, *, by: str = "alice") -> Any:
    return await guarded.patch("jobs", "a", {"spec": {"suspend": value}}, by=by)


async def test_a_job_that_its_owner_suspends_is_held_until_its_owner_resumes_it(
    guarded: GuardedNamespace,
) -> None:
    assert said(await running(guarded)) == (False, None)
    assert said(await suspend(guarded, True)) == (True, "true")
    assert said(await suspend(guarded, True)) == (True, "true")
    # It waits again, and only Muster resumes it.
    assert said(await suspend(guarded, False)) == (True, "false")
    assert said(await suspend(guarded, False)) == (True, "false")
    assert said(await suspend(guarded, False, by=MUSTER)) == (False, "false")
    assert said(await suspend(guarded, True)) == (True, "true")
    assert said(await suspend(guarded, None)) == (True, "false")


async def test_what_muster_suspends_is_not_held(guarded: GuardedNamespace) -> None:
    await running(guarded)
    assert said(await suspend(guarded, True, by=MUSTER)) == (True, None)
    assert said(await suspend(guarded, False)) == (True, None)


async def test_a_file_that_was_created_suspended_stops_nothing_when_it_is_applied_again(
    guarded: GuardedNamespace,
) -> None:
    made = await running(guarded, suspend=True)
    assert made["metadata"]["annotations"][CREATED_SUSPENDED] == "true"
    assert said(await suspend(guarded, True)) == (False, None)
    # Its owner holds it by the annotation.
    held = await guarded.patch("jobs", "a", {"metadata": {"annotations": {HOLD: "true"}}})
    assert said(held) == (False, "true")


async def test_another_change_of_a_held_job_leaves_it_held(guarded: GuardedNamespace) -> None:
    await running(guarded)
    await suspend(guarded, True)
    changed = await guarded.patch("jobs", "a", {"spec": {"backoffLimit": 3}})
    assert said(changed) == (True, "true")


async def test_jobs_without_a_queue_are_suspended_as_ever(guarded: GuardedNamespace) -> None:
    await guarded.create("jobs", batch_job("a"))
    job = await suspend(guarded, True)
    assert HOLD not in job["metadata"].get("annotations", {})
