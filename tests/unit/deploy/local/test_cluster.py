"""A local control plane behaves as a real one: it schedules, it forgets nothing, it refuses strangers."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.nodes import NodeShape
from queues.errors import ApiError
from tests.cluster_faults import (
    count_requests,
    kill_node,
    pause_component,
    restart_api_server,
    resume_component,
    revive_node,
)
from tests.waiting import alive, until


@pytest.fixture(scope="module")
def namespace(local_cluster: LocalCluster) -> str:
    name = f"local-{uuid.uuid4().hex[:8]}"
    with local_cluster.client() as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    until(
        lambda: _exists(local_cluster, f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the namespace"
    )
    return name


@pytest.fixture(scope="module")
def nodes(local_cluster: LocalCluster) -> list[str]:
    shape = NodeShape(nodes_per_rack=2, racks_per_block=1, labels=(("pool", "local"),))
    return local_cluster.add_nodes(4, shape, prefix="local")


@pytest.fixture
def api(local_cluster: LocalCluster) -> Iterator[LocalClient]:
    with local_cluster.client() as api:
        yield api


def _exists(cluster: LocalCluster, path: str) -> bool:
    with cluster.client() as api:
        try:
            api.get(path)
        except ApiError:
            return False
        return True


def pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "annotations": {
                f"kwok.muster.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"pool": "local"},
            "containers": [
                {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
            ],
        },
    }


def phase(api: LocalClient, path: str) -> str:
    return str(api.get(path)["status"]["phase"])


def condition(api: LocalClient, path: str, kind: str) -> str | None:
    conditions = api.get(path)["status"].get("conditions", [])
    return next((entry["status"] for entry in conditions if entry["type"] == kind), None)


def test_nodes_are_grouped_and_have_gpus(api: LocalClient, nodes: list[str]) -> None:
    found = [api.get(f"/api/v1/nodes/{name}") for name in nodes]
    assert [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in found] == nodes
    assert len({node["metadata"]["labels"]["topology.muster.dev/rack"] for node in found}) >= 2
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in found} == {"8"}


def test_a_job_runs_to_its_end(api: LocalClient, namespace: str, nodes: list[str]) -> None:
    template = pod("unused", complete_after="100ms")
    del template["metadata"]["name"]
    job = {"metadata": {"name": "job"}, "spec": {"completions": 3, "parallelism": 3, "template": template}}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    api.create(jobs, job)
    until(lambda: condition(api, f"{jobs}/job", "Complete") == "True", "the job")


def test_a_pod_fails_with_its_exit_code(api: LocalClient, namespace: str, nodes: list[str]) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("fails", fail_after="50ms", exit_code="7"))
    until(lambda: phase(api, f"{pods}/fails") == "Failed", "the pod to fail")
    status = api.get(f"{pods}/fails")["status"]["containerStatuses"][0]
    assert status["state"]["terminated"]["exitCode"] == 7


def test_a_pod_with_helpers_runs(api: LocalClient, namespace: str, nodes: list[str]) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    document = pod("helped")
    document["spec"]["initContainers"] = [
        {"name": "1", "image": "none"},
        {"name": "sidecar", "image": "none", "restartPolicy": "Always"},
    ]
    api.create(pods, document)
    until(lambda: condition(api, f"{pods}/helped", "Ready") == "True", "the pod to run")
    first, sidecar = api.get(f"{pods}/helped")["status"]["initContainerStatuses"]
    assert first["state"]["terminated"]["reason"] == "Completed"
    assert "running" in sidecar["state"]


def test_a_deleted_pod_goes(
    local_cluster: LocalCluster, api: LocalClient, namespace: str, nodes: list[str]
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("goes"))
    until(lambda: condition(api, f"{pods}/goes", "Ready") == "True", "the pod to run")
    api.delete(f"{pods}/goes")
    until(lambda: not _exists(local_cluster, f"{pods}/goes"), "the pod to go")


def test_a_dead_node_is_noticed_and_comes_back(
    local_cluster: LocalCluster, api: LocalClient, nodes: list[str]
) -> None:
    path = f"/api/v1/nodes/{nodes[-1]}"
    kill_node(local_cluster, nodes[-1], report_unready=True)
    until(lambda: _tainted(api, path), "the node to be tainted")
    revive_node(local_cluster, nodes[-1])
    until(lambda: condition(api, path, "Ready") == "True" and not _tainted(api, path), "the node to be back")


def _tainted(api: LocalClient, path: str) -> bool:
    taints = api.get(path)["spec"].get("taints", [])
    return any(taint["key"] == "node.kubernetes.io/unreachable" for taint in taints)


def test_admission_policies_change_objects(api: LocalClient, namespace: str) -> None:
    policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
    expression = '[JSONPatch{op: "add", path: "/metadata/labels/seen", value: "yes"}]'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {
        "metadata": {"name": namespace},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": {"test": namespace}},
            },
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }
    api.create(f"{policies}ies", policy)
    api.create(f"{policies}ybindings", {"metadata": {"name": namespace}, "spec": {"policyName": namespace}})

    def changed() -> bool:
        document = {"metadata": {"generateName": "seen-", "labels": {"test": namespace}}}
        made = api.create(f"/api/v1/namespaces/{namespace}/configmaps", document)
        return bool(made["metadata"]["labels"].get("seen") == "yes")

    until(changed, "the policy to take effect")


def test_a_stranger_may_do_nothing(local_cluster: LocalCluster, namespace: str) -> None:
    kubeconfig = local_cluster.kubeconfig_for("stranger", ["nobody"])
    with LocalClient(kubeconfig) as stranger, pytest.raises(ApiError, match=r"403.*stranger"):
        stranger.get(f"/api/v1/namespaces/{namespace}/pods")


def test_a_crashed_api_server_comes_back_with_its_data(local_cluster: LocalCluster, namespace: str) -> None:
    url = local_cluster.url
    restart_api_server(local_cluster)
    assert local_cluster.url == url
    assert _exists(local_cluster, f"/api/v1/namespaces/{namespace}")


def test_a_paused_scheduler_binds_nothing_until_it_goes_on(
    local_cluster: LocalCluster, api: LocalClient, namespace: str, nodes: list[str]
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pause_component(local_cluster, "kube-scheduler")
    api.create(pods, pod("waits"))
    assert "nodeName" not in api.get(f"{pods}/waits")["spec"]
    resume_component(local_cluster, "kube-scheduler")
    until(lambda: condition(api, f"{pods}/waits", "Ready") == "True", "the pod to run")


def test_requests_are_counted(local_cluster: LocalCluster, api: LocalClient, namespace: str) -> None:
    before = count_requests(local_cluster)
    api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"generateName": "counted-"}})
    counted = count_requests(local_cluster) - before
    assert counted["admin", "create", "configmaps"] == 1


def test_a_killed_run_leaves_nothing_alive_and_a_kept_directory_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.local", "up", "--nodes", "2", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            assert "with 2 nodes" in run.stdout.readline()
            family = _descendants(run.pid)
            assert len(family) == 10, "five components, each with its supervisor"
        finally:
            run.kill()
    until(lambda: not any(alive(pid) for pid in family), "all processes to end")
    with LocalCluster(tmp_path) as again, again.client() as api:
        assert again.ensure_nodes(2) == []
        assert len(api.get("/api/v1/nodes")["items"]) == 2


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # this thread has ended
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in _descendants(child)]
