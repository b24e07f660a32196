"""Users who try to get past Muster are refused."""

import pytest

from deploy.local.stack import LocalCommandFailed
from queues.errors import ApiError
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import batch_job, grouped, pod, pod_group
from tests.e2e.support.sandbox import Sandbox


def test_a_user_who_takes_the_gate_off_a_pod_is_refused(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(pod_group(sandbox, "ring", 2), grouped(sandbox, "ring", "ring-0"))
    sandbox.add(batch_job(sandbox, "waits", 2, 8))
    sandbox.wait_reason("ring", "NotEnoughPods")
    sandbox.wait_reason("waits", "NeverFits")
    alice = sandbox.somebody("alice")

    for target, change, words in (
        ("pod/ring-0", '{"spec":{"schedulingGates":null}}', "Scheduling gate muster.dev/admission"),
        ("pod/ring-0", '{"metadata":{"labels":{"muster.dev/released":"true"}}}', "muster.dev/released"),
        ("pod/ring-0", '{"metadata":{"annotations":{"muster.dev/admission-id":"1"}}}', "admission-id"),
    ):
        with pytest.raises(LocalCommandFailed) as refused:
            sandbox.stack.kubectl(
                "patch", target, "-n", sandbox.name, "--type=merge", "-p", change, user=alice
            )
        assert "orbidden" in str(refused.value)
        assert words in str(refused.value)
    sandbox.stack.kubectl(
        "patch",
        "job/waits",
        "-n",
        sandbox.name,
        "--type=merge",
        "-p",
        '{"spec":{"suspend":false}}',
        user=alice,
    )
    assert sandbox.get("Job", "waits")["spec"]["suspend"] is True
    assert sandbox.get("Pod", "ring-0")["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
    assert not sandbox.history.bound(sandbox.name)


def test_a_user_cannot_make_a_pod_that_is_released_already(sandbox: Sandbox) -> None:
    sandbox.add_queue()
    forged = pod(
        sandbox, "forged", labels={"muster.dev/released": "true", "muster.dev/queue-name": sandbox.name}
    )
    with sandbox.as_user("alice") as alice, pytest.raises(ApiError, match="which only Muster writes"):
        alice.create(path("Pod", sandbox.name), forged)
