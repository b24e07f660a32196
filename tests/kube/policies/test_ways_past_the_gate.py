"""Every way to run a pod in a gated namespace without an admission, tried by an ordinary editor of the namespace.

Each is refused by the API server with a sentence, or what it made waits.
"""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    DAEMON_SETS,
    JOBS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.errors import ApiError, ApiRefused
from tests.kube.support.cluster_objects import becomes, exists, gone
from tests.kube.support.editors import EDITOR, EditedNamespace, edited_namespaces
from tests.kube.support.evasion_attempts import (
    ANNOTATED,
    BOB,
    CHANGES,
    CREATIONS,
    DIRECTED,
    GATED,
    LET_GO,
    METADATA,
    OFF,
    OWNERS,
    PLAIN,
    SUSPENDED,
    UNDONE,
    Change,
    Creation,
    annotated,
    bare,
    job,
    labelled,
    owner,
    volcano_job,
)
from tests.kube.support.guarded_namespace import GATE, MUSTER
from tests.kube.support.pod_losses import LOSSES, member_of
from tests.tables import with_rows


def named(document: Document) -> Document:
    """The document with a name that the API server makes up."""
    return {**document, "metadata": {**document["metadata"], "generateName": "way-"}}


@pytest_asyncio.fixture(scope="module")
async def namespaces(guarded_cluster: LocalCluster) -> AsyncIterator[dict[str, EditedNamespace]]:
    async with edited_namespaces(guarded_cluster, METADATA) as places:
        yield places


@pytest.mark.parametrize(
    ("creation", "where"),
    [pytest.param(each, where, id=f"{each.title} in {where}") for each in CREATIONS for where in each.where],
)
async def test_what_an_editor_creates_waits_or_is_refused(
    namespaces: dict[str, EditedNamespace], creation: Creation, where: str
) -> None:
    document = named(creation.document)
    place = namespaces[where]
    if creation.refused:
        with pytest.raises(ApiRefused) as refused:
            await place.create(creation.kind, document)
        assert creation.refused in str(refused.value)
        return
    made = await place.create(creation.kind, document)
    assert _waits(made), made
    assert made["metadata"]["annotations"]["muster.dev/user"] == EDITOR


def _waits(made: Document) -> bool:
    """Whether only Muster can start it."""
    labels = made["metadata"].get("labels", {})
    if made["kind"] == "Job":
        template = made["spec"]["template"]["metadata"]["labels"]
        suspended = made["spec"]["suspend"] and template["muster.dev/released"] == "false"
        return bool(suspended and labels["muster.dev/queue-name"] == template["muster.dev/queue-name"])
    gates = made["spec"].get("schedulingGates", ())
    return (
        GATE[0] in gates
        and labels["muster.dev/released"] == "false"
        and bool(labels["muster.dev/queue-name"])
    )


@pytest.mark.parametrize("where", [GATED, ANNOTATED])
@pytest.mark.parametrize(
    "kind", [kind for kind in OWNERS if kind is not DAEMON_SETS], ids=lambda kind: kind.kind
)
async def test_pods_of_every_other_owner_wait(
    namespaces: dict[str, EditedNamespace], kind: ApiResource, where: str
) -> None:
    place = namespaces[where]
    await place.create(kind, {**owner(kind), "metadata": {"name": kind.plural}})
    pods = await becomes(lambda: place.read(PODS, labelSelector=f"app={kind.plural}"))
    assert _waits({"kind": "Pod", **pods[0]})


async def test_pods_of_a_daemon_set_wait_too(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    """Its controller ties each of them to a node."""
    place = namespaces[GATED]
    node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node]}}
    of = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    controller = "system:serviceaccount:kube-system:daemon-set-controller"
    kubeconfig = guarded_cluster.kubeconfig_for(controller, ("system:masters",))
    document = bare({"ownerReferences": [of]}, affinity={"nodeAffinity": required})
    async with await Client.connect(kubeconfig) as client:
        assert _waits(await place.create(PODS, named(document), by=client))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.title} in {change.where}")
