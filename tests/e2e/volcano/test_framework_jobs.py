"""Volcano Jobs as users of frameworks write them: one task decides when the Job is done, the others never end."""

import pytest

from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import template, volcano_job
from tests.e2e.support.sandbox import Sandbox


def task(sandbox: Sandbox, name: str, replicas: int, *, decides: bool = False) -> Document:
    pods = template(sandbox.name, 1)
    pods["spec"]["containers"][0]["name"] = name
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}] if decides else []
    return {"name": name, "replicas": replicas, "template": pods, "policies": policies}


def environment(pod: Document) -> dict[str, str]:
    return {line["name"]: line.get("value", "") for line in pod["spec"]["containers"][0].get("env", ())}


@pytest.mark.parametrize(
    ("plugin", "first", "second", "decides", "shown"),
    [
        ("mpi", "master", "worker", "master", {"MPI_HOST": "job-worker-0.job,job-worker-1.job"}),
        ("pytorch", "master", "worker", "master", {"MASTER_ADDR": "job-master-0.job", "RANK": "0"}),
        ("tensorflow", "ps", "worker", "worker", {}),
        ("ray", "head", "worker", "head", {}),
    ],
)
def test_a_job_of_a_framework_runs_and_is_done_when_its_task_is(
    sandbox: Sandbox, plugin: str, first: str, second: str, decides: str, shown: dict[str, str]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    tasks = [
        task(sandbox, first, 1, decides=decides == first),
        task(sandbox, second, 2, decides=decides == second),
    ]
    sandbox.add(volcano_job(sandbox, "job", 3, tasks=tasks, plugins={plugin: []}))
    sandbox.wait_running("job-", 3)

    pods = {pod["metadata"]["name"]: pod for pod in sandbox.pods("job-")}
    assert shown.items() <= environment(pods[f"job-{first}-0"]).items()
    assert "spec.plugins" not in sandbox.told("Job", "job")
    if plugin == "tensorflow":
        assert '"index":1' in environment(pods["job-worker-1"])["TF_CONFIG"]
    if plugin == "ray":
        assert "--address=job-head-0.job:6379" in pods["job-worker-1"]["spec"]["containers"][0]["command"][2]
        assert sandbox.get("Service", "job-head-svc")["spec"]["ports"][0]["port"] == 6379

    finish(sandbox, [name for name in pods if name.startswith(f"job-{decides}-")])
    sandbox.wait_phase("Job", "job", "Completed")
    sandbox.wait_free()
