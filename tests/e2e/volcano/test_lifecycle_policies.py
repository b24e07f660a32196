"""Lifecycle policies of Volcano Jobs: what happens to the Job, its pods and its seats."""

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