async def test_an_editor_changes_nothing_that_starts_a_pod(
    namespaces: dict[str, EditedNamespace], change: Change
) -> None:
    place, kind = namespaces[change.where], change.kind
    made = await place.create(kind, named(change.before))
    name = made["metadata"]["name"]
    if change.released is not None:
        made = await place.change(kind, name, change.released, by=place.muster)
    if change.refused == UNDONE:
        now = await place.change(kind, name, change.patch)
        # Kubernetes gives a Job without labels those of its template.
        labels, before = now["metadata"]["labels"], made["metadata"]["labels"]
        assert labels.items() >= before.items()
        assert labels.get("muster.dev/released") == before.get("muster.dev/released")
        assert now["metadata"].get("finalizers") == made["metadata"].get("finalizers")
        for field in ("suspend", "schedulingGates", "runPolicy"):
            assert now["spec"].get(field) == made["spec"].get(field)
        return
    with pytest.raises(ApiRefused) as refused:
        await place.change(kind, name, change.patch, subresource=change.subresource)
    assert change.refused in str(refused.value)


async def test_nobody_binds_a_pod_that_waits(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    """An editor has no right to. Kubernetes itself refuses it to all who have the right, as long as a gate is there."""
    place = namespaces[GATED]
    made = await place.create(PODS, named(bare()))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": made["metadata"]["name"]}}
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
    path = PODS.path(place.name, made["metadata"]["name"], "binding")
    with pytest.raises(ApiRefused, match='cannot create resource "pods/binding"'):
        await place.editor.create(path, {**binding, **target})
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        with pytest.raises(ApiError, match=r"has non-empty [.]spec[.]schedulingGates"):
            await admin.create(path, {**binding, **target})


# -- how pods end ---------------------------------------------------------------------------------------------

_BY_FORCE = "gracePeriodSeconds: found 0 by erin, expected 1 or more"


def _eviction(name: str, **options: int) -> Document:
    made = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**made, "deleteOptions": options}


async def _bound(place: EditedNamespace, admin: Client, name: str) -> str:
    """The path of a pod that kube-scheduler has given a node."""
    path = PODS.path(place.name, name)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
    await admin.create(f"{path}/binding", {**binding, **target})
    return path


async def _released(place: EditedNamespace, document: Document) -> str:
    """The name of a pod that has waited, and was released."""
    name = (await place.create(PODS, named(document)))["metadata"]["name"]
    await place.change(PODS, name, LET_GO, by=place.muster)
    return str(name)


