"""Tokens of the node agents' service account, bound to a Node as the token of a pod is, and access with them."""

import base64
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from admission.agent.cluster.api_client import ApiClient
from admission.api_connection import Access
from admission.kube.install.rbac import AGENT_ACCOUNT
from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.nodes import NodeShape
from queues.api.api_resources import NODES
from queues.api.names import AGENT_NAMESPACE
from tests.fakes.kubeconfigs import write_kubeconfig

_numbers = itertools.count(1)
_TOKENS = f"/api/v1/namespaces/{AGENT_NAMESPACE}/serviceaccounts/{AGENT_ACCOUNT}/token"


def agent_client(cluster: LocalCluster, folder: Path, node: Mapping[str, Any] | None) -> ApiClient:
    """What asks as the agent of a Node, with a token in a file; None: a token that names no node."""
    with cluster.client() as admin:
        token = agent_token(admin, node)
    name = "unbound" if node is None else node["metadata"]["name"]
    file = folder / f"{name}.token"
    file.write_text(token)
    return ApiClient(Access(server=cluster.url, authority=authority(cluster), token_file=file))


def agent_token(admin: LocalClient, node: Mapping[str, Any] | None) -> str:
    """A token of the account; with a Node: one that names it, as the token of a pod on that Node does."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if node is not None:
        named = {key: node["metadata"][key] for key in ("name", "uid")}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", **named}
    answer = admin.create(
        _TOKENS, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    )
    return str(answer["status"]["token"])


def authority(cluster: LocalCluster) -> str:
    """PEM text of the authority of a cluster's API server."""
    return (cluster.directory / "pki" / "ca.crt").read_text()


def device_definition() -> dict[str, Any]:
    """The definition of Devices."""
    path = Path(__file__).parents[3] / "deploy/chart/crds/scheduling.koordinator.sh_devices.yaml"
    read: dict[str, Any] = yaml.safe_load(path.read_text())
    return read


def two_nodes(cluster: LocalCluster) -> list[dict[str, Any]]:
    """New nodes, as the API server has them. The scheduler leaves them alone: other tests bind pods themselves."""
    names = cluster.add_nodes(2, NodeShape(cordoned=True), prefix=f"agents-{next(_numbers)}")
    with cluster.client() as admin:
        return [admin.get(NODES.path(name=name)) for name in names]


def agent_kubeconfig(cluster: LocalCluster, folder: Path, node: Mapping[str, Any]) -> Path:
    """A kubeconfig with a token of the agent of a Node: for an agent that runs as a process of its own."""
    with cluster.client() as admin:
        token = agent_token(admin, node)
    encoded = base64.b64encode(authority(cluster).encode()).decode()
    return write_kubeconfig(
        folder / "agent.kubeconfig",
        cluster.url,
        {"token": token},
        **{"certificate-authority-data": encoded},
    )
