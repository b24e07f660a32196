"""Kinds that do not wait themselves, on a real API server: their queue stands where their operators take it from."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import ApiResource
from queues.api.workload_kinds import OPERATOR_KINDS, PASSING_KINDS
from queues.errors import ApiError
from tests.e2e.support.operators import definition, value_at
from tests.kube.support.cluster_objects import applied, becomes
from tests.kube.support.guarded_namespace import QUEUED, GuardedNamespace

QUEUE = "muster.dev/queue-name"
RESOURCES = {each.resource.kind: each.resource for each in (*PASSING_KINDS, *OPERATOR_KINDS)}
#: Those that are suspended with what is made of them have policies of another form.
SUSPENDED = [maker.kind for each in OPERATOR_KINDS for maker in each.suspended_with]
PLAYED = [
    each.resource.kind
    for each in PASSING_KINDS
    if "." in each.resource.group and each.resource.kind not in SUSPENDED
]
POD: dict[str, Any] = {"containers": [{"name": "main", "image": "x"}]}
TEMPLATE: dict[str, Any] = {"spec": POD}
LWS = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}}
ANNOTATED = {"scheduling.volcano.sh/queue-name": "team-a"}
LABELLED = {"metadata": {"labels": {QUEUE: "team-a"}}}

#: A spec of each kind, and what of the object has to say the queue.
SPECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "DisaggregatedSet": (
        {"roles": [{"name": "prefill", "spec": LWS}, {"name": "decode", "spec": LWS}]},
        {
            "spec": {
                "roles": [
                    {
                        "name": name,
                        "spec": {
                            "leaderWorkerTemplate": {"size": 2, "workerTemplate": {**TEMPLATE, **LABELLED}}
                        },
                    }
                    for name in ("prefill", "decode")
                ]
            }
        },
    ),
    "LeaderWorkerSet": (
        {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
        {"spec": {"leaderWorkerTemplate": {"leaderTemplate": LABELLED, "workerTemplate": LABELLED}}},
    ),
    "MiniCluster": ({"size": 4}, {"spec": {"jobLabels": {QUEUE: "team-a"}}}),
    "Workflow": (
        {"podMetadata": {"annotations": {"a": "b"}}},
        {"spec": {"podMetadata": {"labels": {QUEUE: "team-a"}}}},
    ),
    "CronWorkflow": (
        {"workflowSpec": {"entrypoint": "main"}},
        {"spec": {"workflowSpec": {"podMetadata": {"labels": {QUEUE: "team-a"}}}}},
    ),
    "RayCronJob": (
        {"jobTemplate": {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}}},
        {"spec": {"jobTemplate": {"rayClusterSpec": {"headGroupSpec": {"template": LABELLED}}}}},
    ),
    "SparkConnect": (
        {"server": {"template": TEMPLATE}, "executor": {}},
        {**LABELLED, "spec": {"server": {"template": {**TEMPLATE, **LABELLED}}}},
    ),
    "ScheduledSparkApplication": ({"schedule": "@every 1h"}, LABELLED),
    "RayService": ({"rayClusterConfig": {}}, LABELLED),
    "PodCliqueSet": (
        {"template": {"cliques": [{"name": "a", "spec": {"podSpec": POD}}]}},
        {
            "metadata": {"annotations": {"scheduling.grove.io/volcano-queue": "team-a"}},
            "spec": {
                "template": {
                    "cliques": [{"name": "a", "spec": {"podSpec": {**POD, "schedulerName": "volcano"}}}]
                }
            },
        },
    ),
}


def document(kind: str, spec: Any, name: str = "train", **metadata: Any) -> dict[str, Any]:
    resource = RESOURCES[kind]
    is_place = kind in ("ScheduledSparkApplication", "RayService")
    named = {"annotations": ANNOTATED} if is_place else {"labels": QUEUED}
    meta = {"name": name, **named, **metadata}
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": meta, "spec": deepcopy(spec)}


@pytest_asyncio.fixture(scope="session")
async def served(guarded_cluster: LocalCluster) -> None:
    """The kinds are there, and the policies have learned of them."""
    async with await Client.connect(guarded_cluster.kubeconfig) as client:
        for kind in (*PLAYED, "RayJob"):
            await applied(client, definition(RESOURCES[kind]))

        async def is_served(resource: ApiResource) -> bool:
            spec = SPECS.get(resource.kind, ({"shutdownAfterJobFinishes": True},))[0]
            probe = document(resource.kind, spec, "probe")
            made = await client.create(resource.path("default"), probe, dry_run=True)
            return made.count(b"team-a") > 1  # once as it was written

        for kind in PLAYED:
            await becomes(partial(is_served, RESOURCES[kind]), despite=ApiError)


@pytest_asyncio.fixture
async def alice(guarded: GuardedNamespace, served: None) -> Client:
    return await guarded.as_user("alice")


def has(found: Any, wanted: Any) -> bool:
    """Whether a document says all of this."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(has(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(has, found, wanted))
    return bool(found == wanted)


