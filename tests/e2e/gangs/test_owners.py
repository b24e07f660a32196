"""Owners of pods that are no Jobs: their pods wait, one by one or as one gang, and are replaced in the same queue."""

from typing import Any

from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, pod, template
from tests.e2e.support.sandbox import Sandbox

GANG = "scheduling.volcano.sh/group-min-member"


def owner(
    sandbox: Sandbox,
    kind: str,
    pods: int,
    gpus: int = 4,
    *,
    gang: int = 0,
    **spec: Any,
) -> Document:
    """A Deployment or StatefulSet ``web`` that names the queue on itself, not in its template."""
    made = template(sandbox.name, gpus)
    made["metadata"]["labels"] = {"app": "web"}
    made["spec"].pop("restartPolicy")
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": "web",
            "labels": {"muster.dev/queue-name": sandbox.queues[0]},
            "annotations": {GANG: str(gang)} if gang else {},
        },
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": {"app": "web"}},
            "template": made,
            **spec,
        },
    }


def uids(sandbox: Sandbox) -> set[str]:
    return {each["metadata"]["uid"] for each in sandbox.running("web-")}


def asked(sandbox: Sandbox, group: str) -> dict[str, str]:
    """What a PodGroup says its gang asks for, in part."""
    found = sandbox.get("PodGroup", group)["spec"]["minResources"]
    return {name: found[name] for name in ("pods", "requests.nvidia.com/gpu")}


def pending(sandbox: Sandbox, *words: str) -> str:
    """What waits, as ``kubectl muster`` tells it."""
    return kubectl_muster(sandbox.stack, "pending", "-n", sandbox.name, *words)


def close(sandbox: Sandbox, kind: str) -> None:
    sandbox.delete(kind, "web")
    sandbox.wait_free()


def test_pods_of_a_deployment_are_admitted_one_by_one_and_replaced(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(owner(sandbox, "Deployment", 3))

    first, _ = sandbox.wait_running("web-", 2)
    [waiting] = [each for each in sandbox.pods("web-") if each["spec"].get("schedulingGates")]
    sandbox.wait_reason(waiting["metadata"]["name"], "NoFit")
    before = uids(sandbox)
    sandbox.merge("Deployment", "web", {"spec": {"replicas": 5}})
    sandbox.wait(lambda: "deployment/web (3 pods)" in pending(sandbox), "the pods that wait as one line")
    assert pending(sandbox, "--pods").count("pod/web-") == 3
    sandbox.merge("Deployment", "web", {"spec": {"replicas": 3}})
    sandbox.wait(lambda: len(sandbox.pods("web-")) == 3, "two of them to go")

    sandbox.delete("Pod", first["metadata"]["name"])
    sandbox.wait(lambda: len(uids(sandbox) - before) == 1, "another pod in the seat of the one that is gone")
    sandbox.merge("Deployment", "web", {"spec": {"replicas": 1}})
    sandbox.wait_running("web-", 1)
    sandbox.wait(lambda: len(sandbox.pods("web-")) == 1, "the other pods to go")
    close(sandbox, "Deployment")


def test_a_deployment_with_a_minimum_is_one_gang_that_rolls_over_and_grows(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "first", 8))
    sandbox.wait_running("first", 1)
    sandbox.add(owner(sandbox, "Deployment", 3, gang=3))
    group = "podgroup-deployment-web"

    assert "1 of 3" not in sandbox.wait_reason(group, "NoFit")
    assert not sandbox.running("web-")
    [reference] = sandbox.get("PodGroup", group)["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == ("Deployment", "web")
    assert asked(sandbox, group) == {"pods": "3", "requests.nvidia.com/gpu": "12"}
    finish_all(sandbox, "first")
    sandbox.wait_running("web-", 3)
    sandbox.wait_phase("PodGroup", group, "Running")

    before = uids(sandbox)
    change = {"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}}
    sandbox.merge("Deployment", "web", change)
    sandbox.wait(lambda: len(uids(sandbox)) == 3 and not uids(sandbox) & before, "the new revision to run")
    sandbox.merge("Deployment", "web", {"spec": {"replicas": 4}})
    sandbox.wait_running("web-", 4)
    sandbox.merge("Deployment", "web", {"metadata": {"annotations": {GANG: "2"}}})
    sandbox.wait(
        lambda: sandbox.get("PodGroup", group)["spec"]["minMember"] == 2, "the group to have its new size"
    )
    assert asked(sandbox, group) == {"pods": "2", "requests.nvidia.com/gpu": "8"}
    close(sandbox, "Deployment")
    sandbox.wait(lambda: sandbox.find("PodGroup", group) is None, "the group to go with its owner")


def test_a_stateful_set_with_a_minimum_starts_whole_and_gets_its_pods_back(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(owner(sandbox, "StatefulSet", 4, gang=4, serviceName="web"))

    first, *_ = sandbox.wait_running("web-", 4)
    before = uids(sandbox)
    sandbox.delete("Pod", first["metadata"]["name"])
    sandbox.wait(lambda: len(uids(sandbox) - before) == 1, "the same name to run again")
    assert {each["metadata"]["name"] for each in sandbox.running("web-")} == {f"web-{n}" for n in range(4)}
    close(sandbox, "StatefulSet")


def test_each_leader_of_a_leader_worker_set_starts_with_its_workers(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()

    def member(group: int, index: int) -> Document:
        name = f"llm-{group}" + (f"-{index}" if index else "")
        labels = {
            "muster.dev/queue-name": queue,
            "leaderworkerset.sigs.k8s.io/name": "llm",
            "leaderworkerset.sigs.k8s.io/group-index": str(group),
            "leaderworkerset.sigs.k8s.io/worker-index": str(index),
        }
        return pod(sandbox, name, 4, labels=labels, annotations={"leaderworkerset.sigs.k8s.io/size": "3"})

    sandbox.add(*(member(0, index) for index in range(2)))
    sandbox.wait(
        lambda: sandbox.reason("podgroup-llm-0")[1] == "2 of 3 pods exist", "the leader to wait for a worker"
    )
    sandbox.add(member(0, 2), *(member(1, index) for index in range(3)))
    sandbox.wait_running("llm-0", 3)
    sandbox.wait_reason("podgroup-llm-1", "NoFit")
    assert not sandbox.running("llm-1")
    finish_all(sandbox, "llm-0")
    sandbox.wait_running("llm-1", 3)
    finish_all(sandbox, "llm-1")
    sandbox.wait_free()
