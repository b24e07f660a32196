"""A user cannot use another team's queue, nor evict from it by a priority class, of the system or not."""

from collections.abc import Iterator

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


@pytest.fixture
def bobs(sandbox: Sandbox) -> Iterator[str]:
    """Bob's namespace. The sandbox's own is Alice's."""
    name = f"{sandbox.name}-bob"
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    sandbox.api.create(path("Namespace", ""), document)
    yield name
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    sandbox.api.request("DELETE", path("batch/v1 Job", name), options)
    sandbox.wait(lambda: not uids(sandbox, name), "the last of Bob's pods to go")
    sandbox.api.delete(path("Namespace", "", name))


@pytest.fixture
def highest(sandbox: Sandbox) -> str:
    """A priority class with the highest value that users may have."""
    return sandbox.add_priority_class(1_000_000_000)


def job(sandbox: Sandbox, name: str, queue: str, priority_class: str) -> Document:
    """As much work as the sandbox has room for."""
    document = batch_job(sandbox, name, 2, 8)
    document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    document["spec"]["template"]["spec"]["priorityClassName"] = priority_class
    return document


def uids(sandbox: Sandbox, namespace: str, phase: str = "") -> set[str]:
    """Pods of a namespace, in this phase or any."""
    pods: list[Document] = sandbox.api.get(path("Pod", namespace))["items"]
    return {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase", "").startswith(phase)}


def test_alice_can_neither_use_bobs_queue_nor_evict_from_it_by_her_priority(
    sandbox: Sandbox, bobs: str, highest: str
) -> None:
    sandbox.add_nodes(2)
    only_bob = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bobs}}}
    queue = sandbox.add_queue("bob", deserved={GPU: 16}, access=only_bob)
    own = sandbox.add_queue("alice", deserved={GPU: 0}, policy={"maxPriority": 10})
    sandbox.api.create(path("batch/v1 Job", bobs), batch_job(sandbox, "work", 2, 8))
    sandbox.wait(lambda: len(uids(sandbox, bobs, "Running")) == 2, "Bob's pods to run")
    before = uids(sandbox, bobs)

    with sandbox.as_user("alice") as alice:
        with pytest.raises(ApiError, match="classes of the system are not for work in queues"):
            alice.create(
                path("batch/v1 Job", sandbox.name), job(sandbox, "thief", queue, "system-cluster-critical")
            )
        alice.create(path("batch/v1 Job", sandbox.name), job(sandbox, "thief", queue, highest))
        alice.create(path("batch/v1 Job", sandbox.name), job(sandbox, "urgent", own, highest))

    told = sandbox.wait_reason("thief", "NotAllowed")
    assert f"metadata.namespace: found {sandbox.name}, which has" in told
    assert told in sandbox.explain("thief")
    sandbox.wait_reason("urgent", "NoFit")
    assert f"1000000000 counts as 10 (policy.maxPriority of queue {own})" in sandbox.explain("urgent")
    assert uids(sandbox, bobs, "Running") == before
    assert "evict" not in {kind for kind, _, _ in sandbox.ledger.decisions(bobs, "work")}


def test_a_user_who_has_as_much_as_one_user_may_use_waits_and_others_do_not(sandbox: Sandbox) -> None:
    sandbox.add_nodes(3)
    top = sandbox.add_queue("top", access={"maxPerUser": {GPU: "8"}})
    queue = sandbox.add_queue("leaf", parent=top)

    def work(name: str) -> Document:
        document = batch_job(sandbox, name, 1, 8)
        document["metadata"]["labels"]["muster.dev/queue-name"] = queue
        return document

    with sandbox.as_user("alice") as alice, sandbox.as_user("bob") as bob:
        alice.create(path("batch/v1 Job", sandbox.name), work("first"))
        sandbox.wait_running("first", 1)
        alice.create(path("batch/v1 Job", sandbox.name), work("second"))
        told = sandbox.wait_reason("second", "UserLimit")
        bob.create(path("batch/v1 Job", sandbox.name), work("third"))
        sandbox.wait_running("third", 1)
        assert told == f"one user may use 8 {GPU} in queue {top}: alice uses 8, 8 asked"
        explained = sandbox.explain("second")
        assert told in explained
        assert f"8 {GPU} less in use by alice in queue {top}" in explained
        sandbox.delete("batch/v1 Job", "first")
        sandbox.wait_running("second", 1)
