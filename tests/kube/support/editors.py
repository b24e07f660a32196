"""Namespaces in which an ordinary user has the rights of ``edit``, in a cluster where the admission policies hold."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from admission.kube.client.client import Client, PatchKind
from admission.kube.install.rbac import people
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    CRDS,
    NAMESPACES,
    POD_GROUPS,
    ROLE_BINDINGS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.errors import ApiError
from tests.kube.support.cluster_objects import applied, becomes, exists, pod
from tests.kube.support.guarded_namespace import MUSTER

EDITOR = "erin"
_DEFINITIONS = Path(__file__).parents[3] / "deploy/chart/crds"


@dataclass(frozen=True)
class EditedNamespace:
    """A namespace, and the users who write into it: an editor with a certificate of her own, and Muster."""

    name: str
    editor: Client
    muster: Client

    async def create(self, resource: ApiResource, document: Document, *, by: Client | None = None) -> Any:
        """Create an object, as the editor unless somebody else is named. Raises ApiError."""
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        answer = await (by or self.editor).create(resource.path(self.name), {**kind, **document})
        return msgspec.json.decode(answer)

    async def change(
        self,
        resource: ApiResource,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
        by: Client | None = None,
    ) -> Any:
        """Merge a patch into an object; a list is a JSON patch. Raises ApiError."""
        path = resource.path(self.name, name, subresource)
        kind: PatchKind = "json" if isinstance(patch, list) else "merge"
        return msgspec.json.decode(await (by or self.editor).patch(path, patch, kind=kind))

    async def read(self, resource: ApiResource, **query: str) -> list[Any]:
        """Objects of a kind."""
        answer = await self.editor.get(resource.path(self.name), **query)
        return list(msgspec.json.decode(answer)["items"])


@asynccontextmanager
async def edited_namespaces(
    cluster: LocalCluster, metadata: Mapping[str, Document]
) -> AsyncIterator[dict[str, EditedNamespace]]:
    """Namespaces by name, each with more metadata. Volcano's kinds are known in the cluster from here on."""
    async with (
        await Client.connect(cluster.kubeconfig) as admin,
        await Client.connect(cluster.kubeconfig_for(EDITOR)) as editor,
        await Client.connect(cluster.kubeconfig_for(MUSTER, ("system:masters",))) as muster,
    ):
        await _define_volcanos_kinds(admin)
        for role in people():
            if role["kind"] == "ClusterRole":
                await applied(admin, role)
        for name, more in metadata.items():
            await admin.create(NAMESPACES.path(), {"metadata": {"name": name, **more}})
            await admin.create(ROLE_BINDINGS.path(name), _editing(name))
        places = {name: EditedNamespace(name, editor, muster) for name in metadata}
        for name in metadata:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            await becomes(lambda account=account: exists(admin, account))
            await becomes(lambda place=places[name]: _may_edit(place))
        yield places


def _editing(namespace: str) -> Document:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EDITOR}
    return ROLE_BINDINGS.document("editor", namespace, roleRef=role, subjects=[subject])


async def _define_volcanos_kinds(admin: Client) -> None:
    for path in _DEFINITIONS.glob("*volcano*.yaml"):
        definition = yaml.safe_load(path.read_text())
        if not await exists(admin, CRDS.path(name=definition["metadata"]["name"])):
            await admin.create(CRDS.path(), definition)


async def _may_edit(place: EditedNamespace) -> bool:
    """Kubernetes adds Muster's rights to ``edit`` by itself; policies know new kinds a few seconds later."""
    task = {"name": "main", "replicas": 1, "template": {"spec": pod("")["spec"]}}
    probes = (
        (POD_GROUPS, {"minMember": 1}),
        (VOLCANO_JOBS, {"minAvailable": 1, "tasks": [task]}),
    )
    try:
        for kind, spec in probes:
            answer = await place.editor.create(
                kind.path(place.name), kind.document("probe", place.name, spec=spec), dry_run=True
            )
            if b"muster.dev/user" not in answer:
                return False
    except ApiError:
        return False
    return True
