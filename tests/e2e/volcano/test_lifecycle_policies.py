"""Lifecycle policies of Volcano Jobs: what happens to the Job, its pods and its seats."""

import pytest

from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import template, volcano_job
from tests.e2e.support.sandbox import Sandbox


def on(action: str, **trigger: str | int) -> list[Document]:
    return [{"action": action, **trigger}]


def uids(sandbox: Sandbox, prefix: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in sandbox.pods(prefix)}


def wait_restarted(sandbox: Sandbox, name: str, pods: int, before: set[str]) -> None:
    """Until so many pods of the Job run, none of them one of these."""
    sandbox.wait(
        lambda: len(sandbox.running(f"{name}-")) == pods and not uids(sandbox, f"{name}-") & before,
        f"{name} to run again",
    )


def wait_status(sandbox: Sandbox, name: str, **fields: int) -> None:
    sandbox.wait(
        lambda: fields.items() <= sandbox.get("Job", name).get("status", {}).items(),
        f"{name} to say {fields}",
    )


def test_a_job_is_completed_when_its_master_succeeded_though_its_workers_never_end(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    master = {
        "name": "master",
        "replicas": 1,
        "template": template(sandbox.name, 1),
        "policies": on("CompleteJob", event="TaskCompleted"),
    }
    worker = {"name": "worker", "replicas": 2, "template": template(sandbox.name, 7)}
    sandbox.add(volcano_job(sandbox, "mpi", 3, tasks=[master, worker], minAvailable=3))
    sandbox.wait_running("mpi-", 3)

    finish(sandbox, ["mpi-master-0"])
    sandbox.wait_phase("Job", "mpi", "Completed")
    sandbox.wait_free()
    # The pod that ended by itself stays for its logs.
    assert [pod["metadata"]["name"] for pod in sandbox.pods("mpi-")] == ["mpi-master-0"]
    state = sandbox.get("Job", "mpi")["status"]["state"]
    assert state["phase"] == "Completed"


@pytest.mark.parametrize(("action", "phase"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated")])
def test_an_exit_code_stops_the_whole_job(sandbox: Sandbox, action: str, phase: str) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8, policies=on(action, exitCode=42)))
    sandbox.wait_running("train-", 2)

    finish(sandbox, ["train-worker-1"], exit_code=42)
    sandbox.wait_phase("Job", "train", phase)
    sandbox.wait_free()
    assert [pod["metadata"]["name"] for pod in sandbox.pods("train-")] == ["train-worker-1"]


def test_a_failed_pod_restarts_the_job_in_its_own_seats_though_others_wait_for_them(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8, policies=on("RestartJob", event="PodFailed")))
    sandbox.wait_running("train-", 2)
    sandbox.add(volcano_job(sandbox, "other", 1, 8))
    sandbox.wait_phase("Job", "other", "Pending")
    before, nodes = uids(sandbox, "train-"), sandbox.nodes_of("train-")

    finish(sandbox, ["train-worker-1"], exit_code=1)
    wait_restarted(sandbox, "train", 2, before)
    sandbox.wait_phase("Job", "train", "Running")
    assert sandbox.nodes_of("train-") == nodes
    assert len(sandbox.ledger.admissions(sandbox.name, "train")) == 1
    assert not sandbox.running("other-")
    wait_status(sandbox, "train", version=1, retryCount=1)


def test_a_deleted_pod_restarts_the_job_where_its_owner_wants_that(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8, policies=on("RestartJob", event="PodEvicted")))
    sandbox.wait_running("train-", 2)
    before = uids(sandbox, "train-")

    sandbox.delete("Pod", "train-worker-0")
    wait_restarted(sandbox, "train", 2, before)
    assert len(sandbox.ledger.admissions(sandbox.name, "train")) == 1


@pytest.mark.parametrize(("action", "restarted"), [("RestartPod", 1), ("RestartTask", 2)])
def test_a_failed_pod_restarts_itself_or_its_task_in_its_own_seats(
    sandbox: Sandbox, action: str, restarted: int
) -> None:
    sandbox.add_nodes(3)
    sandbox.add_queue()
    master = {"name": "master", "replicas": 1, "template": template(sandbox.name, 8)}
    worker = {
        "name": "worker",
        "replicas": 2,
        "template": template(sandbox.name, 8),
        "policies": on(action, event="PodFailed"),
    }
    sandbox.add(volcano_job(sandbox, "train", 3, tasks=[master, worker], minAvailable=3))
    sandbox.wait_running("train-", 3)
    sandbox.add(volcano_job(sandbox, "other", 1, 8))
    sandbox.wait_phase("Job", "other", "Pending")
    before, nodes = uids(sandbox, "train-"), sandbox.nodes_of("train-")

    finish(sandbox, ["train-worker-1"], exit_code=1)
    sandbox.wait(
        lambda: len(sandbox.running("train-")) == 3 and len(uids(sandbox, "train-") - before) == restarted,
        f"{restarted} pods to run again",
    )
    assert sandbox.nodes_of("train-") == nodes
    assert len(sandbox.ledger.admissions(sandbox.name, "train")) == 1
    assert not sandbox.running("other-")
    wait_status(sandbox, "train", version=0, retryCount=1, running=3, failed=0)
    sandbox.wait_phase("Job", "train", "Running")

    finish(sandbox, [f"train-{name}" for name in ("master-0", "worker-0", "worker-1")])
    sandbox.wait_phase("Job", "train", "Completed")


def test_a_job_that_fails_more_often_than_it_may_has_failed(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 1, 8, maxRetry=2, policies=on("RestartJob", event="PodFailed")))
    sandbox.wait_running("train-", 1)
    before = uids(sandbox, "train-")

    finish(sandbox, ["train-worker-0"], exit_code=1)
    wait_restarted(sandbox, "train", 1, before)
    finish(sandbox, ["train-worker-0"], exit_code=1)
    sandbox.wait_phase("Job", "train", "Failed")
    sandbox.wait_free()
    wait_status(sandbox, "train", version=2, retryCount=2)
