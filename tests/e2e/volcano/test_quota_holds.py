"""Quota that a PodGroup has held for it while its pods are being made."""

from tests.e2e.support.api_paths import Document
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.manifests import grouped, pod, pod_group
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
