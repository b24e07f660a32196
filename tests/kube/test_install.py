"""Installing into a real control plane, and taking everything back."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube import install as module
from admission.kube.client import Client
from admission.kube.definitions import DefinitionsOfOthers
from admission.kube.documents import path_of
from admission.kube.install import Installation, ServerTooOld, install
from admission.kube.left_waiting import Waiting
from admission.kube.objects import QUEUES
from admission.kube.pausing import UnknownQueue, set_paused
from admission.kube.uninstall import Removal, uninstall
from deploy.local.cluster import LocalCluster
from queues.errors import NotFound, Refused
from queues.spec.crd import crds
from tests.kube.objects import batch_job, becomes, exists, pod

INSTALLATION = Installation(webhook_url="https://127.0.0.1:9")
REMOVAL = Removal()
HOME = "/api/v1/namespaces/muster-system"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUED = {"muster.dev/queue-name": "default"}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
#: Everywhere that something of Muster may lie.
COLLECTIONS = (
    *(
        f"{REGISTRATION}/{half}admission{suffix}"
        for half in ("mutating", "validating")
        for suffix in ("policies", "policybindings")
    ),
    *(f"{REGISTRATION}/{half}webhookconfigurations" for half in ("mutating", "validating")),
    *(
        f"/apis/rbac.authorization.k8s.io/v1/{plural}"
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api/v1/serviceaccounts",
    "/api/v1/secrets",
    "/api/v1/services",
)


@pytest.fixture(scope="module")
def install_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@pytest_asyncio.fixture
async def client(install_cluster: LocalCluster) -> AsyncIterator[Client]:
    """An administrator. Muster is installed or not: that takes seconds, so tests do it only if need be."""
    async with await Client.connect(install_cluster.kubeconfig) as one:
        await one.delete(JOBS, propagation="Background")
        await becomes(lambda: _cleared(one))
        await becomes(lambda: _usable(one, HOME), within=300)
        yield one


@pytest_asyncio.fixture
async def bare(client: Client) -> Client:
    """An administrator of a cluster without Muster, but for the namespace: deleting one takes seconds."""
    await uninstall(client, Removal(delete_crds=True), lambda line: None)
    await becomes(lambda: _usable(client, HOME), within=300)
    if not await exists(client, HOME):
        await client.create("/api/v1/namespaces", NAMESPACE)
    return client


async def _cleared(client: Client) -> bool:
    """Whether no pod is left; if some are, they are deleted without waiting for Kubernetes to do its part.

    Its garbage collector stands still for a while whenever definitions come and go.
    """
    pods = msgspec.json.decode(await client.get(PODS))["items"]
    for one in pods:
        path = f"{PODS}/{one['metadata']['name']}"
        try:
            await client.patch(path, {"metadata": {"finalizers": None}})
            await client.delete(path, grace=0)
        except NotFound:
            continue
    return not pods and not msgspec.json.decode(await client.get(JOBS))["items"]


async def _usable(client: Client, namespace: str) -> bool:
    """Whether a namespace is not just being deleted, by the test before."""
    try:
        return bool(msgspec.json.decode(await client.get(namespace))["status"]["phase"] == "Active")
    except NotFound:
        return True


async def _installed(client: Client, installation: Installation = INSTALLATION) -> list[str]:
    lines: list[str] = []
    await install(client, installation, lines.append)
    return lines


async def _removed(client: Client, removal: Removal = REMOVAL) -> list[str]:
    lines: list[str] = []
    await uninstall(client, removal, lines.append)
    return lines


async def _of_muster(client: Client) -> dict[str, Any]:
    """Path → version of everything labelled as part of Muster."""
    found = {}
    for collection in COLLECTIONS:
        answer = await client.get(collection, labelSelector="app.kubernetes.io/part-of=muster")
        for item in msgspec.json.decode(answer)["items"]:
            metadata = item["metadata"]
            # Kubernetes itself writes statuses, as it likes; the generation counts changes of the rest.
            found[f"{collection}/{metadata['name']}"] = (
                metadata.get("generation") or metadata["resourceVersion"]
            )
    return found


async def test_installing_twice_changes_nothing(bare: Client) -> None:
    lines = await _installed(bare)
    assert [line for line in lines if not line.endswith(" created")] == ["namespace/muster-system unchanged"]
    before = await _of_muster(bare)
    assert {path.split("/")[3 if path.startswith("/api/") else 4] for path in before} >= {
        "customresourcedefinitions",
        "clusterroles",
        "secrets",
        "mutatingadmissionpolicies",
        "validatingadmissionpolicies",
        "mutatingwebhookconfigurations",
    }
    lines = await _installed(bare)
    assert [line for line in lines if not line.endswith(" unchanged")] == []
    assert await _of_muster(bare) == before


async def test_what_somebody_changed_is_put_right_by_installing_again(client: Client) -> None:
    await _installed(client)
    path = f"{REGISTRATION}/validatingadmissionpolicies/muster-guard-pods"
    await client.patch(path, {"spec": {"failurePolicy": "Ignore"}})
    assert "validatingadmissionpolicy/muster-guard-pods configured" in await _installed(client)
    assert msgspec.json.decode(await client.get(path))["spec"]["failurePolicy"] == "Fail"


async def test_queues_that_administrators_changed_stay_as_they_are(client: Client) -> None:
    await _installed(client)
    await client.patch(QUEUES.path(name="default"), {"spec": {"weight": 7}})
    await _installed(client)
    assert (await _queue(client, "default"))["spec"]["weight"] == 7


async def test_things_wait_as_soon_as_install_returns(client: Client) -> None:
    await _installed(client)
    made = msgspec.json.decode(await client.create(PODS, pod("a", labels=QUEUED)))
    assert made["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]


async def test_uninstalling_leaves_nothing(bare: Client) -> None:
    await _installed(bare)
    lines = await _removed(bare)
    assert await _of_muster(bare) == {}
    assert "customresourcedefinition/queues.scheduling.volcano.sh deleted" in lines
    assert "namespace/muster-system kept: it was there before Muster" in lines


async def test_a_namespace_that_muster_made_goes_with_it_unless_others_moved_in(bare: Client) -> None:
    await bare.delete(HOME)
    await becomes(lambda: _gone(bare, HOME), within=300)
    await _installed(bare)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}}
    await bare.create(f"{HOME}/secrets", secret)
    assert "namespace/muster-system kept: there is secrets/theirs in it" in await _removed(bare)
    await bare.delete(f"{HOME}/secrets/theirs")
    assert {"namespace/muster-system deleted", _SLOWLY} & {*await _removed(bare)}
    await becomes(lambda: _gone(bare, HOME), within=300)


#: How long Kubernetes takes to empty a namespace is its own affair.
_SLOWLY = "namespace/muster-system is being deleted: not done after 60 seconds"


async def _gone(client: Client, path: str) -> bool:
    return not await exists(client, path)


async def test_uninstalling_frees_what_waits(client: Client) -> None:
    await _installed(client)
    other = [{"name": "example.com/other"}]
    await client.create(PODS, pod("a", labels=QUEUED))
    await client.create(PODS, pod("b", labels=QUEUED, schedulingGates=other))
    await client.create(JOBS, batch_job("c", labels=QUEUED))
    lines = await _removed(client)
    # The Job's own pod may have been gated by a policy that was about to go.
    assert {"freed 2 pods and 1 Jobs that waited", "freed 3 pods and 1 Jobs that waited"} & {*lines}
    assert "schedulingGates" not in msgspec.json.decode(await client.get(f"{PODS}/a"))["spec"]
    assert msgspec.json.decode(await client.get(f"{PODS}/b"))["spec"]["schedulingGates"] == other
    assert msgspec.json.decode(await client.get(f"{JOBS}/c"))["spec"]["suspend"] is False


async def test_what_is_made_to_wait_again_and_again_is_freed_once(client: Client) -> None:
    """A Muster that nobody stopped suspends a Job again as long as it can."""
    await _removed(client)
    await client.create(JOBS, batch_job("c", labels=QUEUED))
    await client.patch(f"{JOBS}/c", {"spec": {"suspend": True}})
    lines: list[str] = []
    going = asyncio.create_task(uninstall(client, Removal(), lines.append))
    for _ in range(3):
        await becomes(lambda: _goes_on(client, going), within=60)
        await client.patch(f"{JOBS}/c", {"spec": {"suspend": True}})
    await going

    assert [line for line in lines if line.startswith("freed ") and line.endswith("and 1 Jobs that waited")]


async def _goes_on(client: Client, going: "asyncio.Task[None]") -> bool:
    return going.done() or not msgspec.json.decode(await client.get(f"{JOBS}/c"))["spec"]["suspend"]


async def test_uninstalling_waits_until_pods_without_an_owner_are_there_again(client: Client) -> None:
    """Muster has deleted such a pod, and makes it again as soon as its grace period is over."""
    lines: list[str] = []
    old = await _on_its_way_out(client)
    going = asyncio.create_task(uninstall(client, Removal(), lines.append))
    await becomes(lambda: _told(lines, "waiting for 1 pods without an owner"), within=60)
    assert not [line for line in lines if "freed" in line]

    await client.patch(f"{PODS}/alone", {"metadata": {"finalizers": None}})
    again = pod("alone", labels=QUEUED, annotations={"muster.dev/recreated-from": old})
    again["metadata"]["labels"]["muster.dev/released"] = "false"
    again["spec"]["schedulingGates"] = [{"name": "muster.dev/admission"}]
    await client.create(PODS, again)
    await going

    assert [line for line in lines if "not there again" in line] == []
    assert "schedulingGates" not in msgspec.json.decode(await client.get(f"{PODS}/alone"))["spec"]


async def test_uninstalling_names_pods_that_are_not_made_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admission.kube.returning._GRACE", 0.1)
    monkeypatch.setattr("admission.kube.returning._ECHO", 0.1)
    await _on_its_way_out(client)

    lines = await _removed(client)

    assert [line for line in lines if "pod default/alone was deleted and is not there again" in line]


async def _on_its_way_out(client: Client) -> str:
    """The uid of a pod that had a seat, belongs to nobody and is being deleted. No guard is there to refuse it."""
    await _removed(client)
    alone = pod("alone", annotations={"muster.dev/admission-id": "7"})
    alone["metadata"]["labels"] = {"muster.dev/released": "true"}
    alone["metadata"]["finalizers"] = ["example.com/held"]
    made = msgspec.json.decode(await client.create(PODS, alone))
    await client.delete(f"{PODS}/alone")
    return str(made["metadata"]["uid"])


async def _told(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


async def test_uninstalling_leaves_what_waits_if_told_so(client: Client) -> None:
    await _installed(client)
    await client.create(PODS, pod("a", labels=QUEUED))
    await client.create(JOBS, batch_job("c", labels=QUEUED))
    lines = await _removed(client, Removal(waiting=Waiting.LEAVE))
    assert any("goes on waiting" in line for line in lines)
    assert msgspec.json.decode(await client.get(f"{PODS}/a"))["spec"]["schedulingGates"]
    assert msgspec.json.decode(await client.get(f"{JOBS}/c"))["spec"]["suspend"] is True
    # Nobody guards them any more.
    await client.patch(f"{PODS}/a", {"spec": {"schedulingGates": None}})


async def test_pods_whose_outcome_nobody_will_store_any_more_can_go(client: Client) -> None:
    await _installed(client)
    held = pod(
        "a", labels={"muster.dev/released": "false"}, schedulingGates=[{"name": "muster.dev/admission"}]
    )
    held["metadata"]["finalizers"] = ["muster.dev/outcome"]
    await client.create(PODS, held)
    await _removed(client, Removal(waiting=Waiting.LEAVE))
    assert "finalizers" not in msgspec.json.decode(await client.get(f"{PODS}/a"))["metadata"]


async def test_users_objects_survive_unless_their_deletion_is_asked_for(bare: Client) -> None:
    await _installed(bare, Installation())
    await bare.create(QUEUES.path(), _a_queue("team-a"))
    lines = await _removed(bare)
    assert (
        "customresourcedefinition/queues.scheduling.volcano.sh kept: it has 1 objects (--delete-crds deletes them too)"
        in lines
    )
    assert "customresourcedefinition/podgroups.scheduling.volcano.sh deleted" in lines
    assert await exists(bare, QUEUES.path(name="team-a"))
    await _removed(bare, Removal(delete_crds=True))
    assert not await exists(bare, QUEUES.path(name="team-a"))


async def test_definitions_of_volcano_are_not_overwritten_unless_told_so(bare: Client) -> None:
    queues = next(one for one in crds() if one["spec"]["names"]["kind"] == "Queue")
    queues["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    queues["metadata"]["annotations"] = {"meta.helm.sh/release-name": "volcano"}
    await bare.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", queues)
    with pytest.raises(DefinitionsOfOthers) as refused:
        await _installed(bare)
    assert "queues.scheduling.volcano.sh belong to somebody else (Helm release volcano)" in str(refused.value)
    assert "--adopt-crds" in str(refused.value)
    assert not await _of_muster(bare), "nothing is applied before the refusal"

    await _installed(bare, Installation(webhook_url="https://127.0.0.1:9", adopt_crds=True))
    await _installed(bare)
    lines = await _removed(bare, Removal(delete_crds=True))
    assert "customresourcedefinition/queues.scheduling.volcano.sh kept: it was there before Muster" in lines
    await bare.delete(path_of(queues))


async def test_without_url_and_service_there_is_no_webhook_and_install_says_so(bare: Client) -> None:
    lines = await _installed(bare, Installation())
    assert any(line.startswith("No webhook: there is neither") for line in lines)
    assert not [path for path in await _of_muster(bare) if "webhookconfigurations" in path]


async def test_the_api_server_is_told_to_believe_the_certificates_that_are_shared(client: Client) -> None:
    await _installed(client)
    secret = msgspec.json.decode(await client.get("/api/v1/namespaces/muster-system/secrets/muster-webhook"))
    path = f"{REGISTRATION}/validatingwebhookconfigurations/muster"
    for webhook in msgspec.json.decode(await client.get(path))["webhooks"]:
        assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]).startswith(b"-----BEGIN CERTIFICATE")


async def test_an_old_api_server_is_refused_with_its_version(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OLDEST_MINOR", 99)
    with pytest.raises(ServerTooOld, match=r"The API server is v1\.36\.\d+; expected Kubernetes"):
        await _installed(client)


async def test_a_queue_is_paused_and_resumed(client: Client) -> None:
    await _installed(client)
    await set_paused(client, "root", paused=True)
    assert (await _queue(client, "root"))["spec"]["policy"]["paused"] is True
    await set_paused(client, "root", paused=False)
    assert (await _queue(client, "root"))["spec"]["policy"]["paused"] is False
    with pytest.raises(UnknownQueue, match="There is no queue nowhere"):
        await set_paused(client, "nowhere", paused=True)


async def test_a_queue_says_who_changed_its_spec_last(client: Client, install_cluster: LocalCluster) -> None:
    await _installed(client)
    await client.create(QUEUES.path(), _a_queue("team-a"))
    kubeconfig = install_cluster.kubeconfig_for("carol", ("system:masters",))
    async with await Client.connect(kubeconfig) as carol:
        # Metadata is not the spec, and nobody signs for others.
        await carol.patch(
            QUEUES.path(name="team-a"), {"metadata": {"annotations": {"muster.dev/changed-by": "dave"}}}
        )
        assert await _changed_by(client) == "admin"
        await carol.patch(QUEUES.path(name="team-a"), {"spec": {"weight": 2}})
    assert await _changed_by(client) == "carol"


async def _changed_by(client: Client) -> Any:
    return (await _queue(client, "team-a"))["metadata"]["annotations"]["muster.dev/changed-by"]


async def test_the_requester_of_a_gang_is_noted_and_stays(
    client: Client, install_cluster: LocalCluster
) -> None:
    await _installed(client)
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {},
    }
    kubeconfig = install_cluster.kubeconfig_for("carol", ("system:masters",))
    async with await Client.connect(kubeconfig) as carol:
        made = msgspec.json.decode(await carol.create(groups, group))
        assert made["metadata"]["annotations"]["muster.dev/user"] == "carol"
        with pytest.raises(Refused, match='expected "carol", which only Muster writes'):
            await carol.patch(f"{groups}/g", {"metadata": {"annotations": {"muster.dev/user": "dave"}}})


def _a_queue(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


async def _queue(client: Client, name: str) -> Any:
    return msgspec.json.decode(await client.get(QUEUES.path(name=name)))
