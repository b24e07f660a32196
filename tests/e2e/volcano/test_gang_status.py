"""What PodGroups say while gangs wait, as Volcano's users and operators read it."""

from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Sandbox


def told(sandbox: Sandbox, name: str, reason: str) -> list[str]:
    """Messages of the events with a reason of an object."""
    found = sandbox.api.get(f"/api/v1/namespaces/{sandbox.name}/events")["items"]
    return [
        event["message"]
        for event in found
        if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
    ]


def unschedulable(sandbox: Sandbox, group: str) -> Document:
    conditions = sandbox.get("PodGroup", group).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Unschedulable"), {})


def test_a_gang_without_room_is_unschedulable_in_volcanos_words_and_says_so_once(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(bare_pod(sandbox, "first", 8))
    sandbox.wait_running("first", 1)
    [job] = sandbox.add(volcano_job(sandbox, "train", 2, 8))
    group = f"train-{job['metadata']['uid']}"

    sandbox.wait(lambda: bool(told(sandbox, "train", "NoFit")), "an event of the Job")
    # Its pods may not be known at first.
    known = lambda: unschedulable(sandbox, group).get("reason") == "NotEnoughResources"  # noqa: E731
    sandbox.wait(known, "the condition of the PodGroup")
    condition = unschedulable(sandbox, group)
    assert condition["status"] == "True"
    assert condition["message"].startswith("2/2 tasks in gang unschedulable: NoFit: ")

    # More turns, and other numbers: nothing is told again.
    sandbox.add(bare_pod(sandbox, "small", 1))
    sandbox.wait_running("small", 1)
    finish_all(sandbox, "small")
    finish_all(sandbox, "first")
    sandbox.wait_running("train-", 2)
    sandbox.wait_phase("PodGroup", group, "Running")
    sandbox.wait(lambda: unschedulable(sandbox, group)["status"] == "False", "the condition to end")
    assert len(told(sandbox, "train", "NoFit")) == 1


def counts(sandbox: Sandbox) -> dict[str, int]:
    """How many workloads the sandbox's queue counts, by phase, without those that are 0."""
    status = sandbox.get("Queue", sandbox.name).get("status", {})
    phases = ("pending", "inqueue", "running", "unknown", "completed")
    return {phase: status[phase] for phase in phases if status.get(phase)}


def test_an_operator_makes_its_pods_once_the_podgroup_is_inqueue(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(capability={"nvidia.com/gpu": "8"})
    sandbox.add(bare_pod(sandbox, "first", 8))
    sandbox.wait_running("first", 1)
    sandbox.add(pod_group(sandbox, "spark", 2, minResources={"nvidia.com/gpu": "8", "pods": "2"}))
    sandbox.wait(lambda: bool(told(sandbox, "spark", "Unschedulable")), "an event of PodGroup spark")
    sandbox.wait_phase("PodGroup", "spark", "Pending")
    condition = unschedulable(sandbox, "spark")
    assert condition["reason"] == "NotEnoughResources"
    assert "QueueLimit" in condition["message"]
    assert "8 nvidia.com/gpu: 8 used" in condition["message"]

    finish_all(sandbox, "first")
    sandbox.wait_phase("PodGroup", "spark", "Inqueue")
    assert not sandbox.held(), "a permit holds nothing"
    sandbox.wait(lambda: counts(sandbox).get("inqueue") == 1, "the queue to count it")
    sandbox.add(grouped(sandbox, "spark", "spark-driver", 4))
    sandbox.wait(
        lambda: sandbox.reason("spark")[1] == "1 of 2 pods exist", "the group to wait for the other pod"
    )
    assert sandbox.phase("PodGroup", "spark") == "Inqueue"
    sandbox.add(grouped(sandbox, "spark", "spark-executor", 4))
    sandbox.wait_running("spark-", 2)
    sandbox.wait_phase("PodGroup", "spark", "Running")
