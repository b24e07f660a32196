"""Jobs that grow and quotas that shrink while gangs run."""

from collections.abc import Callable

import pytest

from deploy.local.stack import LocalCommandFailed, Stack
from tests.e2e.support.api_paths import path
from tests.e2e.support.crash_harness import is_stopped
from tests.e2e.support.gang_kinds import finish, finish_all, made
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import GPU, Yard
from tests.waiting import until


def test_a_job_that_grows_gets_no_pod_past_its_quota(yard: Yard) -> None:
    """Released as a whole or pod by pod, running or suspended by its user."""
    yard.add_nodes(1)
    queue = yard.add_queue(capability={GPU: 4})
    yard.add(batch_job(yard, "train", 2, 2, completions=9))
    yard.wait_running("train-", 2)
    alice = yard.somebody("alice")

    def patch(change: str) -> None:
        yard.stack.kubectl("patch", "job/train", "-n", yard.name, "--type=merge", "-p", change, user=alice)

    with pytest.raises(
        LocalCommandFailed, match="expected at most 2: the Job is admitted with so many seats"
    ):
        patch('{"spec":{"parallelism":3}}')
    patch('{"spec":{"suspend":true,"parallelism":3}}')
    message = yard.wait_reason("train", "QueueLimit")
    assert message == f"queue {queue} may use 4 {GPU}: 4 used, 2 asked, 2 too many"
    yard.wait_running("train-", 2)
    patch('{"spec":{"parallelism":4}}')
    yard.wait(lambda: "4 asked" in yard.reason("train")[1], "both to be asked for")
    assert bound_at_most(yard, "train-") == 2


def test_a_job_that_grows_in_the_moment_of_its_release_gets_no_pod_past_its_quota(
    whole_stack: Stack, yard: Yard, absent_muster: Callable[[], None]
) -> None:
    yard.add_nodes(1)
    yard.add_queue(capability={GPU: 4})
    absent_muster()
    muster = whole_stack.start_muster("muster-pauses", environment={"MUSTER_FAULT": "applied:STOP"})
    yard.add(batch_job(yard, "train", 2, 2, completions=9))
    until(lambda: is_stopped(muster), "the admission to be stored")
    yard.merge("batch/v1 Job", "train", {"spec": {"parallelism": 3}})

    muster.wake()
    yard.wait_running("train-", 2)
    finish(yard, [yard.running("train-")[0]["metadata"]["name"]])
    yard.wait(lambda: len(made(yard)) > 2 and len(yard.running("train-")) == 2, "the next to run")
    assert bound_at_most(yard, "train-") == 2


def bound_at_most(yard: Yard, prefix: str) -> int:
    """How many pods were on nodes at the same time, and had not ended."""
    there: set[str] = set()
    most = 0
    for moment in yard.history.of(yard.name):
        meta = moment.pod["metadata"]
        if not moment.node or not meta["name"].startswith(prefix):
            continue
        over = moment.kind == "DELETED" or moment.phase in ("Succeeded", "Failed")
        (there.discard if over else there.add)(meta["uid"])
        most = max(most, len(there))
    return most


def test_a_quota_shrunk_below_its_use_evicts_nothing_and_admits_nothing(yard: Yard) -> None:
    yard.add_nodes(3)
    queue = yard.add_queue(capability={GPU: 16})
    yard.add(volcano_job(yard, "first", 1, 8), volcano_job(yard, "second", 1, 8))
    yard.wait_running("first-", 1)
    yard.wait_running("second-", 1)

    yard.api.merge(path("Queue", "", queue), {"spec": {"capability": {GPU: 8}}})
    yard.add(volcano_job(yard, "third", 1, 2))
    message = yard.wait_reason("third", "QueueLimit")
    assert message == f"queue {queue} may use 8 {GPU}: 16 used, 2 asked, 10 too many"
    assert message in yard.explain("third")

    finish_all(yard, "first-")
    yard.wait(lambda: yard.held().get(f"queue {queue} {GPU}") == 8_000, "the first one's seat to come back")
    yard.wait(lambda: "8 used, 2 asked, 2 too many" in yard.reason("third")[1], "the new numbers")
    assert len(yard.running("second-")) == 1
    finish_all(yard, "second-")
    yard.wait_running("third-", 1)
