"""A gang that is deleted gives everything back, and nothing before its last pod is gone."""

import pytest

from deploy.local.stack import Stack
from tests.e2e.support.gang_kinds import (
    EACH_KIND,
    GangMaker,
    as_batch_job,
    as_volcano_job,
    bind,
    wait_released,
)
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox


def delete_gang(sandbox: Sandbox, gang: GangMaker, name: str) -> None:
    match gang:
        case _ if gang is as_volcano_job:
            sandbox.delete("Job", name)
        case _ if gang is as_batch_job:
            sandbox.delete("batch/v1 Job", name)
        case _:
            sandbox.delete("PodGroup", name)
            for each in sandbox.pods(f"{name}-"):
                sandbox.delete("Pod", each["metadata"]["name"])


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_half_released_gang_that_is_deleted_gives_everything_back(
    idle_scheduler: Stack, sandbox: Sandbox, gang: GangMaker
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    # Three pods of three: no node is filled, so Jobs are released pod by pod.
    sandbox.add(*gang(sandbox, "train", 3, 3))
    names = wait_released(sandbox, "train-", 3)
    bind(sandbox, names[0])
    sandbox.wait_running("train-", 1)
    assert sandbox.held()

    delete_gang(sandbox, gang, "train")
    sandbox.wait(lambda: not sandbox.pods(), "its pods to go")
    sandbox.wait_free()
    sandbox.wait(lambda: not sandbox.ledger.workloads(sandbox.name), "the gang to be forgotten")


def test_seats_are_held_until_the_last_pod_is_really_gone(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    slow = {"kwok.muster.dev/stop-after": "1500ms"}
    sandbox.add(volcano_job(sandbox, "slow", 1, 8, annotations=slow))
    sandbox.wait_running("slow-", 1)
    sandbox.add(volcano_job(sandbox, "next", 1, 8))
    sandbox.wait_reason("next", "NoFit")

    sandbox.delete("Job", "slow")
    sandbox.wait_running("next-", 1)
    # The history is a watch of its own, and may hear of both later than the API server tells.
    sandbox.wait(lambda: all(gone_and_bound(sandbox)), "the history to tell of the end and of the beginning")
    gone, bound = gone_and_bound(sandbox)
    assert gone[0] < bound[0]


def gone_and_bound(sandbox: Sandbox) -> tuple[list[int], list[int]]:
    """Places in the history at which pods of "slow" were gone, and pods of "next" bound."""
    moments = sandbox.history.of(sandbox.name)
    gone = [i for i, m in enumerate(moments) if m.kind == "DELETED" and "/slow-" in m.name]
    return gone, [i for i, m in enumerate(moments) if m.node and "/next-" in m.name]
