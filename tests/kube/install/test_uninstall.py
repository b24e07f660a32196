"""Taking everything back from a real control plane, and what becomes of those who wait."""

import asyncio

import msgspec
import pytest

from admission.kube.client.client import Client
from admission.kube.install.drain import DrainMode
from admission.kube.install.uninstall import Removal, uninstall
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import CRDS, QUEUES, RESOURCE_QUOTAS
from tests.builders.operator_resources import JOB_SETS
from tests.kube.support.cluster_objects import batch_job, becomes, exists, gone, pod
from tests.kube.support.guarded_namespace import MUSTER
from tests.kube.support.installation import (
    HOME,
    JOBS,
    PODS,
    QUEUED,
    a_queue,
    installed,
    of_muster,
    once_installed,
    removed,
)

#: How long Kubernetes takes to empty a namespace is its own affair.
_SLOWLY = "namespace/muster-system is being deleted: not done after 60 seconds"


async def test_uninstalling_frees_what_waits(admin: Client) -> None:
    await once_installed(admin)
    other = [{"name": "example.com/other"}]
    await admin.create(PODS, pod("a", labels=QUEUED))
    await admin.create(PODS, pod("b", labels=QUEUED, schedulingGates=other))
    await admin.create(JOBS, batch_job("c", labels=QUEUED))
    lines = await removed(admin)
    # The Job's own pod may have been gated by a policy that was about to go.
    assert {"freed 2 pods and 1 Jobs that waited", "freed 3 pods and 1 Jobs that waited"} & {*lines}
    assert "schedulingGates" not in msgspec.json.decode(await admin.get(f"{PODS}/a"))["spec"]
    assert msgspec.json.decode(await admin.get(f"{PODS}/b"))["spec"]["schedulingGates"] == other
    assert msgspec.json.decode(await admin.get(f"{JOBS}/c"))["spec"]["suspend"] is False


async def test_uninstalling_leaves_nothing_but_users_objects_whose_deletion_is_not_asked_for(
    bare: Client,
) -> None:
    await installed(bare)
    # What only the chart has.
    quota = RESOURCE_QUOTAS.document("muster", "muster-system", spec={"hard": {"pods": "9"}})
    await bare.create(RESOURCE_QUOTAS.path("muster-system"), quota)
    await bare.create(QUEUES.path(), a_queue("team-a"))
    lines = await removed(bare)
    assert "resourcequotas/muster deleted" in lines
    assert (
        "customresourcedefinition/queues.scheduling.volcano.sh kept: it has 1 objects (--delete-crds deletes them too)"
        in lines
    )
    assert "customresourcedefinition/podgroups.scheduling.volcano.sh deleted" in lines
    assert "namespace/muster-system kept: it was there before Muster" in lines
    [left] = await of_muster(bare)
    assert left.endswith("/queues.scheduling.volcano.sh")
    assert await exists(bare, QUEUES.path(name="team-a"))
    lines = await removed(bare, Removal(delete_crds=True))
    assert "customresourcedefinition/queues.scheduling.volcano.sh deleted" in lines
    assert await of_muster(bare) == {}


@pytest.mark.long
async def test_a_namespace_that_muster_made_goes_with_it_unless_others_moved_in(bare: Client) -> None:
    await bare.delete(HOME)
    await becomes(lambda: gone(bare, HOME))
    await installed(bare)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}}
    await bare.create(f"{HOME}/secrets", secret)
    assert "namespace/muster-system kept: there is secrets/theirs in it" in await removed(bare)
    await bare.delete(f"{HOME}/secrets/theirs")
    assert {"namespace/muster-system deleted", _SLOWLY} & {*await removed(bare)}
    await becomes(lambda: gone(bare, HOME))


async def test_uninstalling_resumes_objects_of_other_projects_kinds(admin: Client) -> None:
    await removed(admin)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "group": JOB_SETS.group,
        "scope": "Namespaced",
        "names": {"kind": JOB_SETS.kind, "plural": JOB_SETS.plural},
        "versions": [
            {
                "name": JOB_SETS.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": anything},
            }
        ],
    }
    name = f"{JOB_SETS.plural}.{JOB_SETS.group}"
    await admin.create(CRDS.path(), CRDS.document(name, spec=definition) | {"metadata": {"name": name}})
    path = JOB_SETS.path("default")
    waits, own = ({"name": "waits", "labels": QUEUED}, {"name": "own"})
    await becomes(lambda: exists(admin, path))
    for metadata in (waits, own):
        document = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": metadata}
        await admin.create(path, {**document, "spec": {"suspend": True}})
    # It was admitted once: its template says that Muster resumed it, by which another Muster would suspend it.
    uid = msgspec.json.decode(await admin.get(f"{path}/waits"))["metadata"]["uid"]
    member = {"labels": QUEUED, "annotations": {"muster.dev/member-of": f"JobSet/waits/{uid}/workers"}}
    once = [{"name": "workers", "template": {"spec": {"template": {"metadata": member}}}}]
    await admin.patch(f"{path}/waits", {"spec": {"replicatedJobs": once}})
    lines = await removed(admin)
    assert "freed 1 jobsets" in lines
    freed = msgspec.json.decode(await admin.get(f"{path}/waits"))
    assert "muster.dev" not in str(freed["spec"])
    kept = [
        msgspec.json.decode(await admin.get(f"{path}/{name}"))["spec"]["suspend"] for name in ("waits", "own")
    ]
    assert kept == [False, True], "what a user suspended outside of a queue stays so"
    await admin.delete(CRDS.path(name=name))


