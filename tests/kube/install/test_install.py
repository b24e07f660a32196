"""Installing into a real control plane."""

import asyncio
import base64
import json
from typing import Any

import msgspec
import pytest

from admission.kube.client.client import Client
from admission.kube.install import crds as definitions_module
from admission.kube.install.crds import DefinitionsOfOthers
from admission.kube.install.install import Installation, policies
from admission.kube.install.uninstall import Removal
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import CLUSTER_ROLE_BINDINGS, NAMESPACES, QUEUES, path_of
from queues.api.crd import crds
from queues.api.names import CHANGE_REASON
from queues.errors import ApiError, ApiRefused
from tests.kube.support.cluster_objects import batch_job, becomes, pod
from tests.kube.support.installation import (
    JOBS,
    PODS,
    QUEUED,
    REGISTRATION,
    a_queue,
    installed,
    of_muster,
    once_installed,
    removed,
)
from tests.waiting import LIMIT

NAMED = {"muster.dev/queue-name": "default"}


async def test_things_wait_as_soon_as_install_returns_and_installing_again_changes_nothing(
    bare: Client,
) -> None:
    await bare.create(NAMESPACES.path(), {"metadata": {"name": "named-before", "annotations": NAMED}})
    lines = await installed(bare)
    told = [line for line in lines if not line.endswith(" created")]
    assert [line.partition(":")[0] for line in told] == [
        "namespace/muster-system unchanged",
        "No read API",
        # It named a queue before there was a policy that labels it.
        "namespace/named-before labelled muster.dev/gated=true",
    ]
    found = msgspec.json.decode(await bare.get(NAMESPACES.path(name="named-before")))
    assert found["metadata"]["labels"]["muster.dev/gated"] == "true"
    made = msgspec.json.decode(await bare.create(PODS, pod("a", labels=QUEUED)))
    assert made["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
    await believes_the_shared_certificates(bare)

    before = await of_muster(bare)
    assert {path.split("/")[3 if path.startswith("/api/") else 4] for path in before} >= {
        "customresourcedefinitions",
        "clusterroles",
        "secrets",
        "mutatingadmissionpolicies",
        "validatingadmissionpolicies",
        "mutatingwebhookconfigurations",
    }
    lines = await installed(bare)
    assert [line for line in lines if not line.endswith(" unchanged")] == told[1:2]
    assert await of_muster(bare) == before
    await bare.delete(NAMESPACES.path(name="named-before"))

    # What somebody changed is put right, but for queues, which are the administrators'.
    guard = f"{REGISTRATION}/validatingadmissionpolicies/muster-guard-pods"
    await bare.patch(guard, {"spec": {"failurePolicy": "Ignore"}})
    await bare.patch(QUEUES.path(name="default"), {"spec": {"weight": 7}})
    assert "validatingadmissionpolicy/muster-guard-pods configured" in await installed(bare)
    assert msgspec.json.decode(await bare.get(guard))["spec"]["failurePolicy"] == "Fail"
    assert (await _queue(bare, "default"))["spec"]["weight"] == 7

    # A policy that an earlier version had goes, with its binding.
    former = [
        json.loads(json.dumps(document).replace("muster-guard-templates", "muster-guard-cron-jobs"))
        for document in policies(Installation())
        if document["metadata"]["name"] == "muster-guard-templates"
    ]
    for document in former:
        await bare.create(path_of(document).rpartition("/")[0], document)
    assert [line for line in await installed(bare) if line.endswith(" deleted")] == [
        "validatingadmissionpolicybindings/muster-guard-cron-jobs deleted",
        "validatingadmissionpolicies/muster-guard-cron-jobs deleted",
    ]


async def believes_the_shared_certificates(admin: Client) -> None:
    """The API server is told to believe the authority that signs what all replicas serve."""
    secret = msgspec.json.decode(await admin.get("/api/v1/namespaces/muster-system/secrets/muster-webhook"))
    for name in ("muster", "muster-tenants"):
        path = f"{REGISTRATION}/validatingwebhookconfigurations/{name}"
        for webhook in msgspec.json.decode(await admin.get(path))["webhooks"]:
            assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
            assert base64.b64decode(webhook["clientConfig"]["caBundle"]).startswith(b"-----BEGIN CERTIFICATE")


@pytest.mark.long
async def test_jobs_that_were_made_ready_to_pass_the_gate_before_there_was_one_are_told(bare: Client) -> None:
    ready = batch_job("ready", template_labels={"muster.dev/released": "true"})
    ready["spec"]["suspend"] = True
    ready["spec"]["template"]["metadata"]["annotations"] = {"muster.dev/admission-id": "1"}
    ordinary = batch_job("ordinary")
    ordinary["spec"]["suspend"] = True
    for job in (ready, ordinary):
        await bare.create(JOBS, job)
    warnings = [line for line in await installed(bare) if line.startswith("warning: ")]
    assert [line.split(" has ")[0] for line in warnings] == ["warning: job default/ready"]
    for name in ("ready", "ordinary"):
        await bare.delete(f"{JOBS}/{name}")


@pytest.mark.long
async def test_definitions_of_volcano_are_not_overwritten_unless_told_so(bare: Client) -> None:
    queues = next(one for one in crds() if one["spec"]["names"]["kind"] == "Queue")
    queues["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    queues["metadata"]["annotations"] = {"meta.helm.sh/release-name": "volcano"}
    await bare.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", queues)
    with pytest.raises(DefinitionsOfOthers) as refused:
        await installed(bare)
    assert "queues.scheduling.volcano.sh belong to another owner (Helm release volcano)" in str(refused.value)
    assert "--adopt-crds" in str(refused.value)
    assert not await of_muster(bare), "nothing is applied before the refusal"

    await installed(bare, Installation(webhook_url="https://127.0.0.1:9", adopt_crds=True))
    await installed(bare)
    lines = await removed(bare, Removal(delete_crds=True))
    assert "customresourcedefinition/queues.scheduling.volcano.sh kept: it was there before Muster" in lines
    await bare.delete(path_of(queues))


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.long
async def test_the_definition_of_devices_is_left_to_koordinator_where_that_is_installed(
    bare: Client, adopt: bool
) -> None:
    devices = next(one for one in crds() if one["spec"]["names"]["kind"] == "Device")
    devices["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    devices["metadata"]["annotations"] = {"meta.helm.sh/release-name": "koordinator"}
    created = msgspec.json.decode(
        await bare.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", devices)
    )
    lines = await installed(bare, Installation(webhook_url="https://127.0.0.1:9", adopt_crds=adopt))
    name = devices["metadata"]["name"]
    assert f"customresourcedefinition/{name} left as it is: Helm release koordinator" in lines
    found = msgspec.json.decode(await bare.get(path_of(devices)))
    assert (found["metadata"]["uid"], found["metadata"]["labels"], found["spec"]) == (
        created["metadata"]["uid"],
        created["metadata"]["labels"],
        created["spec"],
    )
    await removed(bare, Removal(delete_crds=True))
    await bare.delete(path_of(devices))


@pytest.mark.long
async def test_without_url_and_service_there_is_no_webhook_and_install_says_so(
    bare: Client, install_cluster: LocalCluster
) -> None:
    """Only platform administrators change Queues then: nobody could tell which queues are a tenant's."""
    lines = await installed(bare, Installation())
    assert any(line.startswith("No webhook: there is neither") for line in lines)
    [path] = [path for path in await of_muster(bare) if "webhookconfigurations" in path]
    webhooks = msgspec.json.decode(await bare.get(path))["webhooks"]
    assert {(each["failurePolicy"], each["name"].partition(".")[0]) for each in webhooks} == {
        ("Fail", "authorize")
    }
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tess"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-tenant-admin"}
    binding = CLUSTER_ROLE_BINDINGS.document("tess", roleRef=role, subjects=[subject])
    await bare.create(CLUSTER_ROLE_BINDINGS.path(), binding)
    await bare.create(QUEUES.path(), a_queue("team-a"))

    async def is_asked(tess: Client) -> bool:
        try:
            await tess.patch(QUEUES.path(name="team-a"), {"spec": {"weight": 2}})
        except ApiError as error:
            return "failed calling webhook" in str(error)
        raise AssertionError("the write was let through")

    async with await Client.connect(install_cluster.kubeconfig_for("tess")) as tess:
        await becomes(lambda: is_asked(tess))
    await bare.delete(QUEUES.path(name="team-a"))
    lines = await installed(bare, Installation())
    assert not [line for line in lines if "webhookconfiguration" in line], "left as it is"


async def test_a_queue_says_who_changed_its_spec_last(admin: Client, install_cluster: LocalCluster) -> None:
    await once_installed(admin)
    await admin.create(QUEUES.path(), a_queue("team-a"))
    kubeconfig = install_cluster.kubeconfig_for("carol", ("system:masters",))
    async with await Client.connect(kubeconfig) as carol:
        # Metadata is not the spec, and nobody signs for others.
        await carol.patch(
            QUEUES.path(name="team-a"), {"metadata": {"annotations": {"muster.dev/changed-by": "dave"}}}
        )
        assert await _changed_by(admin) == "admin"
        await carol.patch(QUEUES.path(name="team-a"), {"spec": {"weight": 2}})
    assert await _changed_by(admin) == "carol"


async def test_a_reason_goes_with_the_next_change_of_the_spec(
    admin: Client, install_cluster: LocalCluster
) -> None:
    await once_installed(admin)
    queue = a_queue("team-r")
    queue["metadata"]["annotations"] = {CHANGE_REASON: "a new team"}
    await admin.create(QUEUES.path(), queue)
    assert await _reason(admin) == "a new team"
    change = {"metadata": {"annotations": {CHANGE_REASON: "invented later"}}}
    await admin.patch(QUEUES.path(name="team-r"), change)
    assert await _reason(admin) == "a new team"
    await admin.patch(QUEUES.path(name="team-r"), {"metadata": {"annotations": None}})
    assert await _reason(admin) == "a new team"

    more = {"metadata": {"annotations": {CHANGE_REASON: "more work"}}, "spec": {"weight": 2}}
    await admin.patch(QUEUES.path(name="team-r"), more)
    assert await _reason(admin) == "more work"
    # Another user's change, as from a manifest that knows of no reason, or still has the last one.
    kubeconfig = install_cluster.kubeconfig_for("carol", ("system:masters",))
    async with await Client.connect(kubeconfig) as carol:
        await carol.patch(QUEUES.path(name="team-r"), {"spec": {"weight": 3}})
    assert await _reason(admin) is None
    await admin.patch(QUEUES.path(name="team-r"), {"metadata": {"annotations": {CHANGE_REASON: "late"}}})
    assert await _reason(admin) is None


async def _reason(admin: Client) -> Any:
    return (await _queue(admin, "team-r"))["metadata"]["annotations"].get(CHANGE_REASON)


async def _changed_by(admin: Client) -> Any:
    return (await _queue(admin, "team-a"))["metadata"]["annotations"]["muster.dev/changed-by"]


async def test_the_requester_of_a_gang_is_noted_and_stays(
    admin: Client, install_cluster: LocalCluster
) -> None:
    await once_installed(admin)
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
        with pytest.raises(ApiRefused, match='expected "carol", which only Muster writes'):
            await carol.patch(f"{groups}/g", {"metadata": {"annotations": {"muster.dev/user": "dave"}}})


async def _queue(admin: Client, name: str) -> Any:
    return msgspec.json.decode(await admin.get(QUEUES.path(name=name)))


async def test_an_older_version_leaves_fields_of_a_newer_one_where_they_are(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade adds a field, objects stored before stay readable; on the way back nothing of the field is lost."""
    await once_installed(admin)
    await admin.create(QUEUES.path(), a_queue("stored-before"))

    def newer() -> list[Any]:
        definitions = crds()
        queue = next(each for each in definitions if each["spec"]["names"]["kind"] == "Queue")
        schema = queue["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["carbon"] = {"type": "string"}
        return definitions

    with monkeypatch.context() as patched:
        patched.setattr(definitions_module, "crds", newer)
        lines = await installed(admin)
    assert "customresourcedefinition/queues.scheduling.volcano.sh configured" in lines
    assert (await _queue(admin, "stored-before"))["spec"]
    async with asyncio.timeout(LIMIT):  # the API server drops the field until it serves the new schema
        while (await _queue(admin, "stored-before"))["spec"].get("carbon") != "low":
            await admin.patch(QUEUES.path(name="stored-before"), {"spec": {"carbon": "low"}})

    lines = await installed(admin)
    kept = next(line for line in lines if line.startswith("customresourcedefinition/queues."))
    assert "left as it is: a newer version of Muster has added spec.carbon" in kept
    await admin.patch(QUEUES.path(name="stored-before"), {"spec": {"weight": 3}})
    assert (await _queue(admin, "stored-before"))["spec"]["carbon"] == "low"
