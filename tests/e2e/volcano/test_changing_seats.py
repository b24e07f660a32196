"""Volcano Jobs whose seats change while they run: scaled down and up, restarted after some of their pods ended."""

from typing import Any

import pytest

from tests.e2e.support.gang_kinds import finish
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.e2e.volcano.test_lifecycle_policies import on, uids, wait_restarted, wait_status


def names(sandbox: Sandbox) -> list[str]:
    """Pods of the Job that are to run, by name."""
    return sorted(pod["metadata"]["name"] for pod in sandbox.running("train-"))


def scale(sandbox: Sandbox, replicas: int) -> None:
    """To so many pods, all of which it needs."""
    (task,) = sandbox.get("Job", "train")["spec"]["tasks"]
    spec: dict[str, Any] = {"minAvailable": replicas, "tasks": [{**task, "replicas": replicas}]}
    spec["tasks"][0].pop("minAvailable", None)
    sandbox.merge("Job", "train", {"spec": spec})


def workers(count: int) -> list[str]:
    return [f"train-worker-{index}" for index in range(count)]


@pytest.mark.parametrize("at_once", [False, True], ids=["one-after-the-other", "at-once"])
def test_a_job_that_is_scaled_down_and_up_again_runs_as_wide_as_before(
    sandbox: Sandbox, at_once: bool
) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 4, 4))
    sandbox.wait_running("train-", 4)

    scale(sandbox, 2)
    if not at_once:
        sandbox.wait(lambda: names(sandbox) == workers(2), "the last two to go")
        sandbox.wait(lambda: sandbox.held().get(f"queue {queue} {GPU}") == 8_000, "their seats to come back")
    scale(sandbox, 4)

    sandbox.wait(lambda: names(sandbox) == workers(4), "all four to run")
    wait_status(sandbox, "train", running=4, failed=0)
    finish(sandbox, workers(4))
    sandbox.wait_phase("Job", "train", "Completed")
    sandbox.wait_free()


def test_a_job_that_restarts_asks_for_the_seats_of_its_pods_that_had_ended(sandbox: Sandbox) -> None:
    """What ended gave its seat to others, and all of the Job runs again once there is room for all of it."""
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8, policies=on("RestartJob", event="PodFailed")))
    sandbox.wait_running("train-", 2)
    before = uids(sandbox, "train-")
    finish(sandbox, ["train-worker-0"])
    sandbox.add(volcano_job(sandbox, "other", 1, 8))
    sandbox.wait_running("other-", 1)

    finish(sandbox, ["train-worker-1"], exit_code=1)
    sandbox.wait(lambda: not uids(sandbox, "train-") & before, "the old pods to go")
    finish(sandbox, ["other-worker-0"])

    wait_restarted(sandbox, "train", 2, before)
    wait_status(sandbox, "train", retryCount=1, running=2)
    finish(sandbox, workers(2))
    sandbox.wait_phase("Job", "train", "Completed")
