"""Commands, as vcctl creates them, and the states of queues."""

from typing import Any

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, condition, path
from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import template, volcano_job
from tests.e2e.support.sandbox import Sandbox

VERSIONS = {"Job": "batch.volcano.sh/v1alpha1", "Queue": "scheduling.volcano.sh/v1beta1"}


def command(action: str, kind: str, target: Document, **fields: Any) -> Document:
    """A Command as vcctl makes it."""
    owner = {
        "apiVersion": VERSIONS[kind],
        "kind": kind,
        "name": target["metadata"]["name"],
        "uid": target["metadata"]["uid"],
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": f"{owner['name']}-{action.lower()}-"},
        "action": action,
        "target": owner,
        **fields,
    }


def ask(sandbox: Sandbox, action: str, kind: str, name: str) -> None:
    """Ask for an action, and wait until it was carried out."""
    target = sandbox.api.get(path(kind, "" if kind == "Queue" else sandbox.name, name))
    [made] = sandbox.add(command(action, kind, target))
    wait_carried_out(sandbox, made)


def wait_carried_out(sandbox: Sandbox, made: Document) -> None:
    name = made["metadata"]["name"]
    sandbox.wait(lambda: sandbox.find("Command", name) is None, f"{made['action']} to be carried out")


def status(sandbox: Sandbox, queue: str) -> Document:
    found: Document = sandbox.api.get(path("Queue", "", queue)).get("status", {})
    return found


def wait_state(sandbox: Sandbox, queue: str, state: str) -> None:
    sandbox.wait(lambda: status(sandbox, queue).get("state") == state, f"{queue} to be {state}")


def test_a_job_is_suspended_and_resumed_as_often_as_its_owner_likes(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8, maxRetry=1))
    for version in (1, 2):
        sandbox.wait_running("train-", 2)
        ask(sandbox, "AbortJob", "Job", "train")
        sandbox.wait_phase("Job", "train", "Aborted")
        sandbox.wait_free()
        assert not sandbox.pods("train-")
        found = sandbox.get("Job", "train")["status"]
        assert found["state"]["reason"] == "AbortJob"
        assert found["version"] == version
        ask(sandbox, "ResumeJob", "Job", "train")
    sandbox.wait_running("train-", 2)
    sandbox.wait_phase("Job", "train", "Running")
    assert sandbox.get("Job", "train")["status"].get("retryCount", 0) == 0

    finish(sandbox, ["train-worker-0", "train-worker-1"])
    sandbox.wait_phase("Job", "train", "Completed")
    ask(sandbox, "ResumeJob", "Job", "train")
    assert sandbox.phase("Job", "train") == "Completed"


def test_a_job_that_is_resumed_while_its_pods_still_go_starts_whole(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    job = volcano_job(sandbox, "train", 2, 8)
    job["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["kwok.muster.dev/stop-after"] = "2s"
    sandbox.add(job)
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 2)}
    target = sandbox.get("Job", "train")
    sandbox.add(command("AbortJob", "Job", target))
    [resume] = sandbox.add(command("ResumeJob", "Job", target))
    wait_carried_out(sandbox, resume)
    sandbox.wait_running("train-", 2)
    assert not before & {pod["metadata"]["uid"] for pod in sandbox.pods("train-")}
    assert sandbox.get("Job", "train")["status"]["version"] == 1


def test_a_command_in_another_namespace_does_nothing(sandbox: Sandbox) -> None:
    """Its author was asked for rights there, on a Job of that name."""
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8))
    sandbox.wait_running("train-", 2)
    sandbox.add(volcano_job(sandbox, "other", 1, 1))
    target = sandbox.get("Job", "train")
    elsewhere = {**target, "metadata": {**target["metadata"], "name": "other"}}
    [made] = sandbox.add(command("TerminateJob", "Job", elsewhere))
    # One that is carried out shows that the other was looked at.
    ask(sandbox, "RestartJob", "Job", "other")
    sandbox.wait_phase("Job", "train", "Running")
    assert sandbox.get("Job", "train")["status"].get("version", 0) == 0
    sandbox.delete("Command", made["metadata"]["name"])


def test_a_job_that_waits_is_suspended_and_others_take_its_turn(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "large", 2, 8))
    sandbox.wait_phase("Job", "large", "Pending")
    ask(sandbox, "AbortJob", "Job", "large")
    sandbox.wait_phase("Job", "large", "Aborted")
    sandbox.add_nodes(1)
    sandbox.add(volcano_job(sandbox, "small", 2, 8))
    sandbox.wait_running("small-", 2)
    ask(sandbox, "ResumeJob", "Job", "large")
    sandbox.wait_phase("Job", "large", "Pending")
    finish(sandbox, ["small-worker-0", "small-worker-1"])
    sandbox.wait_running("large-", 2)


def test_the_same_command_is_carried_out_once(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8))
    sandbox.wait_running("train-", 2)
    target = sandbox.get("Job", "train")
    held = command("RestartJob", "Job", target)
    # What deletes it has to wait: Muster sees it again and again.
    held["metadata"]["finalizers"] = ["example.com/hold"]
    [made] = sandbox.add(held)
    sandbox.wait(
        lambda: sandbox.get("Job", "train").get("status", {}).get("version") == 1, "train to restart"
    )
    sandbox.wait_phase("Job", "train", "Running")
    sandbox.wait_running("train-", 2)
    assert sandbox.get("Job", "train")["status"]["retryCount"] == 1
    sandbox.merge("Command", made["metadata"]["name"], {"metadata": {"finalizers": None}})
    wait_carried_out(sandbox, made)
    assert sandbox.get("Job", "train")["status"]["retryCount"] == 1


