"""Removes what ``install`` applied, and first frees what waits or leaves it, as the administrator chose.

Objects of users are theirs: definitions that still have objects stay, unless the administrator wants them deleted.
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.crds import remove_definitions
from admission.kube.install.drain import DrainMode, free_or_leave, let_return
from admission.kube.install.existing_installation import existing_installation
from admission.kube.install.rbac import PROXY_NAMESPACE, TENANT_ADMIN
from admission.kube.install.server_side_apply import StillThere, Tell, found_at, gone, items_of
from admission.kube.install.workload_kinds import release_kinds
from queues.api.api_resources import (
    API_SERVICES,
    BUDGETS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    PART_OF,
    PART_OF_SELECTOR,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    WEBHOOK_CONFIGURATIONS,
    ApiResource,
)
from queues.api.names import AGENT_NAMESPACE
from queues.api.workload_kinds import OPERATOR_KINDS
from queues.errors import NotFound

#: Seconds for a namespace to go: Kubernetes tries again and again, ever more slowly, until nothing is in it.
_NAMESPACE_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What uninstalling removes besides what Muster installed."""

    namespace: str = "muster-system"
    waiting: DrainMode = DrainMode.FREE
    #: Delete the definitions with all their objects: every Volcano Job, PodGroup and Queue.
    delete_crds: bool = False


async def uninstall(client: Client, removal: Removal, tell: Tell) -> None:
    """Remove everything. An interrupted removal goes on when called again. Raises MusterError."""
    home = removal.namespace
    existing = await existing_installation(client)
    existing.require_namespace(home)
    await let_return(client, tell)
    # Muster itself first: it would make wait, or release, what is being freed. Before it what depends on it: while an
    # API that is announced does not answer, no namespace can be deleted.
    await _delete_all(client, API_SERVICES, None, tell)
    await _delete_all(client, DEPLOYMENTS, home, tell)
    await _delete_all(client, DAEMON_SETS, AGENT_NAMESPACE, tell)
    # Without the webhook nothing would hold a tenant's administrators to the tenant.
    await _delete_one(client, CLUSTER_ROLES.path(name=TENANT_ADMIN), tell)
    for webhooks in WEBHOOK_CONFIGURATIONS:
        await _delete_all(client, webhooks, None, tell)
    for bindings, policies in zip(POLICY_BINDINGS, POLICIES, strict=True):
        await _delete_all(client, bindings, None, tell)
        await _delete_all(client, policies, None, tell)
    added = await release_kinds(client, tell)
    await free_or_leave(client, removal.waiting, [*OPERATOR_KINDS, *added], tell)
    await remove_definitions(client, tell, with_objects=removal.delete_crds)
    for resource in (
        PRIORITY_CLASSES,
        CLUSTER_ROLE_BINDINGS,
        CLUSTER_ROLES,
        ROLE_BINDINGS,
        ROLES,
        BUDGETS,
        NETWORK_POLICIES,
        RESOURCE_QUOTAS,
        SERVICES,
        SECRETS,
        CONFIG_MAPS,
        SERVICE_ACCOUNTS,
    ):
        await _delete_all(client, resource, home if resource.namespaced else None, tell)
    await _delete_all(client, ROLE_BINDINGS, PROXY_NAMESPACE, tell)
    for resource in (ROLE_BINDINGS, ROLES, NETWORK_POLICIES, SERVICE_ACCOUNTS, LEASES):
        await _delete_all(client, resource, AGENT_NAMESPACE, tell)
    await _remove_namespace(client, AGENT_NAMESPACE, tell)
    await _remove_namespace(client, home, tell)
    if existing.release is not None:
        tell(f"The Helm release is left: helm uninstall {existing.release} --namespace {home}")


# -- objects --------------------------------------------------------------------------------------------------


async def _delete_all(client: Client, resource: ApiResource, namespace: str | None, tell: Tell) -> None:
    """Delete the objects that carry Muster's label, and wait until they are gone."""
    answer = await client.get(resource.path(namespace), labelSelector=PART_OF_SELECTOR)
    # Muster's pods are to be gone as well.
    propagation: Literal["Foreground", "Background"] = (
        "Foreground" if resource in (DEPLOYMENTS, DAEMON_SETS) else "Background"
    )
    for item in msgspec.json.decode(answer)["items"]:
        one = resource.path(namespace, item["metadata"]["name"])
        try:
            await client.delete(one, propagation=propagation)
            await gone(client, one)
        except NotFound:
            continue
        tell(f"{resource.plural}/{item['metadata']['name']} deleted")


async def _delete_one(client: Client, path: str, tell: Tell) -> None:
    """Delete an object if it is there and carries Muster's label."""
    found = await found_at(client, path)
    if found is None or not PART_OF.items() <= (found["metadata"].get("labels") or {}).items():
        return
    await client.delete(path)
    tell(f"{path.rpartition('/')[0].rpartition('/')[2]}/{found['metadata']['name']} deleted")


async def _remove_namespace(client: Client, name: str, tell: Tell) -> None:
    """Remove the namespace if Muster made it and only Muster's objects are in it."""
    path = NAMESPACES.path(name=name)
    namespace = await found_at(client, path)
    if namespace is None:
        return
    if not PART_OF.items() <= (namespace["metadata"].get("labels") or {}).items():
        tell(f"namespace/{name} kept: it was there before Muster")
        return
    for resource in (PODS, VOLUME_CLAIMS, SERVICES, SECRETS, DEPLOYMENTS, STATEFUL_SETS, JOBS):
        items = [
            item
            async for item in items_of(client, resource.path(name))
            if not item["metadata"].get("deletionTimestamp") and item.get("type") != _TOKEN
        ]
        if items:
            tell(f"namespace/{name} kept: there is {resource.plural}/{items[0]['metadata']['name']} in it")
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
