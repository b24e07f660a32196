"""Pods that change again and again: what is read of one does not depend on what was read before."""

import random
from typing import Any

import msgspec
import pytest

from admission.decode.pods import RecentPods
from admission.facts.pods import PodFact
from admission.wire import WirePod
from admission.workloads.kinds import read_pod

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}
BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
RUNNING = {"name": "c", "ready": True, "restartCount": 1, "resources": {"requests": {"cpu": "1"}}}
RESIZED = {**RUNNING, "resources": {"requests": {"cpu": "3"}}}
FAILED = {"name": "c", "state": {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:01:00Z"}}}
#: What may be written to a pod: part of the object, field, value; None: the field goes.
CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("spec", "nodeName", "n1"),
    ("spec", "schedulingGates", [{"name": "muster.dev/queue"}]),
    ("spec", "schedulingGates", None),
    ("spec", "priority", 7),
    ("spec", "resourceClaims", [{"name": "gpu", "resourceClaimTemplateName": "t"}]),
    ("metadata", "labels", {"muster.dev/released": "true", "muster.dev/queue-name": "q"}),
    ("metadata", "labels", None),
    ("metadata", "annotations", {"muster.dev/admission-id": "4", "muster.dev/seat": "main/1"}),
    ("metadata", "annotations", {"muster.dev/heartbeat": "2026-01-01T00:00:00Z"}),
    ("metadata", "finalizers", ["muster.dev/outcome"]),
    ("metadata", "deletionTimestamp", "2026-01-01T00:02:00Z"),
    ("metadata", "deletionGracePeriodSeconds", 30),
    ("status", "phase", "Running"),
    ("status", "phase", "Failed"),
    ("status", "phase", "Succeeded"),
    ("status", "conditions", [BOUND]),
    ("status", "conditions", [BOUND, READY]),
    ("status", "conditions", [REFUSED]),
    ("status", "conditions", [BOUND, {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
    ("status", "containerStatuses", [RUNNING]),
    ("status", "containerStatuses", [RESIZED]),
    ("status", "containerStatuses", [FAILED]),
    ("status", "resourceClaimStatuses", [{"name": "gpu", "resourceClaimName": "gpu-1"}]),
)


class Pod:
    """A pod, as it is now."""

    def __init__(self) -> None:
        self.document: dict[str, dict[str, Any]] = {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        }
        self._version = 0

    def change(self, part: str, field: str, value: Any) -> WirePod:
        """What is shown once this is written."""
        self._version += 1
        self.document[part][field] = value
        self.document["metadata"] |= {"resourceVersion": str(self._version), "generation": self._version}
        return msgspec.json.decode(msgspec.json.encode(self.document), type=WirePod)


@pytest.mark.parametrize("seed", range(20))
def test_a_pod_is_read_as_if_it_were_seen_for_the_first_time(seed: int) -> None:
    rng, pod, recent = random.Random(seed), Pod(), RecentPods(read_pod)
    for _ in range(40):
        shown = pod.change(*rng.choice(CHANGES))
        assert recent.fact(shown) == read_pod(shown)


def test_of_a_pod_that_only_comes_further_little_is_read() -> None:
    whole: list[str] = []

    def read(pod: WirePod) -> PodFact:
        whole.append(pod.metadata.resource_version)
        return read_pod(pod)

    pod, recent = Pod(), RecentPods(read)
    for change in (
        ("metadata", "labels", {"a": "b"}),
        ("spec", "nodeName", "n1"),
        ("status", "phase", "Running"),
        ("status", "conditions", [BOUND, READY]),
        ("status", "phase", "Succeeded"),
    ):
        fact = recent.fact(pod.change(*change))
    assert (whole, fact.node, fact.phase) == (["1"], "n1", "Succeeded")
