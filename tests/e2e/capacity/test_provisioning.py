"""A gang that waits for nodes has an autoscaler asked for them, and starts when they are there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from queues.api.api_resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox
from tests.waiting import until

DEFINITION = Path(__file__).parents[1] / "support" / "provisioning_requests.yaml"
ANSWERED = "2026-11-21T10:00:00Z"
CLASS = "check-capacity.autoscaling.x-k8s.io"


@pytest.fixture
def autoscaled(whole_stack: Stack) -> Iterator[None]:
    """A cluster with the definition of an autoscaler's requests, and Muster with the rights for them."""
    whole_stack.apply(DEFINITION)
    whole_stack.install("--provisioning")
    with whole_stack.cluster.client() as api:
        until(lambda: _is_served(api), "the requests to be served")
    yield
    whole_stack.kubectl("delete", "-f", DEFINITION)


def _is_served(api: LocalClient) -> bool:
    try:
        api.get(PROVISIONING_REQUESTS.path())
    except ApiError:
        return False
    return True


def requests(sandbox: Sandbox) -> list[Document]:
    found: list[Document] = sandbox.api.get(PROVISIONING_REQUESTS.path(sandbox.name))["items"]
    return found


def templates(sandbox: Sandbox) -> list[Document]:
    found: list[Document] = sandbox.api.get(POD_TEMPLATES.path(sandbox.name))["items"]
    return found


def provision(sandbox: Sandbox, request: Document) -> None:
    """What an autoscaler does: as many nodes as the pods need, then the condition."""
    wanted = 0
    for each in request["spec"]["podSets"]:
        place = POD_TEMPLATES.path(sandbox.name, each["podTemplateRef"]["name"])
        spec = sandbox.api.get(place)["template"]["spec"]
        assert spec["nodeSelector"] == {SANDBOX: sandbox.name}
        [container] = spec["containers"]
        assert container["resources"]["limits"][GPU] == container["resources"]["requests"][GPU] == "8"
        wanted += each["count"]
    sandbox.add_nodes(wanted - len(sandbox.nodes))
    answer(sandbox, request["metadata"]["name"], "Provisioned", "there is room")


def answer(sandbox: Sandbox, request: str, kind: str, message: str) -> None:
    """The autoscaler's condition, as of a time that is long ago."""
    condition: dict[str, Any] = {
        "type": kind,
        "status": "True",
        "lastTransitionTime": ANSWERED,
        "reason": "Answered",
        "message": message,
    }
    place = PROVISIONING_REQUESTS.path(sandbox.name, request, "status")
    sandbox.api.merge(place, {"status": {"conditions": [condition]}})


def test_a_gang_that_waits_for_nodes_asks_for_them_and_starts_when_they_come(
    sandbox: Sandbox, autoscaled: None
) -> None:
    sandbox.add_nodes(1)
    rules = {"className": CLASS, "parameters": {"ValidUntilSeconds": "600"}, "timeout": "5m"}
    sandbox.add_queue(deserved={GPU: 64}, capability={GPU: 64}, policy={"provisioning": rules})
    alice = Person(sandbox, "alice", edits=(sandbox.name,))
    with alice.client() as user:
        for name, pods in (("train", 3), ("too-much", 9)):
            user.create(path("Job", sandbox.name), volcano_job(sandbox, name, pods, 8))
    sandbox.wait_reason("train", "NoFit")
    # Quota is what this one lacks.
    sandbox.wait_reason("too-much", "NeverFits")

    sandbox.wait(lambda: bool(requests(sandbox)), "nodes to be asked for")
    sandbox.wait_reason("train", "Provisioning")
    [request] = requests(sandbox)
    train = sandbox.get("Job", "train")["metadata"]
    [owner] = request["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("train", train["uid"])
    assert request["spec"]["provisioningClassName"] == CLASS
    assert request["spec"]["parameters"] == {"ValidUntilSeconds": "600"}
    assert [each["count"] for each in request["spec"]["podSets"]] == [3]
    name = request["metadata"]["name"]
    [waiting] = [one for one in alice.json("pending", "-n", sandbox.name)["items"] if one["name"] == "train"]
    told = waiting["reason"]["facts"]["provisioning"]
    assert (waiting["reason"]["code"], told["request"], told["phase"]) == ("Provisioning", name, "Open")
    explained = " ".join(alice.does("explain", "train", "-n", sandbox.name).split())
    assert f"nodes are asked for by ProvisioningRequest {name} since {told['since']}" in explained
    assert f"given up at {told['until']}" in explained

    answer(sandbox, name, "Failed", "no quota")
    sandbox.wait(lambda: "asked again from" in sandbox.reason("train")[1], "the failure to be told")
    code, message = sandbox.reason("train")
    assert code == "NoFit"
    assert f"ProvisioningRequest {name} ended at {ANSWERED}: Failed (no quota)" in message
    # Its pause has been over for long: there is a second attempt.
    sandbox.wait(
        lambda: [each["metadata"]["name"] for each in requests(sandbox)] not in ([], [name]), "another"
    )
    [request] = requests(sandbox)
    sandbox.wait_reason("train", "Provisioning")

    provision(sandbox, request)
    sandbox.wait_running("train-", 3)
    sandbox.wait(lambda: not requests(sandbox) and not templates(sandbox), "the request to go")
    assert sandbox.reason("too-much")[0] == "NeverFits"
