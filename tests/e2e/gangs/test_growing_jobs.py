"""Jobs that get more pods while they run, with Kubernetes' own job controller."""

from collections.abc import Callable

import pytest

from deploy.local.stack import Stack
from queues.errors import ApiError
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox

MAY_GROW = {"muster.dev/may-grow": "true"}


def resize(sandbox: Sandbox, name: str, pods: int) -> None:
    sandbox.merge("batch/v1 Job", name, {"spec": {"parallelism": pods, "completions": pods}})


def test_a_job_grows_within_quota_and_nodes_and_gives_back_what_it_does_not_need(
    whole_stack: Stack, sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1, gpus=4)
    sandbox.add_queue(capability={GPU: 3})
    job = batch_job(sandbox, "train", 2, completionMode="Indexed")
    job["metadata"]["annotations"] = MAY_GROW
    sandbox.add(job)
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 2)}

    resize(sandbox, "train", 4)
    grown = sandbox.wait_running("train-", 3)
    assert before < {pod["metadata"]["uid"] for pod in grown}, "what ran runs on"
    sandbox.wait_reason("train", "QueueLimit")
    resize(sandbox, "train", 1)
    sandbox.wait_running("train-", 1)
    held = f"queue {sandbox.name} {GPU}"
    sandbox.wait(lambda: sandbox.held().get(held) == 1_000, "the seats to come back")

    absent_muster()
    resize(sandbox, "train", 2)
    sandbox.wait(lambda: len(sandbox.pods("train-")) == 2, "the pod that is added while Muster is down")
    assert len(sandbox.running("train-")) == 1, "it waits"
    whole_stack.start_muster("muster-again")
    sandbox.wait_running("train-", 2)
    finish_all(sandbox, "train-")
    sandbox.wait(lambda: sandbox.job_is("train", "Complete"), "the Job to end")


def test_a_job_that_cannot_grow_says_how_it_could(
    sandbox: Sandbox, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1, gpus=4)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "train", 2, completionMode="Indexed"))
    sandbox.wait_running("train-", 2)
    for down in (False, True):
        if down:
            absent_muster()
        with pytest.raises(ApiError, match="it gets more from then on while it runs"):
            resize(sandbox, "train", 3)
        assert len(sandbox.running("train-")) == 2, "nothing is lost"


def test_what_was_added_on_borrowed_quota_goes_back_and_the_gang_starts_again(sandbox: Sandbox) -> None:
    """The Job loses all its pods, as each that is suspended, and keeps the seats of what was admitted first."""
    sandbox.add_nodes(1, gpus=4)
    borrower = sandbox.add_queue(deserved={GPU: 2})
    owner = sandbox.add_queue("owner", deserved={GPU: 2})
    job = batch_job(sandbox, "train", 2, completionMode="Indexed")
    job["metadata"]["annotations"] = MAY_GROW
    sandbox.add(job)
    sandbox.wait_running("train-", 2)
    resize(sandbox, "train", 4)
    sandbox.wait_running("train-", 4)

    own = batch_job(sandbox, "own", 2)
    own["metadata"]["labels"]["muster.dev/queue-name"] = owner
    sandbox.add(own)
    sandbox.wait_running("own-", 2)
    sandbox.wait_running("train-", 2)
    held = sandbox.held()
    assert held[f"queue {borrower} {GPU}"] == held[f"queue {owner} {GPU}"] == 2_000
    finish_all(sandbox, "own-")
    sandbox.wait_running("train-", 4)
    finish_all(sandbox, "train-")
    sandbox.wait(lambda: sandbox.job_is("train", "Complete"), "the Job to end")