async def test_an_editor_deletes_no_running_pod_by_force(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    place = namespaces[GATED]
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        name = await _released(place, bare())
        path = await _bound(place, admin, name)
        with pytest.raises(ApiRefused, match=_BY_FORCE):
            await place.editor.delete(path, grace=0)
        with pytest.raises(ApiRefused, match=_BY_FORCE):
            await place.editor.create(f"{path}/eviction", _eviction(name, gracePeriodSeconds=0))
        await place.editor.delete(path, grace=1)
        with pytest.raises(ApiRefused, match=_BY_FORCE):
            await place.editor.delete(path, grace=0)
        await admin.delete(path, grace=0)


async def test_an_editor_deletes_no_collection_with_a_running_pod_by_force(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    """As `kubectl delete pods --all --force` does: such a request names no pod."""
    place = namespaces[GATED]
    labels = {"collection": "forced"}
    collection = f"{PODS.path(place.name)}?labelSelector=collection%3Dforced"
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        path = await _bound(place, admin, await _released(place, bare({"labels": labels})))
        with pytest.raises(ApiRefused, match=_BY_FORCE):
            await place.editor.delete(collection, grace=0)
        await place.editor.delete(collection)
        assert b'"deletionTimestamp"' in await admin.get(path)
        with pytest.raises(ApiRefused, match=_BY_FORCE):
            await place.editor.delete(collection, grace=0)
        await admin.delete(collection, grace=0)
        assert not await exists(admin, path)


async def test_an_editor_with_the_verb_for_it_deletes_running_pods_by_force(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    place = namespaces[ANNOTATED]
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["force-delete"]}
    of = {"apiGroup": "rbac.authorization.k8s.io"}
    subject = {**of, "kind": "User", "name": EDITOR}
    role = {**of, "kind": "Role", "name": "force-deleter"}

    async def deleted() -> bool:  # the API server notices the role after a moment
        try:
            await place.editor.delete(f"{PODS.path(place.name)}?labelSelector=ends%3Dby-force", grace=0)
        except ApiRefused:
            return False
        return True

    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        document = bare({"labels": {"ends": "by-force"}})
        path = await _bound(place, admin, await _released(place, document))
        assert not await deleted()
        await admin.create(ROLES.path(place.name), ROLES.document("force-deleter", place.name, rules=[rule]))
        binding = ROLE_BINDINGS.document("force-deleter", place.name, roleRef=role, subjects=[subject])
        await admin.create(ROLE_BINDINGS.path(place.name), binding)
        await becomes(deleted)
        assert not await exists(admin, path)


@pytest.mark.parametrize("by", ["a pod", "a Job"])
async def test_a_running_pod_that_asks_for_no_grace_stays_until_its_node_confirms_its_end(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace], by: str
) -> None:
    """Kubernetes drops a pod with the grace period 0 at the first deletion, while its containers run."""
    place = namespaces[GATED]
    asked = {"terminationGracePeriodSeconds": 0}
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        for ends in ("eviction", "deletion of a collection", "deletion"):
            name = await _pod_made(place, by, asked)
            path = await _bound(place, admin, name)
            if ends == "deletion":
                await place.editor.delete(path)
            elif ends == "eviction":
                await admin.create(f"{path}/eviction", _eviction(name))
            else:
                await place.editor.delete(f"{PODS.path(place.name)}?fieldSelector=metadata.name%3D{name}")
            left = msgspec.json.decode(await admin.get(path))["metadata"]
            assert (left["deletionGracePeriodSeconds"], "deletionTimestamp" in left) == (1, True), ends
            await admin.delete(path, grace=0)


async def _pod_made(place: EditedNamespace, by: str, asked: dict[str, Any]) -> str:
    """The name of a released pod with these fields, made in one of the ways in which users' pods come into queues."""
    if by == "a pod":
        return await _released(place, bare(**asked))
    made = await place.create(JOBS, named(job(**asked)))
    await place.change(JOBS, made["metadata"]["name"], DIRECTED, by=place.muster)
    return str((await _pods_of(place, made["metadata"]["name"]))[0]["metadata"]["name"])


async def _pods_of(place: EditedNamespace, job_name: str) -> list[Any]:
    """The pods of a Job, once there are any."""
    return await becomes(lambda: place.read(PODS, labelSelector=f"job-name={job_name}"))


async def test_nobody_resizes_a_pod_in_a_queue_in_place(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    """Also somebody with the right to resize pods."""

    def containers(cpu: str) -> list[Document]:
        resources = {"requests": {"cpu": cpu}}
        return [{"name": "main", "image": "example.com/main", "resources": resources}]

    place = namespaces[GATED]
    made = await place.create(PODS, named(bare(containers=containers("1"))))
    name = made["metadata"]["name"]
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        for released in (None, LET_GO):
            if released is not None:
                await place.change(PODS, name, released, by=place.muster)
            patch = {"spec": {"containers": containers("32")}}
            with pytest.raises(ApiRefused, match="resources changed in place"):
                await place.change(PODS, name, patch, subresource="resize", by=admin)


# -- whose pods they are --------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module")
async def members(namespaces: dict[str, EditedNamespace]) -> dict[str, tuple[EditedNamespace, str]]:
    """By the kind of their owner: the namespace and the name of a pod that was released with its Job."""
    place = namespaces[GATED]
    made = await place.create(JOBS, named(job()))
    await place.change(JOBS, made["metadata"]["name"], DIRECTED, by=place.muster)
    pods = {"Job": (await _pods_of(place, made["metadata"]["name"]))[0]["metadata"]["name"]}
    made = await place.create(VOLCANO_JOBS, named(volcano_job()))
    pods["Volcano Job"] = f"{made['metadata']['name']}-main-0"
    await place.create(PODS, member_of(made), by=place.muster)
    return {kind: (place, name) for kind, name in pods.items()}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(kind, patch, id=f"{title} of a {kind}")
        for kind, losses in LOSSES.items()
        for title, patch in losses.items()
    ],
)
async def test_an_editor_takes_no_pod_from_its_job(
    members: dict[str, tuple[EditedNamespace, str]], kind: str, patch: Any
) -> None:
    """The Job would make another pod in place of it, past its admission."""
    place, name = members[kind]
    with pytest.raises(ApiRefused) as refused:
        await place.change(PODS, name, patch)
    assert "expected it to stay" in str(refused.value)


