"""Objects that an object in a queue contains, or that its operator makes: they wait and run with it."""

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, template
from tests.e2e.support.operators import Operator, Template, TrainJobOperator
from tests.e2e.support.sandbox import Sandbox
from tests.node_affinity import pinned_nodes


def pods_of_job_set(document: Document) -> list[Template]:
    return [
        Template(each["name"], each["replicas"], each["template"]["spec"]["template"])
        for each in document["spec"]["replicatedJobs"]
    ]


def train_job(queue: str, **spec: object) -> Document:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tune", "labels": {"muster.dev/queue-name": queue}},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, **spec},
    }


def test_a_train_job_waits_runs_and_is_evicted_with_the_job_set_that_is_made_of_it(
    sandbox: Sandbox, operators: None
) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "before", 4))
    sandbox.wait_running("before", 1)
    job = {"spec": {"template": template(sandbox.name, 4)}}
    runtime = {"replicatedJobs": [{"name": "node", "replicas": 4, "template": job}]}
    others = [{"manager": "example.com/team", "trainingRuntimeSpec": {}}]

    def suspended(kind: str) -> bool:
        return bool(sandbox.get(kind, "tune")["spec"]["suspend"])

    with (
        Operator(sandbox, "JobSet", pods_of_job_set).playing(),
        TrainJobOperator(sandbox, runtime).playing(),
    ):
        [made] = sandbox.add(train_job(queue, runtimePatches=others, suspend=False))
        assert made["spec"]["suspend"] is True
        assert [each["manager"] for each in made["spec"]["runtimePatches"]] == [
            "example.com/team",
            "muster.dev/queue",
        ]
        sandbox.wait(lambda: sandbox.reason("tune")[0] == "NoFit", "its JobSet to wait")
        assert suspended("TrainJob")
        sandbox.merge("TrainJob", "tune", {"spec": {"suspend": False}})
        assert suspended("TrainJob"), "only Muster resumes it"
        moved = {"metadata": {"labels": {"muster.dev/queue-name": "other"}}}
        with pytest.raises(ApiError, match="a TrainJob stays in its queue"):
            sandbox.merge("TrainJob", "tune", moved)
        without = sandbox.merge("TrainJob", "tune", {"metadata": {"labels": {"muster.dev/queue-name": None}}})
        assert without["metadata"]["labels"] == made["metadata"]["labels"], "it stays in its queue"
        assert sandbox.merge("JobSet", "tune", {"spec": {"suspend": False}})["spec"]["suspend"] is True

        finish_all(sandbox, "before")
        pods = sandbox.wait_running("tune-", 4)
        assert all(pinned_nodes(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
        assert not suspended("TrainJob")
        assert not suspended("JobSet")
        # What the operator applies late, from before the JobSet was resumed, takes nothing of Muster's out of it.
        written = sandbox.get("JobSet", "tune")["spec"]["replicatedJobs"]
        late = sandbox.merge("JobSet", "tune", {"spec": {**runtime, "suspend": True}})["spec"]
        assert late["suspend"] is False
        assert late["replicatedJobs"] == written

        sandbox.add(bare_pod(sandbox, "urgent", 8, priorityClassName=sandbox.add_priority_class(1000)))
        sandbox.wait_running("urgent", 1)
        assert suspended("TrainJob")
        assert suspended("JobSet")
        finish_all(sandbox, "urgent")
        sandbox.wait_running("tune-", 4)
        sandbox.delete("TrainJob", "tune")
        sandbox.wait(lambda: not sandbox.pods("tune-"), "its pods to go")
    sandbox.wait_free()
