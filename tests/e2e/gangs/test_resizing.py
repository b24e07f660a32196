"""Jobs that grow while gangs run."""

from collections.abc import Callable

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from tests.cluster_faults import continue_muster
from tests.e2e.support.crash_harness import is_stopped
from tests.e2e.support.gang_kinds import finish, made
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.waiting import until


def test_a_job_that_grows_gets_no_pod_past_its_quota(sandbox: Sandbox) -> None:
    """Released as a whole or pod by pod, running or suspended by its user."""
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(capability={GPU: 4})
    sandbox.add(batch_job(sandbox, "train", 2, 2, completions=9))
    sandbox.wait_running("train-", 2)
    alice = sandbox.somebody("alice")

    def patch(change: str) -> None:
        sandbox.stack.kubectl(
            "patch", "job/train", "-n", sandbox.name, "--type=merge", "-p", change, user=alice
        )

    with pytest.raises(
        LocalCommandFailed, match="expected at most 2: the Job is admitted with so many seats"
    ):
        patch('{"spec":{"parallelism":3}}')
    patch('{"spec":{"suspend":true,"parallelism":3}}')
    sandbox.wait_reason("train", "OnHold")
    sandbox.wait_free()
    patch('{"spec":{"suspend":false}}')
    message = sandbox.wait_reason("train", "NeverFits")
    assert message == f"6 {GPU} asked, queue {queue} may use 4"
    patch('{"spec":{"parallelism":4}}')
    sandbox.wait(lambda: sandbox.reason("train")[1].startswith("8 "), "all to be asked for")
    assert bound_at_most(sandbox, "train-") == 2
    patch('{"spec":{"parallelism":2}}')
    sandbox.wait_running("train-", 2)


def test_a_job_that_grows_in_the_moment_of_its_release_gets_no_pod_past_its_quota(
    whole_stack: Stack, sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(capability={GPU: 4})
    absent_muster()
    muster = whole_stack.start_muster("muster-pauses", environment={"MUSTER_FAULT": "applied:STOP"})
    sandbox.add(batch_job(sandbox, "train", 2, 2, completions=9))
    until(lambda: is_stopped(muster), "the admission to be stored")
    sandbox.merge("batch/v1 Job", "train", {"spec": {"parallelism": 3}})

    continue_muster(muster)
    sandbox.wait_running("train-", 2)
    finish(sandbox, [sandbox.running("train-")[0]["metadata"]["name"]])
    sandbox.wait(lambda: len(made(sandbox)) > 2 and len(sandbox.running("train-")) == 2, "the next to run")
    assert bound_at_most(sandbox, "train-") == 2


def bound_at_most(sandbox: Sandbox, prefix: str) -> int:
    """How many pods were on nodes at the same time, and had not ended."""
    there: set[str] = set()
    most = 0
    for moment in sandbox.history.of(sandbox.name):
        meta = moment.pod["metadata"]
        if not moment.node or not meta["name"].startswith(prefix):
            continue
        over = moment.kind == "DELETED" or moment.phase in ("Succeeded", "Failed")
        (there.discard if over else there.add)(meta["uid"])
        most = max(most, len(there))
    return most