async def test_an_editor_may_write_other_labels_on_a_pod_of_a_job(
    members: dict[str, tuple[EditedNamespace, str]],
) -> None:
    for place, name in members.values():
        made = await place.change(PODS, name, labelled("colour", "blue"))
        assert made["metadata"]["labels"]["colour"] == "blue"


async def test_a_job_may_be_deleted_without_its_pods(namespaces: dict[str, EditedNamespace]) -> None:
    """By `kubectl delete --cascade=orphan`: there is no Job then to make others."""
    place = namespaces[GATED]

    async def left_without_owner() -> bool:
        made = await place.create(JOBS, named(job()))
        path = JOBS.path(place.name, made["metadata"]["name"])
        await place.change(JOBS, made["metadata"]["name"], DIRECTED, by=place.muster)
        (pod,) = await _pods_of(place, made["metadata"]["name"])
        await place.editor.delete(path, propagation="Orphan")
        await becomes(lambda: gone(place.editor, path))
        left = await place.read(PODS, fieldSelector=f"metadata.name={pod['metadata']['name']}")
        return len(left) == 1 and "ownerReferences" not in left[0]["metadata"]

    # The garbage collector deletes a pod that it has not seen yet when it takes the pods from their Job.
    await becomes(left_without_owner)


async def test_an_administrator_starts_in_musters_name_what_waits_while_muster_is_down(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    """By the patches on the page on operation: no policy and no binding has to go for it."""
    place = namespaces[GATED]
    waiting = [await place.create(kind, named(each)) for kind, each in ((JOBS, job()), (PODS, bare()))]
    of_job, pod = (each["metadata"]["name"] for each in waiting)
    kubectl = [
        str(guarded_cluster.kubectl),
        "--kubeconfig",
        str(guarded_cluster.kubeconfig),
        "-n",
        place.name,
    ]
    # The group stands for the rights that Muster has where it is installed.
    in_its_name = ["--as", MUSTER, "--as-group", "system:masters", "patch", "--type=merge"]
    for what, patch in zip((f"job/{of_job}", f"pod/{pod}"), patches_on_the_page(), strict=True):
        await asyncio.to_thread(subprocess.run, [*kubectl, *in_its_name, what, "-p", patch], check=True)
    started = [each for each in await place.read(PODS) if each["metadata"]["name"] == pod]
    assert [each["spec"].get("schedulingGates") for each in started] == [None]
    assert "schedulingGates" not in (await _pods_of(place, of_job))[0]["spec"]


def patches_on_the_page() -> list[str]:
    """What `kubectl patch` is given there: of a Job, and of a pod."""
    page = (Path(__file__).parents[3] / "docs/how-to/operate.md").read_text(encoding="utf-8")
    section = page.partition("## Start urgent work without Muster")[2].partition("\n## ")[0]
    return re.findall(r"-p '([^']+)'", section)


# -- who asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patch",
    [
        labelled("muster.dev/queue-name", "b"),
        annotated("scheduling.volcano.sh/queue-name", "b"),
        {"metadata": {"labels": {"muster.dev/queue-name": "b"}, "annotations": BOB}},
    ],
    ids=["label", "annotation", "label and another name"],
)
async def test_a_job_that_enters_a_queue_later_is_signed_by_the_user_who_puts_it_there(
    namespaces: dict[str, EditedNamespace], patch: Document
) -> None:
    place = namespaces[PLAIN]
    made = await place.create(JOBS, named(SUSPENDED))
    assert "annotations" not in made["metadata"]
    changed = await place.change(JOBS, made["metadata"]["name"], patch)
    assert changed["metadata"]["annotations"]["muster.dev/user"] == EDITOR
    assert changed["metadata"]["labels"]["muster.dev/queue-name"] == "b"
    changed = await place.change(JOBS, made["metadata"]["name"], {"spec": {"suspend": False}})
    assert changed["spec"]["suspend"] is True, "only Muster resumes it"


