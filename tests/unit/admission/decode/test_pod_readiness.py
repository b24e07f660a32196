"""Whether a pod is ready, and what it waits for if not."""

from typing import Any

import msgspec
import pytest

from admission.decode.pods import PodReadiness, readiness_of
from admission.wire import WirePodStatus

AT, AT_SECONDS = "2027-01-15T08:00:00Z", 1_800_000_000


def read(*containers: dict[str, Any], ready: str = "False", **status: Any) -> PodReadiness:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT},
        {"type": "Ready", "status": ready, "lastTransitionTime": AT},
    ]
    document = {"phase": "Running", "conditions": conditions, "containerStatuses": list(containers), **status}
    return readiness_of(msgspec.json.decode(msgspec.json.encode(document), type=WirePodStatus))


def waiting(reason: str, message: str | None = None, **status: Any) -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason, "message": message}}, **status}


def test_a_ready_pod_is_ready_since_its_condition_says_so() -> None:
    assert read({"name": "c", "ready": True}, ready="True") == PodReadiness(AT_SECONDS, "", AT_SECONDS)


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (waiting("ImagePullBackOff", 'pulling image "x"'), 'ImagePullBackOff: pulling image "x"'),
        (waiting("CrashLoopBackOff", "back-off 5m0s", restartCount=7), "CrashLoopBackOff: back-off 5m0s"),
        (waiting("ConfigError", 'secret "s"\n not\0found'), 'ConfigError: secret "s" not found'),
        (waiting("ContainerCreating"), ""),
        (waiting("PodInitializing"), ""),
        ({"restartCount": 3, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
         "OOMKilled, exit code 137, 3 restarts"),
        ({"restartCount": 3, "state": {"running": {}}}, "3 restarts"),
        ({"restartCount": 0, "state": {"running": {}}}, ""),
    ],
)  # fmt: skip
def test_what_a_container_waits_for_is_told(container: dict[str, Any], told: str) -> None:
    assert read(container) == PodReadiness(None, told, AT_SECONDS)


def test_init_containers_come_first() -> None:
    init = [waiting("ErrImagePull", "unauthorized")]
    found = read(waiting("PodInitializing"), phase="Pending", initContainerStatuses=init)
    assert found.waits_for == "ErrImagePull: unauthorized"


def test_long_messages_are_cut() -> None:
    assert len(read(waiting("ErrImagePull", "x" * 5000)).waits_for) == 200


def test_a_container_that_has_completed_need_not_be_ready() -> None:
    done = {"name": "fetch", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    assert read({"name": "c", "ready": True}, done).since == AT_SECONDS
    failed = {"name": "fetch", "ready": False, "state": {"terminated": {"exitCode": 1}}}
    assert read({"name": "c", "ready": True}, failed).since is None


def test_a_pod_that_says_nothing_is_not_ready() -> None:
    assert readiness_of(WirePodStatus()) == PodReadiness(None, "", 0)
