"""Gangs with pods that do not get ready make room for others."""

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import wait_released
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox

WAITING = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "train"'}


def cannot_pull(sandbox: Sandbox, name: str) -> None:
    """What a kubelet says of a pod with an image that is not there."""
    container = {"name": "main", "image": "train", "imageID": "", "ready": False, "restartCount": 0}
    status = {"containerStatuses": [{**container, "state": {"waiting": WAITING}}]}
    sandbox.api.merge(f"{path('Pod', sandbox.name, name)}/status", {"status": status})


def events(sandbox: Sandbox, name: str) -> list[str]:
    found = sandbox.api.get(path("Event", sandbox.name))["items"]
    return [each["reason"] for each in found if each["regarding"]["name"] == name]


def test_a_gang_that_cannot_pull_its_image_goes_back_whole_and_another_gets_its_place(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes(2)
    queue, patient = sandbox.add_queue(), sandbox.add_queue("patient")
    never = {"kwok.muster.dev/start-after": "1h"}
    sandbox.add(volcano_job(sandbox, "typo", 2, 8, annotations=never))
    for name in wait_released(sandbox, "typo-", 2):
        cannot_pull(sandbox, name)
    sandbox.merge("Queue", queue, {"spec": {"policy": {"readyWithin": "1s", "readyBackoffLimit": 0}}})
    # Of a queue that gives its pods the time that a busy machine takes.
    sandbox.add(volcano_job(sandbox, "next", 2, 8, queue=patient))
    sandbox.wait_running("next-", 2)
    message = sandbox.wait_reason("typo", "BackoffLimitExceeded")
    assert "typo-worker-0 (ImagePullBackOff: Back-off pulling image" in message
    assert sandbox.pods("typo-") == [], "it holds nothing"
    sandbox.wait(lambda: "BackoffLimitExceeded" in sandbox.told("Job", "typo"), "its status to say so")
    sandbox.wait(lambda: "BackoffLimitExceeded" in events(sandbox, "typo"), "an event to say so")

    sandbox.delete("Job", "next")
    sandbox.merge("Job", "typo", {"metadata": {"annotations": {"muster.dev/retry": "pushed"}}})
    wait_released(sandbox, "typo-", 2)