# -- namespaces -----------------------------------------------------------------------------------------------


async def test_nothing_waits_in_a_namespace_that_is_said_to_be_open_though_it_names_a_queue(
    namespaces: dict[str, EditedNamespace],
) -> None:
    place = namespaces[OFF]
    made = await place.create(JOBS, named(job()))
    assert made["spec"]["suspend"] is False
    assert "muster.dev/queue-name" not in made["metadata"]["labels"]
    made = await place.create(PODS, named(bare()))
    assert "schedulingGates" not in made["spec"]


async def test_a_namespace_that_gets_a_queue_is_gated_from_then_on(
    guarded_cluster: LocalCluster, namespaces: dict[str, EditedNamespace]
) -> None:
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        await admin.create(NAMESPACES.path(), {"metadata": {"name": "ways-later"}})
        queue = annotated("scheduling.volcano.sh/queue-name", "team-c")
        named = msgspec.json.decode(await admin.patch(NAMESPACES.path(name="ways-later"), queue))
        assert named["metadata"]["labels"]["muster.dev/gated"] == "true"


@with_rows("mode", "refused")
async def test_a_namespace_says_until_when_its_pods_are_adopted(
    guarded_cluster: LocalCluster, mode: dict[str, str], refused: bool
) -> None:
    async with await Client.connect(guarded_cluster.kubeconfig) as admin:
        namespace = {"metadata": {"name": "ways-adopted", "annotations": mode}}
        if not refused:
            await admin.create(NAMESPACES.path(), namespace, dry_run=True)
            return
        with pytest.raises(ApiRefused, match="adopt-until"):
            await admin.create(NAMESPACES.path(), namespace, dry_run=True)


# -- what stays allowed ---------------------------------------------------------------------------------------


async def test_counts_and_priority_of_a_volcano_job_may_change(
    namespaces: dict[str, EditedNamespace],
) -> None:
    place = namespaces[PLAIN]
    made = await place.create(VOLCANO_JOBS, named(volcano_job()))
    tasks = made["spec"]["tasks"]
    patch = {
        "minAvailable": 0,
        "priorityClassName": "high",
        "tasks": [{**tasks[0], "replicas": 3, "minAvailable": 2}],
    }
    changed = await place.change(VOLCANO_JOBS, made["metadata"]["name"], {"spec": patch})
    assert changed["spec"]["tasks"][0]["replicas"] == 3


async def test_work_without_a_queue_is_nobodys_business(namespaces: dict[str, EditedNamespace]) -> None:
    place = namespaces[PLAIN]
    made = await place.create(JOBS, named(SUSPENDED))
    started = await place.change(JOBS, made["metadata"]["name"], {"spec": {"suspend": False}})
    assert started["spec"]["suspend"] is False
    system = bare({"generateName": "way-"}, priorityClassName="system-node-critical", nodeName="n1")
    assert "schedulingGates" not in (await place.create(PODS, system))["spec"]