def test_every_kind_is_tried() -> None:
    assert SPECS.keys() == set(PLAYED)


@pytest.mark.parametrize("kind", PLAYED)
async def test_the_queue_is_written_where_the_operator_takes_it_from(
    guarded: GuardedNamespace, alice: Client, kind: str
) -> None:
    spec, expected = SPECS[kind]
    path = RESOURCES[kind].path(guarded.namespace)
    made = msgspec.json.decode(await alice.create(path, document(kind, spec)))
    assert has(made, expected)
    # The file applied again by a client that leaves nothing as it was.
    again = document(kind, spec, resourceVersion=made["metadata"]["resourceVersion"])
    assert has(msgspec.json.decode(await alice.replace(f"{path}/train", again)), expected)
    moved = msgspec.json.decode(
        await alice.patch(f"{path}/train", {"metadata": {"labels": {QUEUE: "team-b"}}})
    )
    assert has(moved, msgspec.json.decode(msgspec.json.encode(expected).replace(b"team-a", b"team-b")))
    other = msgspec.json.decode(await alice.create(path, document(kind, spec, "other", labels={})))
    assert value_at(other, ("spec",)) == spec


async def test_a_place_with_a_queue_of_its_own_keeps_it(guarded: GuardedNamespace, alice: Client) -> None:
    own = {"size": 4, "jobLabels": {QUEUE: "its-own"}}
    path = RESOURCES["MiniCluster"].path(guarded.namespace)
    made = msgspec.json.decode(await alice.create(path, document("MiniCluster", own)))
    assert made["spec"]["jobLabels"] == {QUEUE: "its-own"}


async def test_a_place_that_is_absent_is_left_out(guarded: GuardedNamespace, alice: Client) -> None:
    path = RESOURCES["DisaggregatedSet"].path(guarded.namespace)
    roles = {"roles": [{"name": "a"}, {"name": "b", "spec": LWS}]}
    made = msgspec.json.decode(await alice.create(path, document("DisaggregatedSet", roles)))
    assert made["spec"]["roles"][0] == {"name": "a"}
    assert "labels" in made["spec"]["roles"][1]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]


async def test_an_object_that_another_one_controls_is_its_to_label(
    guarded: GuardedNamespace, alice: Client
) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "a", "uid": "u", "controller": True}
    path = RESOURCES["MiniCluster"].path(guarded.namespace)
    made = document("MiniCluster", {"size": 4}, ownerReferences=[owner])
    assert "jobLabels" not in msgspec.json.decode(await alice.create(path, made))["spec"]


async def test_a_ray_job_of_a_schedule_takes_the_queue_of_its_head(
    guarded: GuardedNamespace, alice: Client
) -> None:
    path = RESOURCES["RayJob"].path(guarded.namespace)
    spec = {
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"template": {**TEMPLATE, **LABELLED}}},
    }
    by_user = msgspec.json.decode(await alice.create(path, document("RayJob", spec, "by-user", labels={})))
    assert "suspend" not in by_user["spec"]
    owner = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "name": "nightly",
        "uid": "u",
        "controller": True,
    }
    made = msgspec.json.decode(
        await alice.create(
            path, document("RayJob", spec, "of-a-schedule", labels={}, ownerReferences=[owner])
        )
    )
    assert made["metadata"]["labels"][QUEUE] == "team-a"
    assert made["spec"]["suspend"] is True