async def test_what_is_made_to_wait_again_and_again_is_freed_once(admin: Client) -> None:
    """A Muster that nobody stopped suspends a Job again as long as it can."""
    await removed(admin)
    await admin.create(JOBS, batch_job("c", labels=QUEUED))
    await admin.patch(f"{JOBS}/c", {"spec": {"suspend": True}})
    lines: list[str] = []
    going = asyncio.create_task(uninstall(admin, Removal(), lines.append))
    for _ in range(3):
        await becomes(lambda: _goes_on(admin, going))
        await admin.patch(f"{JOBS}/c", {"spec": {"suspend": True}})
    await going

    assert [line for line in lines if line.startswith("freed ") and line.endswith("and 1 Jobs that waited")]


async def _goes_on(admin: Client, going: "asyncio.Task[None]") -> bool:
    return going.done() or not msgspec.json.decode(await admin.get(f"{JOBS}/c"))["spec"]["suspend"]


async def test_uninstalling_waits_until_pods_without_an_owner_are_there_again(admin: Client) -> None:
    """Muster has deleted such a pod, and makes it again as soon as its grace period is over."""
    lines: list[str] = []
    old = await _on_its_way_out(admin)
    going = asyncio.create_task(uninstall(admin, Removal(), lines.append))
    await becomes(lambda: _told(lines, "waiting for 1 pods without an owner"))
    assert not [line for line in lines if "freed" in line]

    await admin.patch(f"{PODS}/alone", {"metadata": {"finalizers": None}})
    again = pod("alone", labels=QUEUED, annotations={"muster.dev/recreated-from": old})
    again["metadata"]["labels"]["muster.dev/released"] = "false"
    again["spec"]["schedulingGates"] = [{"name": "muster.dev/admission"}]
    await admin.create(PODS, again)
    await going

    assert [line for line in lines if "not there again" in line] == []
    assert "schedulingGates" not in msgspec.json.decode(await admin.get(f"{PODS}/alone"))["spec"]


async def test_uninstalling_names_pods_that_are_not_made_again(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admission.kube.install.drain._GRACE", 0.1)
    monkeypatch.setattr("admission.kube.install.drain._ECHO", 0.1)
    await _on_its_way_out(admin)

    lines = await removed(admin)

    assert [line for line in lines if "pod default/alone was deleted and is not there again" in line]


async def _on_its_way_out(admin: Client) -> str:
    """The uid of a pod that had a seat, belongs to nobody and is being deleted. No guard is there to refuse it."""
    await removed(admin)
    alone = pod("alone", annotations={"muster.dev/admission-id": "7"})
    alone["metadata"]["labels"] = {"muster.dev/released": "true"}
    alone["metadata"]["finalizers"] = ["example.com/held"]
    made = msgspec.json.decode(await admin.create(PODS, alone))
    await admin.delete(f"{PODS}/alone")
    return str(made["metadata"]["uid"])


async def _told(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


@pytest.mark.long
async def test_uninstalling_leaves_what_waits_if_told_so(admin: Client) -> None:
    await installed(admin)
    await admin.create(PODS, pod("a", labels=QUEUED))
    await admin.create(JOBS, batch_job("c", labels=QUEUED))
    lines = await removed(admin, Removal(waiting=DrainMode.LEAVE))
    assert any("goes on waiting" in line for line in lines)
    assert msgspec.json.decode(await admin.get(f"{PODS}/a"))["spec"]["schedulingGates"]
    assert msgspec.json.decode(await admin.get(f"{JOBS}/c"))["spec"]["suspend"] is True
    # Nobody guards them any more.
    await admin.patch(f"{PODS}/a", {"spec": {"schedulingGates": None}})


@pytest.mark.long
async def test_what_waits_for_its_outcome_to_be_stored_can_go(
    admin: Client, install_cluster: LocalCluster
) -> None:
    await installed(admin)
    held = pod(
        "a", labels={"muster.dev/released": "false"}, schedulingGates=[{"name": "muster.dev/admission"}]
    )
    held["metadata"]["finalizers"] = ["muster.dev/outcome"]
    async with await Client.connect(install_cluster.kubeconfig_for(MUSTER, ("system:masters",))) as muster:
        await muster.create(PODS, held)
    kept = batch_job("kept")
    kept["metadata"]["finalizers"] = ["muster.dev/outcome"]
    await admin.create(JOBS, kept)
    await removed(admin, Removal(waiting=DrainMode.LEAVE))
    for path in (f"{PODS}/a", f"{JOBS}/kept"):
        assert "finalizers" not in msgspec.json.decode(await admin.get(path))["metadata"]
