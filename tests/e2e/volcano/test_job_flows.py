"""JobFlows: Jobs start after one another, as the flow says."""

from typing import Any

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox

FLOW = "flow.volcano.sh/v1alpha1"


def template(sandbox: Sandbox, name: str, pods: int = 1) -> Document:
    spec = volcano_job(sandbox, name, pods)["spec"]
    return {"apiVersion": FLOW, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


def flow(name: str, *flows: Document, **spec: Any) -> Document:
    return {
        "apiVersion": FLOW,
        "kind": "JobFlow",
        "metadata": {"name": name},
        "spec": {"flows": list(flows), **spec},
    }


def after(name: str, *targets: str, **more: Any) -> Document:
    depends_on = {"dependsOn": {"targets": list(targets), **more.pop("depends", {})}} if targets else {}
    return {"name": name, **depends_on, **more}


def jobs(sandbox: Sandbox, prefix: str) -> set[str]:
    found = sandbox.api.get(path("Job", sandbox.name))["items"]
    return {name for job in found if (name := job["metadata"]["name"]).startswith(prefix)}


def status(sandbox: Sandbox, name: str) -> Document:
    return dict(sandbox.get("JobFlow", name).get("status", {}))


def waits_for(sandbox: Sandbox, name: str, job: str) -> str:
    return str(status(sandbox, name).get("conditions", {}).get(job, {}).get("message", ""))


def diamond(name: str, **spec: Any) -> Document:
    return flow(name, after("a"), after("b", "a"), after("c", "a"), after("d", "b", "c"), **spec)


def test_a_diamond_of_jobs_runs_in_its_order_and_succeeds(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(diamond("ring"))
    sandbox.wait(
        lambda: "JobTemplate a" in waits_for(sandbox, "ring", "ring-a"), "the missing template to be told"
    )
    sandbox.add(*(template(sandbox, name) for name in "abcd"))

    sandbox.wait_running("ring-a-", 1)
    assert jobs(sandbox, "ring-") == {"ring-a"}
    assert "ring-a" in waits_for(sandbox, "ring", "ring-b")
    finish_all(sandbox, "ring-a-")
    sandbox.wait_running("ring-b-", 1)
    sandbox.wait_running("ring-c-", 1)
    sandbox.wait_phase("JobFlow", "ring", "Running")
    assert jobs(sandbox, "ring-") == {"ring-a", "ring-b", "ring-c"}
    finish_all(sandbox, "ring-b-")
    sandbox.wait_phase("Job", "ring-b", "Completed")
    assert "ring-d" not in jobs(sandbox, "ring-")
    finish_all(sandbox, "ring-c-")
    sandbox.wait_running("ring-d-", 1)
    job = sandbox.get("Job", "ring-d")["metadata"]
    assert job["annotations"]["volcano.sh/created-by-jobflow"] == f"{sandbox.name}.ring"
    assert job["labels"]["volcano.sh/created-by-jobtemplate"] == f"{sandbox.name}.d"
    sandbox.wait(
        lambda: sandbox.get("JobTemplate", "d").get("status") == {"jobDependsOnList": ["ring-d"]},
        "the template to name its Job",
    )
    finish_all(sandbox, "ring-d-")
    sandbox.wait_phase("JobFlow", "ring", "Succeed")
    assert status(sandbox, "ring")["completedJobs"] == ["ring-a", "ring-b", "ring-c", "ring-d"]
    assert jobs(sandbox, "ring-") == {"ring-a", "ring-b", "ring-c", "ring-d"}
    histories = status(sandbox, "ring")["jobStatusList"][0]["runningHistories"]
    assert histories[-1]["state"] == "Completed"
