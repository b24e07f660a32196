"""Rights for requests to cluster autoscalers: none without the option, and with it each is needed."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio

from admission.kube.client.client import Client
from admission.kube.install.install import Installation, install
from admission.kube.install.rbac import PROVISIONING, provisioning_rbac
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import POD_TEMPLATES, PROVISIONING_REQUESTS, ApiResource, path_of
from queues.errors import ApiRefused, NotFound
from tests.kube.support.cluster_objects import becomes

INSTALLATION = Installation(identity="asks-for-nodes")
ROLE, BINDING = provisioning_rbac(INSTALLATION.identity)
Ask = Callable[[Client], Awaitable[object]]


def _creates(resource: ApiResource) -> Ask:
    return lambda client: client.create(
        resource.path("default"), {"metadata": {"name": "none"}}, dry_run=True
    )


def _deletes(resource: ApiResource) -> Ask:
    return lambda client: client.delete(resource.path("default", "none"))


PURPOSES: dict[str, list[Ask]] = {
    "see-requests": [lambda client: client.get(PROVISIONING_REQUESTS.path(), limit=1)],
    "ask-for-nodes": [_creates(PROVISIONING_REQUESTS), _deletes(PROVISIONING_REQUESTS)],
    "describe-pods": [
        _creates(POD_TEMPLATES),
        lambda client: client.get(POD_TEMPLATES.path("default", "none")),
        _deletes(POD_TEMPLATES),
    ],
}


@pytest_asyncio.fixture(scope="module")
async def clients(door_cluster: LocalCluster) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        await Client.connect(door_cluster.kubeconfig) as admin,
        await Client.connect(door_cluster.kubeconfig_for(INSTALLATION.identity)) as muster,
    ):
        await install(admin, INSTALLATION, lambda line: None)
        yield admin, muster
        for document in (BINDING, ROLE):
            await admin.delete(path_of(document))
        await install(admin, Installation(), lambda line: None)


async def _may(client: Client, purpose: str) -> list[bool]:
    found = []
    for ask in PURPOSES[purpose]:
        try:
            await ask(client)
        except NotFound:
            found.append(True)  # no such object, or the cluster has no such kind
        except ApiRefused as error:
            found.append(error.facts["status"] != 403)
        else:
            found.append(True)
    return found


def test_every_right_is_tried() -> None:
    assert {rule.purpose for rule in PROVISIONING} == {*PURPOSES}


async def test_rights_come_with_the_option_and_each_serves_its_purpose(
    clients: tuple[Client, Client],
) -> None:
    admin, muster = clients
    for purpose in PURPOSES:
        assert not any(await _may(muster, purpose)), purpose

    wanted = Installation(identity=INSTALLATION.identity, provisioning=True)
    await install(admin, wanted, lambda line: None)

    async def has(purpose: str, expected: bool) -> bool:
        found = await _may(muster, purpose)
        return all(found) if expected else not any(found)

    for purpose in PURPOSES:
        await becomes(lambda purpose=purpose: has(purpose, True))
    for rule in PROVISIONING:
        kept = [each.document() for each in PROVISIONING if each is not rule]
        await admin.patch(path_of(ROLE), {"rules": kept})
        await becomes(lambda rule=rule: has(rule.purpose, False))
        await admin.patch(path_of(ROLE), {"rules": [each.document() for each in PROVISIONING]})
