"""Objects of other projects, evaluated by a real API server: who resumes them, and what their templates say."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import ApiResource
from queues.errors import ApiError, ApiRefused
from tests.builders.operator_resources import PYTORCH_JOBS, RAY_CLUSTERS, RAY_JOBS, SPARK_APPLICATIONS
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, becomes
from tests.kube.support.guarded_namespace import MUSTER, QUEUED, GuardedNamespace
from tests.tables import with_rows

QUEUE, MEMBER, USER = "muster.dev/queue-name", "muster.dev/member-of", "muster.dev/user"
KINDS = (RAY_CLUSTERS, RAY_JOBS, PYTORCH_JOBS, SPARK_APPLICATIONS)
Document = dict[str, Any]
SYSTEM = "system-node-critical"


def template(**spec: Any) -> Document:
    return {"spec": {"containers": [{"name": "main", "image": "x"}], **spec}}


def workers(*names: str, **spec: Any) -> list[Document]:
    return [{"groupName": name, "replicas": 1, "template": template(**spec)} for name in names]


def ray(head: Document | None = None, groups: list[Document] | None = None) -> Document:
    return {
        "headGroupSpec": {"template": head or template()},
        "workerGroupSpecs": workers("small") if groups is None else groups,
    }


class Objects:
    """Objects of one kind in a namespace, each named ``train``."""

    def __init__(self, guarded: GuardedNamespace, kind: ApiResource) -> None:
        self._guarded, self._kind = guarded, kind

    async def create(self, spec: Document, **metadata: Any) -> Document:
        client = await self._guarded.as_user("alice")
        meta = {"name": "train", "labels": QUEUED, **metadata}
        document = {
            "apiVersion": self._kind.api_version,
            "kind": self._kind.kind,
            "metadata": meta,
            "spec": spec,
        }
        made: Document = msgspec.json.decode(
            await client.create(self._kind.path(self._guarded.namespace), document)
        )
        return made

    async def change(self, patch: Any, *, by: str = "alice", kind: Any = "merge") -> Document:
        client = await self._guarded.as_user(by)
        path = self._kind.path(self._guarded.namespace, "train")
        made: Document = msgspec.json.decode(await client.patch(path, patch, kind=kind))
        return made

    async def resume(self, spec: Document) -> Document:
        """As Muster does: with these changes beside."""
        return await self.change({"spec": spec}, by=MUSTER)


@pytest_asyncio.fixture(scope="session")
async def served(guarded_cluster: LocalCluster) -> None:
    """The kinds are there, and the policies have learned of them."""
    async with await Client.connect(guarded_cluster.kubeconfig) as client:
        for kind in KINDS:
            await applied(client, definition(kind))

        async def waits(kind: ApiResource) -> bool:
            probe = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": "probe", "labels": QUEUED},
                "spec": {"shutdownAfterJobFinishes": True},
            }
            return b'"suspend":true' in await client.create(kind.path("default"), probe, dry_run=True)

        for kind in KINDS:
            await becomes(partial(waits, kind), despite=ApiError)


@pytest.fixture
def objects(guarded: GuardedNamespace, served: None) -> Callable[[ApiResource], Objects]:
    return lambda kind: Objects(guarded, kind)


ROLE = {"replicas": 1, "template": template()}
CRITICAL = template(priorityClassName=SYSTEM)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (RAY_CLUSTERS, ray(head=CRITICAL)),
        (RAY_CLUSTERS, ray(groups=[*workers("small"), *workers("big", priorityClassName=SYSTEM)])),
        (RAY_JOBS, {"rayClusterSpec": ray(head=CRITICAL), "shutdownAfterJobFinishes": True}),
        (
            RAY_JOBS,
            {"rayClusterSpec": ray(), "submitterPodTemplate": CRITICAL, "shutdownAfterJobFinishes": True},
        ),
        (PYTORCH_JOBS, {"runPolicy": {"schedulingPolicy": {"priorityClass": SYSTEM}}}),
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Master": ROLE, "Worker": {**ROLE, "template": CRITICAL}}}),
        (SPARK_APPLICATIONS, {"driver": {"priorityClassName": SYSTEM}, "executor": {}}),
    ],
)
async def test_nothing_in_a_queue_ranks_as_a_part_of_the_cluster(
    objects: Callable[[ApiResource], Objects], kind: ApiResource, spec: Document
) -> None:
    of_kind = objects(kind)
    with pytest.raises(
        ApiRefused, match=f'priorityClassName: found "{SYSTEM}", expected a class for workloads'
    ):
        await of_kind.create(spec)
    await of_kind.create(spec, labels={})
    with pytest.raises(ApiRefused, match="expected a class for workloads"):
        await of_kind.change({"metadata": {"labels": QUEUED}})


async def test_a_class_of_the_system_does_not_come_later(objects: Callable[[ApiResource], Objects]) -> None:
    clusters = objects(RAY_CLUSTERS)
    await clusters.create(ray())
    with pytest.raises(ApiRefused, match="expected a class for workloads"):
        await clusters.change({"spec": {"headGroupSpec": {"template": CRITICAL}}})
    await clusters.change({"spec": {"headGroupSpec": {"template": template(priorityClassName="high")}}})


async def test_the_name_of_the_user_stays(objects: Callable[[ApiResource], Objects]) -> None:
    clusters = objects(RAY_CLUSTERS)
    made = await clusters.create(ray(), annotations={USER: "bob"})
    assert made["metadata"]["annotations"][USER] == "alice"
    with pytest.raises(ApiRefused, match="which only Muster writes"):
        await clusters.change({"metadata": {"annotations": {USER: "bob"}}})
    kept = await clusters.change({"metadata": {"annotations": {USER: None}}})
    assert kept["metadata"]["annotations"][USER] == "alice"


async def test_one_that_enters_a_queue_later_has_the_name_of_who_put_it_there(
    objects: Callable[[ApiResource], Objects],
) -> None:
    clusters = objects(RAY_CLUSTERS)
    await clusters.create(ray(), labels={}, annotations={USER: "bob"})
    entered = await clusters.change({"metadata": {"labels": QUEUED}})
    assert entered["metadata"]["annotations"][USER] == "alice"
    assert entered["spec"]["suspend"] is True


def controlled(uid: str = "1") -> list[Document]:
    return [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": uid, "controller": True}]


async def test_no_owner_that_is_written_later_frees_an_object_from_its_queue(
    objects: Callable[[ApiResource], Objects],
) -> None:
    clusters = objects(RAY_CLUSTERS)
    await clusters.create(ray())
    for change in ({}, {"spec": {"suspend": False}}):
        with pytest.raises(ApiRefused, match="ownerReferences: found a controller written by alice"):
            await clusters.change({**change, "metadata": {"ownerReferences": controlled()}})


async def test_a_part_of_another_object_is_left_to_that(objects: Callable[[ApiResource], Objects]) -> None:
    clusters = objects(RAY_CLUSTERS)
    # An owner that exists: the garbage collector deletes what has none.
    job = await objects(RAY_JOBS).create({"rayClusterSpec": ray(), "shutdownAfterJobFinishes": True})
    made = await clusters.create(ray(), ownerReferences=controlled(job["metadata"]["uid"]))
    assert "suspend" not in made["spec"]
    changed = await clusters.change({"spec": {"suspend": True}})
    assert changed["spec"]["suspend"] is True
    assert (await clusters.change({"spec": {"suspend": False}}))["spec"]["suspend"] is False


@with_rows("more", "message")
async def test_a_ray_job_that_its_operator_would_not_suspend_does_not_enter_a_queue(
    objects: Callable[[ApiResource], Objects], more: Document, message: str
) -> None:
    jobs = objects(RAY_JOBS)
    with pytest.raises(ApiRefused, match=message):
        await jobs.create({"rayClusterSpec": ray(), **more})
    await jobs.create({"rayClusterSpec": ray(), **more}, labels={})
    with pytest.raises(ApiRefused, match=message):
        await jobs.change({"metadata": {"labels": QUEUED}})


async def test_a_ray_job_in_a_queue_stays_one_that_can_be_suspended(
    objects: Callable[[ApiResource], Objects],
) -> None:
    jobs = objects(RAY_JOBS)
    await jobs.create({"rayClusterSpec": ray()}, labels={})
    made = await jobs.change({"metadata": {"labels": QUEUED}})
    assert made["spec"]["shutdownAfterJobFinishes"], "it said nothing of it"
    made = await jobs.change({"spec": {"shutdownAfterJobFinishes": None}})
    assert made["spec"]["shutdownAfterJobFinishes"], "a file that says nothing of it was applied again"
    with pytest.raises(ApiRefused, match="found false, expected true"):
        await jobs.change({"spec": {"shutdownAfterJobFinishes": False}})


# ── templates of what runs ──────────────────────────────────────────────────────────────────────────────────────


def signed(made: Document, pod_set: str, kind: str = "raycluster") -> Document:
    """The metadata of a template that Muster has written."""
    member = f"{kind}/train/{made['metadata']['uid']}/{pod_set}"
    return {"labels": {QUEUE: "team-a"}, "annotations": {MEMBER: member}}


def written(made: Document) -> dict[str, Any]:
    """Metadata of the templates of a RayCluster."""
    groups = made["spec"]["workerGroupSpecs"]
    return {
        "head": made["spec"]["headGroupSpec"]["template"].get("metadata"),
        **{each["groupName"]: each["template"].get("metadata") for each in groups},
    }


async def running_cluster(clusters: Objects) -> Document:
    made = await clusters.create(ray())
    groups = workers("small")
    groups[0]["template"]["metadata"] = signed(made, "small")
    head = {"template": {"metadata": signed(made, "head")}}
    return await clusters.resume({"suspend": False, "headGroupSpec": head, "workerGroupSpecs": groups})


async def test_templates_of_what_runs_keep_what_muster_wrote_however_they_are_written(
    objects: Callable[[ApiResource], Objects],
) -> None:
    clusters = objects(RAY_CLUSTERS)
    made = await running_cluster(clusters)
    expected = {name: signed(made, name) for name in ("head", "small")}
    assert written(made) == expected

    assert written(await clusters.change({"spec": {"workerGroupSpecs": workers("small")}})) == expected
    grown = await clusters.change({"spec": {"workerGroupSpecs": workers("small", "big")}})
    assert written(grown) == {**expected, "big": signed(made, "big")}
    own = workers("big")
    own[0]["template"]["metadata"] = {"labels": {"app": "a", QUEUE: "team-b"}, "annotations": {MEMBER: "x"}}
    moved = await clusters.change({"spec": {"workerGroupSpecs": own}})
    big = signed(made, "big")
    assert written(moved)["big"] == {**big, "labels": {"app": "a", **big["labels"]}}
    bare = await clusters.change(
        [{"op": "remove", "path": "/spec/headGroupSpec/template/metadata"}], kind="json"
    )
    assert written(bare)["head"] == expected["head"]


async def test_roles_of_a_map_keep_it_too(objects: Callable[[ApiResource], Objects]) -> None:
    jobs = objects(PYTORCH_JOBS)
    made = await jobs.create({"pytorchReplicaSpecs": {"Worker": ROLE}})
    assert made["spec"]["runPolicy"]["suspend"] is True
    metadata = signed(made, "worker", "pytorchjob")
    role = {"Worker": {"template": {"metadata": metadata}}}
    await jobs.resume({"runPolicy": {"suspend": False}, "pytorchReplicaSpecs": role})
    place = "/spec/pytorchReplicaSpecs/Worker/template/metadata"
    again = await jobs.change([{"op": "remove", "path": place}], kind="json")
    assert again["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] == metadata


async def test_templates_of_what_waits_or_was_never_resumed_by_muster_are_left_alone(
    objects: Callable[[ApiResource], Objects],
) -> None:
    clusters = objects(RAY_CLUSTERS)
    await clusters.create(ray())
    changed = await clusters.change({"spec": {"workerGroupSpecs": workers("big")}})
    assert written(changed) == {"head": None, "big": None}
    await clusters.resume({"suspend": False})
    changed = await clusters.change({"spec": {"workerGroupSpecs": workers("small")}})
    assert written(changed) == {"head": None, "small": None}