def test_who_may_not_update_an_object_may_not_ask_for_an_action_on_it(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8))
    sandbox.wait_running("train-", 2)
    job = sandbox.get("Job", "train")
    target = sandbox.api.get(path("Queue", "", queue))
    commands = path("Command", sandbox.name)
    with sandbox.as_user("eve") as eve:
        with pytest.raises(ApiError, match="may not update Queue"):
            eve.create(commands, command("CloseQueue", "Queue", target))
        with pytest.raises(ApiError, match=r'found action "EatJob" on Job, expected AbortJob'):
            eve.create(commands, command("EatJob", "Job", job))
        made = eve.create(commands, command("AbortJob", "Job", job, message="a mistake in the data"))
    wait_carried_out(sandbox, made)
    sandbox.wait_phase("Job", "train", "Aborted")
    assert "a mistake in the data" in sandbox.told("Job", "train")


def test_a_closed_queue_takes_nothing_new_and_what_runs_goes_on(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 1, 8))
    sandbox.wait_running("train-", 1)
    ask(sandbox, "CloseQueue", "Queue", queue)
    wait_state(sandbox, queue, "Closing")
    with pytest.raises(ApiError, match="which is closed, expected a queue that is open"):
        sandbox.add(volcano_job(sandbox, "late", 1, 8))
    assert len(sandbox.running("train-")) == 1
    finish(sandbox, ["train-worker-0"])
    wait_state(sandbox, queue, "Closed")

    ask(sandbox, "OpenQueue", "Queue", queue)
    wait_state(sandbox, queue, "Open")
    sandbox.add(volcano_job(sandbox, "late", 1, 8))
    sandbox.wait_running("late-", 1)


def test_with_a_queue_those_below_it_are_closed_and_opened(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    parent = sandbox.add_queue("parent")
    child = sandbox.add_queue("child", parent=parent)
    other = sandbox.add_queue("other", parent=parent)
    ask(sandbox, "CloseQueue", "Queue", other)
    wait_state(sandbox, other, "Closed")
    ask(sandbox, "CloseQueue", "Queue", parent)
    for each in (parent, child, other):
        wait_state(sandbox, each, "Closed")
    found = {"status": status(sandbox, child)}
    assert f"queue {parent} is closed" in condition(found, "ClosedByParent")["message"]

    ask(sandbox, "OpenQueue", "Queue", parent)
    wait_state(sandbox, parent, "Open")
    wait_state(sandbox, child, "Open")
    assert status(sandbox, other)["state"] == "Closed"


def test_a_task_starts_when_the_one_before_it_is_ready_though_all_are_one_gang(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    slow = template(sandbox.name, 4, {"kwok.muster.dev/start-after": "2s"})
    worker = {"name": "worker", "replicas": 2, "template": slow}
    launcher = {
        "name": "launcher",
        "replicas": 1,
        "template": template(sandbox.name, 1),
        "dependsOn": {"name": ["worker"]},
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
    }
    sandbox.add(volcano_job(sandbox, "mpi", 3, tasks=[launcher, worker], minAvailable=3))
    sandbox.wait_running("mpi-", 3)
    # The history has a watch of its own, which may be a moment behind.
    sandbox.wait(lambda: bool(sandbox.history.of(sandbox.name, "mpi-launcher-0")), "the launcher's history")
    moments = [moment.pod for moment in sandbox.history.of(sandbox.name)]
    first = next(at for at, pod in enumerate(moments) if pod["metadata"]["name"] == "mpi-launcher-0")
    before = {
        pod["metadata"]["name"] for pod in moments[:first] if condition(pod, "Ready").get("status") == "True"
    }
    assert before == {"mpi-worker-0", "mpi-worker-1"}
    assert len(sandbox.ledger.admissions(sandbox.name, "mpi")) == 1
    finish(sandbox, ["mpi-launcher-0"])
    sandbox.wait_phase("Job", "mpi", "Completed")


def test_a_job_whose_first_task_failed_does_not_wait_for_ever(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    # Without a moment in which it is ready: the launcher would rightly start.
    never_ready = template(sandbox.name, 4, {"kwok.muster.dev/start-after": "1h"})
    worker = {"name": "worker", "replicas": 1, "template": never_ready}
    launcher = {
        "name": "launcher",
        "replicas": 1,
        "template": template(sandbox.name, 1),
        "dependsOn": {"name": ["worker"]},
    }
    sandbox.add(volcano_job(sandbox, "mpi", 2, tasks=[launcher, worker], minAvailable=2))
    sandbox.wait(lambda: bool(sandbox.nodes_of("mpi-worker-0")), "the first task to have its node")
    worker_status = path("Pod", sandbox.name, "mpi-worker-0") + "/status"
    sandbox.api.merge(worker_status, {"status": {"phase": "Failed"}})

    sandbox.wait_phase("Job", "mpi", "Failed")
    assert "task launcher cannot start" in sandbox.told("Job", "mpi")
    sandbox.wait_free()
