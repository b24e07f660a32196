"""Quota that a PodGroup has held for it while its pods are being made."""

from tests.e2e.support.api_paths import Document
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.manifests import bare_pod, grouped, pod, pod_group
from tests.e2e.support.sandbox import Sandbox

EIGHT = {"nvidia.com/gpu": "8"}


def holding(sandbox: Sandbox, name: str, time: str, **spec: str) -> Document:
    """A PodGroup of two with quota for 8 GPUs held for so long."""
    group = pod_group(sandbox, name, 2, minResources=EIGHT, **spec)
    group["metadata"]["annotations"] = {"muster.dev/hold-min-resources": time}
    return group


def test_quota_is_held_until_the_pods_are_made_whoever_leads(harness: CrashHarness) -> None:
    harness.leave()
    first = harness.start()
    with harness.sandbox("held-quota") as sandbox:
        queue = sandbox.add_queue("-small", capability=EIGHT)
        sandbox.add(holding(sandbox, "spark", "10m", queue=queue))
        sandbox.wait_phase("PodGroup", "spark", "Inqueue")
        assert "8 nvidia.com/gpu of queue" in sandbox.wait_reason("spark", "NotEnoughPods")

        sandbox.add(pod(sandbox, "other", 4, labels={"muster.dev/queue-name": queue}))
        assert "8 used, 4 asked" in sandbox.wait_reason("other", "QueueLimit")
        harness.forget(first)
        harness.leads(harness.start())
        sandbox.add(grouped(sandbox, "spark", "spark-driver", 4))
        sandbox.wait(
            lambda: sandbox.reason("spark")[1].startswith("1 of 2 pods exist"), "its first pod to be seen"
        )
        assert sandbox.reason("other")[0] == "QueueLimit"

        sandbox.add(grouped(sandbox, "spark", "spark-executor", 4))
        sandbox.wait_running("spark-", 2)
        assert not sandbox.running("other")


def test_quota_is_given_back_when_the_pods_do_not_come_in_time(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue(capability=EIGHT)
    sandbox.add(holding(sandbox, "late", "3s"))
    sandbox.wait_phase("PodGroup", "late", "Inqueue")
    sandbox.add(bare_pod(sandbox, "other", 4))
    sandbox.wait_running("other", 1)
    sandbox.wait(
        lambda: "then given back" in sandbox.reason("late")[1], "the group to say that its time is over"
    )
    assert sandbox.phase("PodGroup", "late") == "Inqueue"

    sandbox.add(*(grouped(sandbox, "late", f"late-{name}", 2) for name in "ab"))
    sandbox.wait_running("late-", 2)


def test_a_podgroup_waits_for_the_quota_that_another_has_held(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue(capability=EIGHT)
    sandbox.add(holding(sandbox, "first", "10m"))
    sandbox.wait_phase("PodGroup", "first", "Inqueue")
    sandbox.add(holding(sandbox, "second", "10m"))
    sandbox.wait_reason("second", "QueueLimit")
    sandbox.wait_phase("PodGroup", "second", "Pending")
    sandbox.delete("PodGroup", "first")
    sandbox.wait_phase("PodGroup", "second", "Inqueue")
