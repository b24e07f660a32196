"""Pods that say that they are part of a workload that did not make them."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, pod_spec, template
from tests.e2e.support.namespace_history import admission_id
from tests.e2e.support.operators import Operator, Template
from tests.e2e.support.sandbox import Sandbox


@pytest.fixture
def elsewhere(sandbox: Sandbox) -> Iterator[str]:
    """Another tenant's namespace."""
    name = f"{sandbox.name}-2"
    sandbox.api.create(
        path("Namespace", ""), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    for pod in sandbox.api.get(path("Pod", name))["items"]:
        sandbox.api.delete(path("Pod", name, pod["metadata"]["name"]))
    sandbox.wait(lambda: not sandbox.api.get(path("Pod", name))["items"], "the intruders to go")
    sandbox.api.delete(path("Namespace", "", name))


def victim(sandbox: Sandbox, pods: int = 2) -> Document:
    job = {"spec": {"parallelism": pods, "template": template(sandbox.name, 4)}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "victim", "labels": {"muster.dev/queue-name": sandbox.queues[0]}},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": job}]},
    }


def one_pod_short(document: Document) -> list[Template]:
    """An operator that has not made the last pod yet: a seat stays vacant."""
    job = document["spec"]["replicatedJobs"][0]["template"]["spec"]
    return [Template("workers", job["parallelism"] - 1, job["template"])]


def intruder(sandbox: Sandbox, namespace: str, *, queue: str = "", gpus: int = 4) -> Document:
    """A pod with a controller of its user's making, that names the JobSet of another."""
    uid = sandbox.get("JobSet", "victim")["metadata"]["uid"]
    anchor = sandbox.api.create(
        path("ConfigMap", namespace),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "anchor"}},
    )
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "anchor",
        "uid": anchor["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": "a-intruder",
        "labels": {"muster.dev/queue-name": queue} if queue else {},
        "annotations": {"muster.dev/member-of": f"jobset/victim/{uid}/workers"},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(sandbox.name, gpus)}


def test_a_pod_of_another_namespace_gets_no_seat_of_the_job_set_that_it_names(
    sandbox: Sandbox, operators: None, elsewhere: str
) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    with Operator(sandbox, "JobSet", one_pod_short).playing():
        sandbox.add(victim(sandbox))
        sandbox.wait(lambda: len(sandbox.running("victim-")) == 1, "all its pods but one")
        sandbox.api.create(path("Pod", elsewhere), intruder(sandbox, elsewhere, queue=queue))
        sandbox.wait(
            lambda: "a-intruder" in {name for name, *_ in sandbox.ledger.reasons(elsewhere)},
            "the intruder to wait for itself",
        )
        ((admission, state),) = sandbox.ledger.admissions(sandbox.name, "victim")
        assert state == "open"
        assert str(admission) not in {
            admission_id(moment) for moment in sandbox.history.of(elsewhere, "a-intruder")
        }
    sandbox.api.delete(path("Pod", elsewhere, "a-intruder"))


def test_a_pod_that_runs_past_the_queue_neither_keeps_the_seats_of_the_job_set_that_it_names_nor_blocks_it(
    sandbox: Sandbox, operators: None
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "before", 8))
    sandbox.wait_running("before", 1)
    with Operator(sandbox, "JobSet", one_pod_short).playing():
        sandbox.add(victim(sandbox, 3))
        sandbox.wait(lambda: sandbox.reason("victim")[0] == "NoFit", "it to wait")
        sandbox.add(intruder(sandbox, sandbox.name, gpus=0))
        sandbox.wait_running("a-intruder", 1)
        finish_all(sandbox, "before")
        sandbox.wait_running("victim-", 2)
        sandbox.api.merge(
            path("JobSet", sandbox.name, "victim") + "/status",
            {"status": {"conditions": [{"type": "Completed", "status": "True"}]}},
        )
        finish_all(sandbox, "victim-")
        sandbox.wait_free()
        assert sandbox.running("a-intruder"), "whatever it says, it is nobody's"
