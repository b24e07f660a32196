"""The quotas of the chart, on an API server that asks for them as GKE's does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions
from deploy.local.helm import helm
from queues.errors import ApiError
from tests.unit.deploy.chart_rendering import SECRET, rendered
from tests.waiting import until

pytestmark = pytest.mark.long
#: Outside of kube-system, where every pod of a cluster may be.
LIMITED = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "ResourceQuotaConfiguration",
    "limitedResources": [
        {
            "resource": "pods",
            "matchScopes": [
                {
                    "scopeName": "PriorityClass",
                    "operator": "In",
                    "values": ["system-node-critical", "system-cluster-critical"],
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def api(
    kubernetes_binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalClient]:
    """The administrator of a control plane that limits the priority classes of the system."""
    file = tmp_path_factory.mktemp("admission") / "admission.yaml"
    plugins = [{"name": "ResourceQuota", "configuration": LIMITED}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(yaml.safe_dump({**kind, "plugins": plugins}))
    options = ClusterOptions(api_server_flags=(f"--admission-control-config-file={file}",))
    with LocalCluster(options=options) as cluster, cluster.client() as client:
        yield client


@pytest.mark.parametrize("owner", ["Deployment", "DaemonSet"])
def test_pods_of_the_system_come_in_by_their_quota_and_others_are_not_counted(
    api: LocalClient, owner: str
) -> None:
    made = rendered(helm(), *SECRET)
    ((name, spec),) = [(key[1], document["spec"]) for key, document in made.items() if key[0] == owner]
    (quota,) = [document for key, document in made.items() if key[:2] == ("ResourceQuota", name)]
    priority = spec["template"]["spec"]["priorityClassName"]
    home = f"/api/v1/namespaces/{name}"
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def refused(pod: str, **spec: str) -> str:
        """What the API server says against a pod; empty: nothing."""
        containers = [{"name": "main", "image": "muster"}]
        metadata = {"name": pod}
        document = {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}
        try:
            api.create(f"{home}/pods", {"apiVersion": "v1", **document})
        except ApiError as error:
            return str(error)
        return ""

    until(lambda: not refused("plain"), "the namespace to have its service account")
    assert "insufficient quota to match these scopes" in refused("critical", priorityClassName=priority)

    api.create(f"{home}/resourcequotas", quota)
    until(lambda: not refused("critical", priorityClassName=priority), "the quota to count")
    assert not refused("another")

    def used() -> Any:
        return api.get(f"{home}/resourcequotas/{quota['metadata']['name']}")["status"].get("used")

    until(lambda: used() == {"pods": "1"}, "the pod of the class, and no other, to be counted")
