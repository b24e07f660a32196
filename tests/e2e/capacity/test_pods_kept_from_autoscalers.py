"""Pods of a queue that keeps them from autoscalers say so when they run, however they were made."""

from collections.abc import Mapping

from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from queues.api.names import KEPT_FROM_AUTOSCALERS
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.e2e.users.test_lists import member

EVICT, DISRUPT = KEPT_FROM_AUTOSCALERS


def marks(sandbox: Sandbox) -> Mapping[str, tuple[str | None, str | None]]:
    """The values of both annotations, by the name of the pod's workload."""
    items = sandbox.api.get(path("Pod", sandbox.name))["items"]
    found = {}
    for each in items:
        if each["status"].get("phase") == "Running":
            metadata = each["metadata"]
            name = metadata["name"].split("-")[0]
            found[name] = (metadata["annotations"].get(EVICT), metadata["annotations"].get(DISRUPT))
    return found


def test_pods_of_all_kinds_are_kept_from_autoscalers_and_what_users_wrote_stays(
    sandbox: Sandbox, whole_stack: Stack
) -> None:
    sandbox.add_nodes(3)
    sandbox.add_queue(deserved={GPU: 24}, policy={"keepFromAutoscalers": True})
    own = {EVICT: "true"}
    with LocalClient(member(sandbox, "alice", sandbox.name)) as alice:
        for kind, document in (
            ("Job", volcano_job(sandbox, "volcano", 1)),
            ("Job", volcano_job(sandbox, "volcanoown", 1, annotations=own)),
            # On one node: its pods come up with what its template says.
            ("batch/v1 Job", batch_job(sandbox, "directed", 1)),
            ("batch/v1 Job", batch_job(sandbox, "directedown", 1, annotations=own)),
            # Larger than a node: its pods are let go one by one.
            ("batch/v1 Job", batch_job(sandbox, "gated", 2, 5)),
            ("Pod", bare_pod(sandbox, "bare")),
            ("Pod", bare_pod(sandbox, "bareown", annotations=own)),
        ):
            alice.create(path(kind, sandbox.name), document)
    names = ["volcano", "volcanoown", "directed", "directedown", "gated", "bare", "bareown"]
    sandbox.wait(lambda: set(names) <= marks(sandbox).keys(), "all of them to run")
    kept, left = ("false", "true"), ("true", "true")
    assert marks(sandbox) == {name: left if name.endswith("own") else kept for name in names}


def test_without_the_policy_pods_say_nothing_to_autoscalers(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    sandbox.add(volcano_job(sandbox, "volcano", 1), bare_pod(sandbox, "bare"))
    sandbox.add(pod_group(sandbox, "group", 1), grouped(sandbox, "group", "member"))
    sandbox.wait(lambda: len(marks(sandbox)) == 3, "all of them to run")
    assert set(marks(sandbox).values()) == {(None, None)}
