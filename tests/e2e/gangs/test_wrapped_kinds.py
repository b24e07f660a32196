"""Objects that an object in a queue contains, or that its operator makes: they wait and run with it."""

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, batch_job, template
from tests.e2e.support.operators import Operator
from tests.e2e.support.sandbox import Sandbox
from tests.node_affinity import pinned_nodes

WRAPPER = "workload.codeflare.dev/v1beta2"


def deployment(sandbox: Sandbox, pods: int) -> Document:
    made = template(sandbox.name, 4)
    made["metadata"]["labels"] = {"app": "web"}
    made["spec"].pop("restartPolicy")
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": pods, "selector": selector, "template": made},
    }


def created_by_operator(wrapper: Document, index: int) -> Document:
    """A component as the operator creates it: controlled, with its ``podSetInfos`` in its template."""
    component = wrapper["spec"]["components"][index]
    made: Document = component["template"]
    [info] = component["podSetInfos"]
    metadata = made["spec"]["template"].setdefault("metadata", {})
    for field in ("labels", "annotations"):
        metadata[field] = {**metadata.get(field, {}), **info[field]}
    uid = wrapper["metadata"]["uid"]
    owner = {"apiVersion": WRAPPER, "kind": "AppWrapper", "name": "all", "uid": uid, "controller": True}
    # A Job without a label would get those of its pods from the API server.
    own = {"labels": {"workload.codeflare.dev/appwrapper": "all"}, "ownerReferences": [owner]}
    made["metadata"] = {**made["metadata"], **own}
    return made


def test_what_an_app_wrapper_contains_waits_and_runs_with_it_as_one_gang(
    sandbox: Sandbox, operators: None
) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    sandbox.api.merge(
        path("Namespace", "", sandbox.name), {"metadata": {"labels": {"muster.dev/gated": "true"}}}
    )
    sandbox.add(bare_pod(sandbox, "first", 4))
    sandbox.wait_running("first", 1)
    job = batch_job(sandbox, "train", 2, 4)
    job["metadata"] = {"name": "train"}
    wrapper = {
        "apiVersion": WRAPPER,
        "kind": "AppWrapper",
        "metadata": {"name": "all", "labels": {"muster.dev/queue-name": queue}},
        "spec": {"components": [{"template": deployment(sandbox, 2)}, {"template": job}]},
    }
    with Operator(sandbox, "AppWrapper", lambda document: []).playing():
        [made] = sandbox.add(wrapper)
        assert made["spec"]["suspend"] is True
        sandbox.wait(lambda: sandbox.reason("all")[0] == "NoFit", "it to wait", seconds=60)
        with pytest.raises(ApiError, match="expected true until Muster admits"):
            sandbox.merge("AppWrapper", "all", {"spec": {"suspend": False}})

        finish_all(sandbox, "first")
        sandbox.wait(lambda: not sandbox.get("AppWrapper", "all")["spec"]["suspend"], "it to be admitted")
        resumed = sandbox.get("AppWrapper", "all")
        for index in (0, 1):
            [child] = sandbox.add(created_by_operator(resumed, index))
            assert not child["spec"].get("suspend"), "a Job in it does not wait for seats of its own"
        pods = [*sandbox.wait_running("web-", 2), *sandbox.wait_running("train-", 2)]
        assert all(pinned_nodes(pod["spec"]) == {pod["spec"]["nodeName"]} for pod in pods)
        seats = {pod["metadata"]["annotations"]["muster.dev/seat"] for pod in pods}
        assert seats == {"deployment-0/0", "deployment-0/1", "job-1/0", "job-1/1"}
        assert sandbox.held().get(f"queue {queue} nvidia.com/gpu") == 16000

        sandbox.delete("AppWrapper", "all")
        sandbox.wait_free()
