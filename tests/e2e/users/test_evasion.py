"""Users who try to get past Muster are refused."""

import pytest

from deploy.local.stack import LocalCommandFailed
from queues.errors import ApiError
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import batch_job, grouped, pod, pod_group
from tests.e2e.support.sandbox import Yard


def test_a_user_who_takes_the_gate_off_a_pod_is_refused(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(pod_group(yard, "ring", 2), grouped(yard, "ring", "ring-0"))
    yard.add(batch_job(yard, "waits", 2, 8))
    yard.wait_reason("ring", "NotEnoughPods")
    yard.wait_reason("waits", "NoFit")
    alice = yard.somebody("alice")

    for target, change, words in (
        ("pod/ring-0", '{"spec":{"schedulingGates":null}}', "Scheduling gate muster.dev/admission"),
        ("pod/ring-0", '{"metadata":{"labels":{"muster.dev/released":"true"}}}', "muster.dev/released"),
        ("pod/ring-0", '{"metadata":{"annotations":{"muster.dev/admission-id":"1"}}}', "admission-id"),
        ("job/waits", '{"spec":{"suspend":false}}', "expected true until Muster admits"),
    ):
        with pytest.raises(LocalCommandFailed) as refused:
            yard.stack.kubectl("patch", target, "-n", yard.name, "--type=merge", "-p", change, user=alice)
        assert "orbidden" in str(refused.value)
        assert words in str(refused.value)
    assert yard.get("Pod", "ring-0")["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
    assert not yard.history.bound(yard.name)


def test_a_user_cannot_make_a_pod_that_is_released_already(yard: Yard) -> None:
    yard.add_queue()
    forged = pod(yard, "forged", labels={"muster.dev/released": "true", "muster.dev/queue-name": yard.name})
    with yard.as_user("alice") as alice, pytest.raises(ApiError, match="which only Muster writes"):
        alice.create(path("Pod", yard.name), forged)
