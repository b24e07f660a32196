"""Muster's rights, one by one: with all of them each purpose is served, without its own it is not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from admission.kube.install.crds import apply_definitions
from admission.kube.install.rbac import AT_HOME, CONTROLLER, PROVISIONING, PolicyRule, provisioning_rbac, rbac
from admission.kube.install.server_side_apply import apply_all
from admission.kube.webhook.keyring import READ_API_SERVICE
from admission.workloads.kinds import OPERATOR_KINDS
from deploy.local.cluster import LocalCluster
from queues.api import api_resources
from queues.api.api_resources import ApiResource, path_of
from queues.api.names import BATCH_VOLCANO
from queues.errors import ApiRefused, Conflict, NotFound, TooManyRequests
from tests.kube.support.cluster_objects import becomes
from tests.kube.support.installation import NAMESPACE

IDENTITY = "rights"
HOME = NAMESPACE["metadata"]["name"]
#: The rights of Muster, and those for requests to cluster autoscalers, which come with an option.
ROLES = [*rbac(HOME, IDENTITY), *provisioning_rbac(IDENTITY)]
Ask = Callable[[Client], Awaitable[object]]


def _sees(resource: ApiResource) -> list[Ask]:
    async def lists(client: Client) -> object:
        return await client.get(resource.path(), limit=1)

    async def watches(client: Client) -> object:
        async for _ in client.watch(resource.path(), silence=5, timeoutSeconds=1):
            break
        return None

    return [lists, watches]


def _at(path: str) -> Ask:
    return lambda client: client.get(path)


def _creates(path: str) -> Ask:
    # Empty: whoever may not is told so before the object is looked at.
    return lambda client: client.create(path, {"metadata": {"name": "rights"}}, dry_run=True)


def _patches(path: str) -> Ask:
    return lambda client: client.patch(path, {"metadata": {"labels": {"muster.dev/rights": "x"}}})


def _deletes(path: str) -> Ask:
    return lambda client: client.delete(path)


async def _owns(client: Client) -> object:
    """The API server looks at the owner's kind, not whether there is one."""
    owner = {"apiVersion": BATCH_VOLCANO, "kind": "Job", "name": "none", "uid": "1", "controller": True}
    metadata = {"name": "rights", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    return await client.create("/api/v1/namespaces/default/configmaps", {"metadata": metadata}, dry_run=True)


def _in(resource: ApiResource, name: str = "none", subresource: str = "") -> str:
    namespace = "default" if resource.namespaced else None
    return resource.path(namespace, name, subresource)


def _companion(api: str, plural: str, *, follows: bool = False) -> list[Ask]:
    collection = f"{api}/namespaces/default/{plural}"
    asks = [_creates(collection), _at(f"{collection}/none")]
    return [*asks, _patches(f"{collection}/none")] if follows else asks


WEBHOOKS = [
    f"/apis/admissionregistration.k8s.io/v1/{half}webhookconfigurations/muster"
    for half in ("mutating", "validating")
] + ["/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster-tenants"]
SECRETS = f"/api/v1/namespaces/{HOME}/secrets"
#: What Muster asks the API server for, by purpose.
PURPOSES: dict[str, list[Ask]] = {
    "see-nodes": _sees(api_resources.NODES),
    "see-namespaces": _sees(api_resources.NAMESPACES),
    "see-pods": _sees(api_resources.PODS),
    "see-priorities": _sees(api_resources.PRIORITY_CLASSES),
    "see-jobs": _sees(api_resources.JOBS),
    "see-volcano-jobs": _sees(api_resources.VOLCANO_JOBS),
    "see-groups": _sees(api_resources.POD_GROUPS),
    "see-queues": _sees(api_resources.QUEUES),
    "see-commands": _sees(api_resources.COMMANDS),
    "delete-commands": [_deletes(_in(api_resources.COMMANDS))],
    "see-flavors": _sees(api_resources.FLAVORS),
    "see-topologies": _sees(api_resources.TOPOLOGIES),
    "see-closures": [*_sees(api_resources.RESERVATIONS), *_sees(api_resources.NODE_DRAINS)],
    "tell-closures": [
        _patches(_in(api_resources.RESERVATIONS, subresource="status")),
        _patches(_in(api_resources.NODE_DRAINS, subresource="status")),
    ],
    "read-a-closure": [_at(_in(api_resources.RESERVATIONS)), _at(_in(api_resources.NODE_DRAINS))],
    "see-kinds": _sees(api_resources.WORKLOAD_KINDS),
    "keep-kinds": [_patches(_in(api_resources.WORKLOAD_KINDS))],
    "tell-kinds": [_patches(_in(api_resources.WORKLOAD_KINDS, subresource="status"))],
    "see-policies": [_at(each.path()) for each in (*api_resources.POLICIES, *api_resources.POLICY_BINDINGS)],
    "see-checks": [*_sees(api_resources.ADMISSION_CHECKS), *_sees(api_resources.CHECK_REQUESTS)],
    "read-a-check": [_at(_in(api_resources.ADMISSION_CHECKS))],
    "tell-checks": [_patches(_in(api_resources.ADMISSION_CHECKS, subresource="status"))],
    "ask-checks": [
        _creates(_in(api_resources.CHECK_REQUESTS, name="")),
        _patches(_in(api_resources.CHECK_REQUESTS)),
        _deletes(_in(api_resources.CHECK_REQUESTS)),
    ],
    "take-nodes-out": [_at(_in(api_resources.NODES)), _patches(_in(api_resources.NODES))],
    "recover-nodes": [_creates(api_resources.JOBS.path("default")), _deletes(_in(api_resources.JOBS))],
    "read-recoveries": [_at(_in(api_resources.CRON_JOBS))],
    "see-node-devices": _sees(api_resources.DEVICES),
    "see-hypernodes": _sees(api_resources.HYPERNODES),
    "see-budgets": _sees(api_resources.BUDGETS),
    "see-quotas": _sees(api_resources.RESOURCE_QUOTAS),
    "see-limits": _sees(api_resources.LIMIT_RANGES),
    "see-runtimes": _sees(api_resources.RUNTIME_CLASSES),
    "see-webhooks": [ask for each in api_resources.WEBHOOK_CONFIGURATIONS for ask in _sees(each)],
    "see-volumes": [*_sees(api_resources.VOLUME_CLAIMS), *_sees(api_resources.VOLUMES)],
    "see-storage": [*_sees(api_resources.STORAGE_CLASSES), *_sees(api_resources.CSI_NODES)],
    "see-devices": [
        ask
        for each in (
            api_resources.DEVICE_CLASSES,
            api_resources.RESOURCE_SLICES,
            api_resources.CLAIM_TEMPLATES,
            api_resources.RESOURCE_CLAIMS,
        )
        for ask in _sees(each)
    ],
    "create-pods": [_creates(api_resources.PODS.path("default"))],
    "patch-pods": [_patches(_in(api_resources.PODS))],
    "evict-pods": [_creates(_in(api_resources.PODS, subresource="eviction"))],
    "delete-pods": [_deletes(_in(api_resources.PODS))],
    "read-a-pod": [_at(_in(api_resources.PODS))],
    "tell-pods": [_patches(_in(api_resources.PODS, subresource="status"))],
    "patch-jobs": [_patches(_in(api_resources.JOBS))],
    "tell-jobs": [_patches(_in(api_resources.JOBS, subresource="status"))],
    "read-a-job": [_at(_in(api_resources.JOBS))],
    "see-cron-jobs": _sees(api_resources.VOLCANO_CRON_JOBS),
    "see-flows": [*_sees(api_resources.JOB_FLOWS), *_sees(api_resources.JOB_TEMPLATES)],
    "start-volcano-jobs": [
        _creates(_in(api_resources.VOLCANO_JOBS, name="")),
        _deletes(_in(api_resources.VOLCANO_JOBS)),
    ],
    "tell-cron-jobs": [_patches(_in(api_resources.VOLCANO_CRON_JOBS, subresource="status"))],
    "read-a-cron-job": [_at(_in(api_resources.VOLCANO_CRON_JOBS))],
    "tell-flows": [
        _patches(_in(api_resources.JOB_FLOWS, subresource="status")),
        _patches(_in(api_resources.JOB_TEMPLATES, subresource="status")),
    ],
    "read-a-flow": [_at(_in(api_resources.JOB_FLOWS)), _at(_in(api_resources.JOB_TEMPLATES))],
    "tell-volcano-jobs": [_patches(_in(api_resources.VOLCANO_JOBS, subresource="status"))],
    "read-a-volcano-job": [_at(_in(api_resources.VOLCANO_JOBS))],
    "own-for-volcano-jobs": [_owns],
    "create-groups": [_creates(api_resources.POD_GROUPS.path("default"))],
    "resize-groups": [_patches(_in(api_resources.POD_GROUPS))],
    "remove-groups": [_deletes(_in(api_resources.POD_GROUPS))],
    "read-owners": [_at(_in(api_resources.REPLICA_SETS)), _at(_in(api_resources.STATEFUL_SETS))],
    "tell-groups": [_patches(_in(api_resources.POD_GROUPS, subresource="status"))],
    "read-a-group": [_at(_in(api_resources.POD_GROUPS))],
    "tell-queues": [_patches(_in(api_resources.QUEUES, subresource="status"))],
    "read-a-queue": [_at(_in(api_resources.QUEUES))],
    "create-services": _companion("/api/v1", "services"),
    "create-config-maps": _companion("/api/v1", "configmaps", follows=True),
    "create-secrets": [_creates("/api/v1/namespaces/default/secrets")],
    "create-claims": _companion("/api/v1", "persistentvolumeclaims"),
    "create-network-policies": _companion("/apis/networking.k8s.io/v1", "networkpolicies"),
    "tell-events": [_creates(api_resources.EVENTS.path("default"))],
    "publish-certificates": [ask for path in WEBHOOKS for ask in (_at(path), _patches(path))],
    "publish-read-api": [_at(READ_API_SERVICE), _patches(READ_API_SERVICE)],
    "know-users": [_creates("/apis/authentication.k8s.io/v1/tokenreviews")],
    "ask-rights": [_creates("/apis/authorization.k8s.io/v1/subjectaccessreviews")],
    "make-certificates": [_creates(SECRETS)],
    "keep-certificates": [
        _at(f"{SECRETS}/muster-webhook"),
        lambda client: client.replace(f"{SECRETS}/muster-webhook", {"metadata": {"name": "muster-webhook"}}),
    ],
    "see-requests": [lambda client: client.get(api_resources.PROVISIONING_REQUESTS.path(), limit=1)],
    "ask-for-nodes": [
        _creates(api_resources.PROVISIONING_REQUESTS.path("default")),
        _deletes(_in(api_resources.PROVISIONING_REQUESTS)),
    ],
    "describe-pods": [
        _creates(api_resources.POD_TEMPLATES.path("default")),
        _at(_in(api_resources.POD_TEMPLATES)),
        _deletes(_in(api_resources.POD_TEMPLATES)),
    ],
}
for description in OPERATOR_KINDS:
    served = description.resource
    for maker in description.suspended_with:
        PURPOSES.setdefault(f"hold-{maker.group}", []).append(_patches(_in(maker)))
    for purpose, asks in {
        "hold": [*_sees(served), _patches(_in(served)), _at(_in(served))],
        "tell": [_patches(_in(served, subresource="status"))],
    }.items():
        PURPOSES.setdefault(f"{purpose}-objects", []).extend(asks)
ALL = (CONTROLLER, AT_HOME, PROVISIONING)
#: The same right from the other role as well: creating secrets anywhere includes home.
INCLUDED = {"make-certificates"}


@dataclass(frozen=True)
class Trial:
    admin: Client
    muster: Client


@pytest_asyncio.fixture(scope="module")
async def trial(door_cluster: LocalCluster) -> AsyncIterator[Trial]:
    async with (
        await Client.connect(door_cluster.kubeconfig) as admin,
        await Client.connect(door_cluster.kubeconfig_for("rights")) as muster,
    ):
        await apply_definitions(admin, lambda line: None, adopt=False)
        await apply_all(admin, [NAMESPACE, *ROLES], lambda line: None)
        await becomes(lambda: _granted(muster, "see-nodes"))
        yield Trial(admin, muster)


async def _granted(client: Client, purpose: str) -> bool:
    return all([await _allowed(client, ask) for ask in PURPOSES[purpose]])


async def _allowed(client: Client, ask: Ask) -> bool:
    while True:
        try:
            await ask(client)
        except TooManyRequests:  # the API server begins to serve this kind
            continue
        except (NotFound, Conflict):
            return True
        except ApiRefused as error:
            return error.facts["status"] != 403
        return True


def test_muster_reads_no_secret_outside_its_namespace() -> None:
    for rule in CONTROLLER:
        assert "secrets" not in rule.resources or rule.verbs == ("create",)


def test_every_right_is_tried() -> None:
    assert {rule.purpose for rules in ALL for rule in rules} == {*PURPOSES}


@pytest.mark.parametrize("purpose", sorted(PURPOSES))
async def test_a_purpose_is_served_with_its_right_and_not_without(trial: Trial, purpose: str) -> None:
    # Who checks owners learns of new kinds up to half a minute late.
    await becomes(lambda: _granted(trial.muster, purpose))
    if purpose in INCLUDED:
        return
    (rules,) = (rules for rules in ALL if any(rule.purpose == purpose for rule in rules))
    await _set_rules(trial.admin, rules, without=purpose)
    try:
        for ask in PURPOSES[purpose]:
            await becomes(lambda ask=ask: _refused(trial.muster, ask))
    finally:
        await _set_rules(trial.admin, rules)
        await becomes(lambda: _granted(trial.muster, purpose))


async def _refused(client: Client, ask: Ask) -> bool:
    return not await _allowed(client, ask)


async def _set_rules(admin: Client, rules: tuple[PolicyRule, ...], *, without: str = "") -> None:
    documents = [rule.document() for rule in rules]
    role = next(one for one in ROLES if one.get("rules") == documents)
    kept: list[Any] = [rule.document() for rule in rules if rule.purpose != without]
    await admin.patch(path_of(role), {"rules": kept})
