"""A queue that chooses between two flavors, one of nodes with a taint: with Kubernetes' own scheduler."""

from collections.abc import Callable, Iterator

import pytest

from queues.api.api_resources import FLAVORS
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import EACH_KIND, finish_all
from tests.e2e.support.manifests import batch_job, pod_spec, template_of
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox

TAINT = {"key": "example.com/reserved", "value": "fast", "effect": "NoSchedule"}
TOLERATION = {"key": "example.com/reserved", "operator": "Equal", "value": "fast", "effect": "NoSchedule"}
OWN = {"key": "example.com/own", "operator": "Exists"}


@pytest.fixture
def flavors(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    """A fast flavor, whose two nodes have a taint, and a slow one with two; the queue tries the fast one first."""
    names = []
    for kind, more in (("fast", {"tolerations": [TOLERATION]}), ("slow", {})):
        added = sandbox.add_nodes(2, gpus=2, kind=f"{sandbox.name}-{kind}")
        if kind == "fast":
            for node in added:
                sandbox.api.merge(path("Node", "", node), {"spec": {"taints": [TAINT]}})
        names.append(f"{sandbox.name}-{kind}")
        labels = {SANDBOX: sandbox.name, "kind": names[-1]}
        document = {
            "apiVersion": FLAVORS.api_version,
            "kind": FLAVORS.kind,
            "metadata": {"name": names[-1]},
            "spec": {"nodeLabels": labels, **more},
        }
        sandbox.api.create(FLAVORS.path(), document)
    fast, slow = names
    sandbox.add_queue(flavors=[{"name": each, "capability": {GPU: 4}} for each in names])
    yield fast, slow
    for name in names:
        sandbox.api.delete(FLAVORS.path(name=name))


def kinds(sandbox: Sandbox, prefix: str) -> set[str]:
    """The flavors of the nodes on which pods run."""
    nodes = set(sandbox.nodes_of(prefix).values())
    return {sandbox.api.get(path("Node", "", node))["metadata"]["labels"]["kind"] for node in nodes}


def tolerated(pod: Document) -> list[Document]:
    """What a pod tolerates, without what the API server adds to each."""
    found = pod["spec"].get("tolerations", [])
    return [each for each in found if not each.get("key", "").startswith("node.kubernetes.io/")]


@pytest.mark.parametrize("make", EACH_KIND)
def test_a_gang_gets_the_tolerations_of_the_flavor_that_it_is_admitted_to(
    sandbox: Sandbox, flavors: tuple[str, str], make: Callable[..., list[Document]]
) -> None:
    fast, slow = flavors
    first = make(sandbox, "first", 4, 1)
    template_of(first[-1])["spec"]["tolerations"] = [OWN]
    sandbox.add(*first)
    assert all(TOLERATION in tolerated(pod) for pod in sandbox.wait_running("first", 4))
    assert kinds(sandbox, "first") == {fast}
    assert OWN in tolerated(sandbox.running("first")[-1]), "what its user wrote"

    sandbox.add(*make(sandbox, "second", 3, 1))
    assert all(tolerated(pod) == [] for pod in sandbox.wait_running("second", 3)), "its nodes have no taint"
    assert kinds(sandbox, "second") == {slow}
    finish_all(sandbox, "first")
    finish_all(sandbox, "second")


def test_a_job_moves_between_flavors_with_the_tolerations_of_each(
    sandbox: Sandbox, flavors: tuple[str, str]
) -> None:
    """Resumed with one patch, then pod by pod, then with one patch again; a queue without the flavor stays off it."""
    _, slow = flavors
    other = sandbox.add_queue("other", flavors=[{"name": slow}])
    job = batch_job(sandbox, "train", 4)
    job["spec"]["template"]["spec"]["tolerations"] = [OWN]
    sandbox.add(job)
    sandbox.wait_running("train", 4)
    template = sandbox.get("batch/v1 Job", "train")["spec"]["template"]
    assert template["spec"]["tolerations"] == [OWN, TOLERATION], "the template names them"
    sandbox.merge("batch/v1 Job", "train", {"spec": {"template": {"spec": {"tolerations": [OWN]}}}})
    template = sandbox.get("batch/v1 Job", "train")["spec"]["template"]
    assert template["spec"]["tolerations"] == [OWN, TOLERATION], "its file was applied again"

    sandbox.merge("batch/v1 Job", "train", {"spec": {"suspend": True}})
    sandbox.wait(lambda: not sandbox.pods("train"), "its pods to go")
    blocker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "blocker"}}
    spec = {**pod_spec(sandbox.name, 2), "tolerations": [TOLERATION], "nodeName": sandbox.nodes[0]}
    sandbox.add({**blocker, "spec": spec})
    sandbox.wait_running("blocker", 1)
    sandbox.merge("batch/v1 Job", "train", {"spec": {"suspend": False}})
    assert all(tolerated(pod) == [OWN] for pod in sandbox.wait_running("train", 4))
    assert kinds(sandbox, "train") == {slow}
    template = sandbox.get("batch/v1 Job", "train")["spec"]["template"]
    assert template["spec"]["tolerations"] == [OWN]

    waiting = batch_job(sandbox, "waits", 2)
    waiting["metadata"]["labels"]["muster.dev/queue-name"] = other
    sandbox.add(waiting)
    sandbox.wait_reason("waits", "NoFit")
    finish_all(sandbox, "train")
    sandbox.wait_running("waits", 2)
    assert kinds(sandbox, "waits") == {slow}
    finish_all(sandbox, "waits")
    finish_all(sandbox, "blocker")
