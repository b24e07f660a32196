"""Completion indexes that have ended: their seats are free, and the other pods of their Job run on."""

from typing import Any

import pytest

from tests.e2e.support.gang_kinds import finish, wait_until_unready_gangs_have_gone
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


def pods_by_index(sandbox: Sandbox) -> dict[int, str]:
    key = "batch.kubernetes.io/job-completion-index"
    return {
        int(pod["metadata"]["annotations"][key]): pod["metadata"]["uid"] for pod in sandbox.running("sweep-")
    }


def gpus_held(sandbox: Sandbox) -> int:
    """What the queue has admitted."""
    return sandbox.held().get(f"queue {sandbox.queues[0]} {GPU}", 0) // 1000


def end(sandbox: Sandbox, index: int, exit_code: int) -> None:
    key = "batch.kubernetes.io/job-completion-index"
    names = [
        pod["metadata"]["name"]
        for pod in sandbox.running("sweep-")
        if pod["metadata"]["annotations"][key] == str(index)
    ]
    finish(sandbox, names, exit_code=exit_code)


def runs_on(sandbox: Sandbox, pods: dict[int, str]) -> None:
    """These pods still run when pods that were missing would have cost them their seats."""
    wait_until_unready_gangs_have_gone(sandbox)
    assert pods_by_index(sandbox) == pods
    assert "NotReady" not in sandbox.explain("sweep")


@pytest.mark.parametrize(
    ("nodes", "gpus", "exit_code"),
    [(1, 1, 0), (2, 4, 1)],
    ids=["succeeded on one node", "failed for good on two nodes"],
)
def test_the_seat_of_an_index_that_ended_is_free_and_the_others_run_on(
    sandbox: Sandbox, nodes: int, gpus: int, exit_code: int
) -> None:
    sandbox.add_nodes(nodes)
    sandbox.add_queue(capability={GPU: 4 * gpus})
    spec: dict[str, Any] = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}
    sandbox.add(batch_job(sandbox, "sweep", 4, gpus, **spec))
    sandbox.wait_running("sweep-", 4)
    before = pods_by_index(sandbox)
    end(sandbox, 0, exit_code)
    del before[0]
    sandbox.wait(lambda: gpus_held(sandbox) == 3 * gpus, "its seat to be free")
    runs_on(sandbox, before)


def test_the_last_indexes_of_a_sweep_run_to_their_end(sandbox: Sandbox) -> None:
    """Six completions, two at a time, and most of them fail for good."""
    sandbox.add_nodes(1)
    sandbox.add_queue()
    spec: dict[str, Any] = {"completionMode": "Indexed", "completions": 5, "backoffLimitPerIndex": 0}
    sandbox.add(batch_job(sandbox, "sweep", 2, 1, **spec))
    for index in range(4):
        sandbox.wait(lambda index=index: index in pods_by_index(sandbox), f"index {index} to run")
        end(sandbox, index, 1 if index % 2 else 0)
    sandbox.wait(lambda: set(pods_by_index(sandbox)) == {4}, "the last one to run")
    sandbox.wait(lambda: gpus_held(sandbox) == 1, "the other seat to be free")
    runs_on(sandbox, pods_by_index(sandbox))
    end(sandbox, 4, 0)
    sandbox.wait(lambda: sandbox.held() == {}, "the Job to end")
