"""Commands, as vcctl creates them, and the states of queues."""

from typing import Any

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import volcano_job
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
