"""Every way to run a pod in a gated namespace without an admission, tried by an ordinary editor of the namespace.

Each is refused by the API server with a sentence, or what it made waits.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import DAEMON_SETS, JOBS, NAMESPACES, PODS, VOLCANO_JOBS, ApiResource, Document
from queues.errors import ApiError, ApiRefused
from tests.kube.support.cluster_objects import becomes
from tests.kube.support.editors import EDITOR, EditedNamespace, edited_namespaces
from tests.kube.support.evasion_attempts import (
    ANNOTATED,
    BOB,
    CHANGES,
    CREATIONS,
    DIRECTED,
    GATED,
    LET_GO,
    LOSSES,
    METADATA,
    OFF,
    OWNERS,
    PLAIN,
    SUSPENDED,
    Change,
    Creation,
    annotated,
    bare,
    job,
    labelled,
    member_of,
    owner,
    volcano_job,
)
from tests.kube.support.guarded_namespace import GATE


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
    found: list[Any] = []

    async def there() -> bool:
        found[:] = await place.read(PODS, labelSelector=f"app={kind.plural}")
        return bool(found)

    await becomes(there)
    assert _waits({"kind": "Pod", **found[0]})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.title} in {change.where}")
async def test_an_editor_changes_nothing_that_starts_a_pod(
    namespaces: dict[str, EditedNamespace], change: Change
) -> None:
    place, kind = namespaces[change.where], change.kind
    made = await place.create(kind, named(change.before))
    name = made["metadata"]["name"]
    if change.released is not None:
        await place.change(kind, name, change.released, by=place.muster)
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
    found: list[Any] = []

    async def there() -> bool:
        found[:] = await place.read(PODS, labelSelector=f"job-name={made['metadata']['name']}")
        return bool(found)

    await becomes(there)
    pods = {"Job": found[0]["metadata"]["name"]}
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
    name = (await place.create(JOBS, named(job())))["metadata"]["name"]
    await place.change(JOBS, name, DIRECTED, by=place.muster)
    found: list[Any] = []

    async def there() -> bool:
        found[:] = await place.read(PODS, labelSelector=f"job-name={name}")
        return bool(found)

    async def let_go() -> bool:
        return await there() and "ownerReferences" not in found[0]["metadata"]

    await becomes(there)
    await place.editor.delete(JOBS.path(place.name, name), propagation="Orphan")
    await becomes(let_go)
    assert len(found) == 1


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
    with pytest.raises(ApiRefused, match="until Muster admits"):
        await place.change(JOBS, made["metadata"]["name"], {"spec": {"suspend": False}})


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


@pytest.mark.parametrize(
    ("mode", "refused"),
    [
        ({"muster.dev/adopt": "true"}, True),
        ({"muster.dev/adopt": "true", "muster.dev/adopt-until": "tomorrow"}, True),
        ({"muster.dev/adopt": "yes", "muster.dev/adopt-until": "2026-12-31T18:00:00Z"}, True),
        ({"muster.dev/adopt": "true", "muster.dev/adopt-until": "2026-12-31T18:00:00Z"}, False),
        ({"muster.dev/adopt": "false"}, False),
    ],
)
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
