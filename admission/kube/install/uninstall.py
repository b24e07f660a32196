"""Takes back what ``install`` applied, and first frees what waits, or leaves it, as told.

Users' objects are theirs: definitions that still have objects stay, unless told otherwise.
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.crds import remove_definitions
from admission.kube.install.drain import DrainMode, free_or_leave, let_return
from admission.kube.install.server_side_apply import StillThere, Tell, found_at, gone, items_of
from queues.api.kinds import PART_OF
from queues.errors import NotFound

_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in PART_OF.items())

_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"

#: Seconds for a namespace to go: Kubernetes tries again and again, ever more slowly, until nothing is in it.
_NAMESPACE_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What uninstalling takes away besides its own."""

    namespace: str = "muster-system"
    waiting: DrainMode = DrainMode.FREE
    #: Delete the definitions with all their objects: every Volcano Job, PodGroup and Queue.
    delete_crds: bool = False


async def uninstall(client: Client, removal: Removal, tell: Tell) -> None:
    """Take everything back. What was interrupted goes on when called again. Raises MusterError."""
    home = removal.namespace
    await let_return(client, tell)
    # Muster itself first: it would make wait, or release, what is being freed.
    await _delete_all(client, f"/apis/apps/v1/namespaces/{home}/deployments", tell)
    for half in ("mutating", "validating"):
        await _delete_all(client, f"{_REGISTRATION}/{half}webhookconfigurations", tell)
    for half in ("mutating", "validating"):
        for suffix in ("policybindings", "policies"):
            await _delete_all(client, f"{_REGISTRATION}/{half}admission{suffix}", tell)
    await free_or_leave(client, removal.waiting, tell)
    await remove_definitions(client, tell, with_objects=removal.delete_crds)
    for path in (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        f"{_RBAC}/clusterrolebindings",
        f"{_RBAC}/clusterroles",
        f"{_RBAC}/namespaces/{home}/rolebindings",
        f"{_RBAC}/namespaces/{home}/roles",
        f"/apis/policy/v1/namespaces/{home}/poddisruptionbudgets",
        f"/api/v1/namespaces/{home}/services",
        f"/api/v1/namespaces/{home}/secrets",
        f"/api/v1/namespaces/{home}/configmaps",
        f"/api/v1/namespaces/{home}/serviceaccounts",
    ):
        await _delete_all(client, path, tell)
    await _remove_namespace(client, home, tell)


# -- objects --------------------------------------------------------------------------------------------------


async def _delete_all(client: Client, path: str, tell: Tell) -> None:
    """Delete what carries our label, and wait until it is gone."""
    items = msgspec.json.decode(await client.get(path, labelSelector=_SELECTOR))["items"]
    noun = path.rsplit("/", 1)[1]
    # Muster's pods are to be gone as well.
    propagation: Literal["Foreground", "Background"] = "Foreground" if noun == "deployments" else "Background"
    for item in items:
        one = f"{path}/{item['metadata']['name']}"
        try:
            await client.delete(one, propagation=propagation)
            await gone(client, one)
        except NotFound:
            continue
        tell(f"{noun}/{item['metadata']['name']} deleted")


async def _remove_namespace(client: Client, name: str, tell: Tell) -> None:
    """Only if Muster made it and nothing of others is in it."""
    path = f"/api/v1/namespaces/{name}"
    namespace = await found_at(client, path)
    if namespace is None:
        return
    if not PART_OF.items() <= (namespace["metadata"].get("labels") or {}).items():
        tell(f"namespace/{name} kept: it was there before Muster")
        return
    for where, plural in (
        ("/api/v1", "pods"),
        ("/api/v1", "persistentvolumeclaims"),
        ("/api/v1", "services"),
        ("/api/v1", "secrets"),
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "statefulsets"),
        ("/apis/batch/v1", "jobs"),
    ):
        items = [
            item
            async for item in items_of(client, f"{where}/namespaces/{name}/{plural}")
            if not item["metadata"].get("deletionTimestamp") and item.get("type") != _TOKEN
        ]
        if items:
            tell(f"namespace/{name} kept: there is {plural}/{items[0]['metadata']['name']} in it")
            return
    await client.delete(path)
    try:
        await gone(client, path, within=_NAMESPACE_PATIENCE)
    except StillThere as still:
        # Nothing of Muster depends on it any more, and Kubernetes goes on by itself.
        tell(f"namespace/{name} is being deleted: not done after {still.facts['seconds']:g} seconds")
    else:
        tell(f"namespace/{name} deleted")


_TOKEN: Final = "kubernetes.io/service-account-token"
