"""Work that comes after other work, by the annotation muster.dev/after."""

from collections.abc import Callable
from typing import Any

import pytest

from queues.errors import ApiError
from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import bare_pod, batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox

JOB = "batch/v1 Job"


def after(document: dict[str, Any], text: str) -> dict[str, Any]:
    """The object with the annotation."""
    document["metadata"].setdefault("annotations", {})["muster.dev/after"] = text
    return document


def end(sandbox: Sandbox, name: str, exit_code: int = 0) -> None:
    """The only pod of a Job ends."""
    pod = sandbox.wait_running(f"{name}-", 1)[0]
    finish(sandbox, [pod["metadata"]["name"]], exit_code=exit_code)


def test_work_starts_when_what_it_comes_after_has_ended_as_it_wants(
    sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(
        batch_job(sandbox, "good", 1),
        batch_job(sandbox, "short", 1, ttlSecondsAfterFinished=1),
        batch_job(sandbox, "bad", 1, backoffLimit=0),
        after(batch_job(sandbox, "after-good", 1), "job/good, job/short"),
        after(batch_job(sandbox, "after-bad", 1), "job/bad"),
        after(volcano_job(sandbox, "any-end", 1), "job/bad:any"),
        after(bare_pod(sandbox, "after-late"), "vcjob/late"),
    )
    assert "waits for job/bad to succeed" in sandbox.wait_reason("after-bad", "WaitsForDependency")
    assert "there is no vcjob/late" in sandbox.wait_reason("after-late", "DependencyMissing")
    assert sandbox.pods("after-good") == []

    end(sandbox, "short")
    sandbox.wait(lambda: sandbox.find(JOB, "short") is None, "job/short to be removed by its TTL")
    absent_muster()
    end(sandbox, "good")
    end(sandbox, "bad", 1)
    sandbox.wait(lambda: sandbox.job_is("bad", "Failed"), "job/bad to have failed")
    sandbox.wait(lambda: sandbox.job_is("good", "Complete"), "job/good to be complete")
    sandbox.stack.start_muster("muster-again")

    sandbox.wait_running("after-good", 1)
    sandbox.wait_running("any-end", 1)
    told = sandbox.wait_reason("after-bad", "DependencyFailed")
    assert "job/bad failed, and job/after-bad is to start once it has succeeded" in told
    assert "DependencyFailed" in sandbox.explain("after-bad")
    _, command, _ = told.rsplit("`", 2)
    sandbox.stack.kubectl(*command.split()[1:])
    sandbox.wait_running("after-bad", 1)

    sandbox.add(volcano_job(sandbox, "late", 1))
    assert "waits for vcjob/late to succeed" in sandbox.wait_reason("after-late", "WaitsForDependency")
    end(sandbox, "late")
    sandbox.wait_running("after-late", 1)
    # Its predecessors are gone, and only the ledger knows how they ended.
    sandbox.delete(JOB, "good")
    sandbox.add(after(batch_job(sandbox, "much-later", 1), "job/good,job/short:ok"))
    sandbox.wait_running("much-later", 1)


def test_a_job_that_ends_and_is_removed_while_muster_is_away_counts_as_it_ended(
    sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(
        batch_job(sandbox, "short", 1, ttlSecondsAfterFinished=1),
        batch_job(sandbox, "bad", 1, backoffLimit=0),
        batch_job(sandbox, "cut", 1),
        after(batch_job(sandbox, "after-short", 1), "job/short, job/bad:any"),
        after(batch_job(sandbox, "after-bad", 1), "job/bad"),
        after(batch_job(sandbox, "after-cut", 1), "job/cut"),
    )

    def is_kept(name: str) -> bool:
        found = sandbox.find(JOB, name)
        return found is not None and "muster.dev/outcome" in found["metadata"].get("finalizers", ())

    for name in ("short", "bad", "cut"):
        sandbox.wait(lambda name=name: is_kept(name), f"job/{name} to be kept")
    sandbox.wait_running("cut-", 1)
    absent_muster()
    end(sandbox, "short")
    end(sandbox, "bad", 1)
    sandbox.wait(lambda: sandbox.job_is("bad", "Failed"), "job/bad to have failed")
    for name in ("bad", "cut"):
        sandbox.delete(JOB, name)
    sandbox.wait(lambda: "deletionTimestamp" in sandbox.get(JOB, "short")["metadata"], "the TTL of job/short")
    sandbox.stack.start_muster("muster-again")

    sandbox.wait_running("after-short", 1)
    assert "job/bad failed" in sandbox.wait_reason("after-bad", "DependencyFailed")
    assert "job/cut was deleted before it ended" in sandbox.wait_reason("after-cut", "DependencyFailed")
    for name in ("short", "bad", "cut"):
        sandbox.wait(lambda name=name: sandbox.find(JOB, name) is None, f"job/{name} to go")


def test_a_cycle_is_refused_or_said_by_its_members(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(after(batch_job(sandbox, "first", 1), "pod/last, job/refused"))
    sandbox.wait(lambda: "DependencyMissing" in sandbox.told(JOB, "first"), "job/first to say that it waits")
    with pytest.raises(ApiError, match="job/refused and job/first, each after the next"):
        sandbox.add(after(batch_job(sandbox, "refused", 1), "job/first"))

    sandbox.add(after(bare_pod(sandbox, "last"), "job/first"))
    assert "pod/last and job/first" in sandbox.wait_reason("last", "DependencyCycle")
    sandbox.merge(JOB, "first", {"metadata": {"annotations": {"muster.dev/after": None}}})
    end(sandbox, "first")
    sandbox.wait_running("last", 1)
