"""Pods with volumes go where the real scheduler lets them: what it would refuse holds no seats."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.nodes import RACK
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import GangMaker, as_batch_job, as_volcano_job
from tests.e2e.support.manifests import template_of, volcano_job
from tests.e2e.support.sandbox import HOST, Sandbox

_STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES = "/api/v1/persistentvolumes"


class Storage:
    """Volumes, claims and storage classes of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._paths: list[str] = []

    def _create(self, path: str, document: Document) -> None:
        self._sandbox.api.create(path, document)
        self._paths.append(f"{path}/{document['metadata']['name']}")

    def add_class(self, name: str, **fields: Any) -> str:
        """A StorageClass; its whole name."""
        full = f"{self._sandbox.name}-{name}"
        base = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": full}}
        self._create(_STORAGE, base | {"provisioner": "kubernetes.io/no-provisioner"} | fields)
        return full

    def add_volume(self, name: str, class_: str, key: str, *values: str) -> str:
        """A PersistentVolume that can be used on nodes with these values of a label; its whole name."""
        full = f"{self._sandbox.name}-{name}"
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
        spec = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_,
            "local": {"path": "/mnt/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": full}, "spec": spec}
        self._create(_VOLUMES, document)
        return full

    def add_claim(self, name: str, class_: str, **spec: Any) -> None:
        """A PersistentVolumeClaim in the sandbox."""
        said = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_}
        said |= {"resources": {"requests": {"storage": "10Gi"}}} | spec
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{self._sandbox.name}/persistentvolumeclaims"
        self._create(path, document | {"spec": said})

    def wait_bound(self, claim: str) -> None:
        path = f"/api/v1/namespaces/{self._sandbox.name}/persistentvolumeclaims/{claim}"
        self._sandbox.wait(
            lambda: self._sandbox.api.get(path)["status"].get("phase") == "Bound", f"{claim} to be bound"
        )

    def remove(self) -> None:
        for path in reversed(self._paths):
            self._sandbox.api.delete(path)


@pytest.fixture
def storage(sandbox: Sandbox) -> Iterator[Storage]:
    found = Storage(sandbox)
    yield found
    found.remove()


def with_claims(document: Document, *claims: str) -> Document:
    """The same with these claims mounted into its pods."""
    template_of(document)["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    return document


def attempts(sandbox: Sandbox, name: str = "train") -> int:
    return len(sandbox.ledger.admissions(sandbox.name, name))


@pytest.mark.parametrize(
    ("gang", "mode"), [(as_volcano_job, "Immediate"), (as_batch_job, "WaitForFirstConsumer")]
)
def test_a_gang_with_a_local_volume_starts_on_its_node_at_once(
    sandbox: Sandbox, storage: Storage, gang: GangMaker, mode: str
) -> None:
    sandbox.add_nodes(6)
    sandbox.add_queue()
    class_ = storage.add_class("local", volumeBindingMode=mode)
    storage.add_volume("data", class_, HOST, sandbox.nodes[5])
    storage.add_claim("data", class_)
    if mode == "Immediate":
        storage.wait_bound("data")
    sandbox.add(*(with_claims(each, "data") for each in gang(sandbox, "train", 2, 1)))
    sandbox.wait_running("train-", 2)
    assert set(sandbox.nodes_of("train-").values()) == {sandbox.nodes[5]}
    assert attempts(sandbox) == 1


def test_a_volume_that_is_made_with_its_first_pod_is_made_where_its_class_allows(
    sandbox: Sandbox, storage: Storage
) -> None:
    sandbox.add_nodes(6)
    sandbox.add_queue()
    rack = sorted(sandbox.racks(sandbox.nodes[4:]))
    topologies = [{"matchLabelExpressions": [{"key": RACK, "values": rack}]}]
    class_ = storage.add_class(
        "racks", volumeBindingMode="WaitForFirstConsumer", provisioner="made.up", allowedTopologies=topologies
    )
    storage.add_claim("scratch", class_)
    sandbox.add(with_claims(volcano_job(sandbox, "train", 1), "scratch"))
    # Nothing makes the volume, so the pod is not bound; the scheduler has chosen the node.
    path = f"/api/v1/namespaces/{sandbox.name}/persistentvolumeclaims/scratch"
    chosen = "volume.kubernetes.io/selected-node"
    sandbox.wait(
        lambda: chosen in sandbox.api.get(path)["metadata"].get("annotations", {}), "a node to be chosen"
    )
    assert sandbox.api.get(path)["metadata"]["annotations"][chosen] in sandbox.nodes[4:]
    assert attempts(sandbox) == 1
