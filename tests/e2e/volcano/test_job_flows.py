"""JobFlows: Jobs start after one another, as the flow says."""

from typing import Any

import pytest

from deploy.local.stack import Stack
from queues.errors import ApiError
from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish, finish_all
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


def test_a_flow_fails_with_its_job_and_starts_nothing_more(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(*(template(sandbox, name) for name in "abcd"), diamond("broken"))
    sandbox.wait_running("broken-a-", 1)
    finish_all(sandbox, "broken-a-")
    sandbox.wait_running("broken-b-", 1)
    sandbox.wait_running("broken-c-", 1)
    finish(sandbox, ["broken-b-worker-0"], exit_code=1)
    sandbox.wait_phase("JobFlow", "broken", "Failed")
    finish_all(sandbox, "broken-c-")
    sandbox.wait(
        lambda: status(sandbox, "broken").get("completedJobs") == ["broken-a", "broken-c"],
        "the other Job to end",
    )
    assert status(sandbox, "broken")["failedJobs"] == ["broken-b"]
    assert "broken-d" not in jobs(sandbox, "broken-")


def test_jobs_that_are_not_kept_go_when_the_flow_has_succeeded(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    patch = {"jobSpec": {"minAvailable": 2, "tasks": [{"name": "worker", "replicas": 2}]}}
    started = {"probe": {"taskStatusList": [{"taskName": "worker", "phase": "Running"}]}}
    sandbox.add(
        template(sandbox, "server"),
        template(sandbox, "client"),
        flow(
            "pair",
            after("server", patch=patch),
            after("client", "server", depends=started),
            jobRetainPolicy="delete",
        ),
    )
    # The patch counts, and the client starts while its server still runs.
    sandbox.wait_running("pair-server-", 2)
    sandbox.wait_running("pair-client-", 1)
    finish_all(sandbox, "pair-")
    sandbox.wait_phase("JobFlow", "pair", "Succeed")
    sandbox.wait(lambda: jobs(sandbox, "pair-") == set(), "the Jobs to go")
    sandbox.wait_free()
    assert sandbox.phase("JobFlow", "pair") == "Succeed"
    assert status(sandbox, "pair")["completedJobs"] == ["pair-server", "pair-client"]


def test_a_flow_that_is_no_graph_is_refused(sandbox: Sandbox) -> None:
    for bad in (
        flow("ring", after("a", "b"), after("b", "a")),
        flow("lost", after("a", "nowhere")),
    ):
        with pytest.raises(ApiError, match="flows that depend on one another in a cycle"):
            sandbox.add(bad)


def test_kubectl_muster_tells_what_each_job_of_a_flow_waits_for(sandbox: Sandbox, whole_stack: Stack) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(template(sandbox, "prepare"), template(sandbox, "train", pods=64))
    sandbox.add(flow("weekly", after("prepare"), after("train", "prepare")))

    def said(*words: str) -> str:
        return kubectl_muster(whole_stack, "jobflow", *words, "-n", sandbox.name)

    sandbox.wait_running("weekly-prepare-", 1)
    sandbox.wait_phase("JobFlow", "weekly", "Running")
    [row] = [line.split() for line in said("list", "--no-headers").splitlines()]
    assert row[:4] == ["weekly", sandbox.name, "Running", "0/2"]
    sandbox.wait(lambda: "1 running" in said("get", "weekly"), "the running pod to be counted")
    assert "Job weekly-prepare to be completed; it is Running" in said("get", "weekly")
    finish_all(sandbox, "weekly-prepare-")

    # More than the node has: the Job waits, and says for what.
    sandbox.wait(lambda: "NeverFits" in said("get", "weekly"), "the waiting Job to tell its reason")
    assert "1 of 2 jobs completed" in said("get", "weekly")
    assert "weekly-train: admission" in said("list")
    assert said("delete", "weekly") == "jobflow weekly deleted\n"
    sandbox.wait(lambda: not jobs(sandbox, "weekly-"), "the Jobs to go with their flow")
