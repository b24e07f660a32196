"""Owners of pods that are no Jobs: their templates name the queue, and the gang, that the owner names."""

from typing import Any

import msgspec
import pytest

from queues.api.api_resources import CRON_JOBS, DEPLOYMENTS, STATEFUL_SETS, ApiResource
from tests.kube.support.guarded_namespace import QUEUED, GuardedNamespace

QUEUE = "muster.dev/queue-name"
GROUP, MINIMUM = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"
Metadata = dict[str, Any]


def owner(resource: ApiResource, template: Metadata | None = None, **metadata: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "x"}]}
    metadata = {"name": "web", **metadata}
    labelled = {**(template or {}), "labels": {"app": "web", **(template or {}).get("labels", {})}}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": labelled, "spec": pod},
    }
    if resource is CRON_JOBS:
        job = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def create(guarded: GuardedNamespace, resource: ApiResource, *more: Any, **metadata: Any) -> Any:
    client = await guarded.as_user("alice")
    document = owner(resource, *more, **metadata)
    return msgspec.json.decode(await client.create(resource.path(guarded.namespace), document))


async def change(guarded: GuardedNamespace, resource: ApiResource, patch: Any) -> Any:
    client = await guarded.as_user("alice")
    return msgspec.json.decode(await client.patch(resource.path(guarded.namespace, "web"), patch))


def template_of(document: Any) -> Metadata:
    found: Metadata = document["spec"]["template"]["metadata"]
    return found


@pytest.mark.parametrize(
    ("metadata", "template", "expected"),
    [
        ({"labels": QUEUED}, {}, "team-a"),
        ({"annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}, {}, "team-a"),
        ({"labels": QUEUED}, {"labels": {QUEUE: "its-own"}}, "its-own"),
        ({}, {}, None),
    ],
    ids=["by label", "by Volcano's annotation", "the template has another", "no queue"],
)
async def test_a_template_names_the_queue_of_its_owner(
    guarded: GuardedNamespace, metadata: Metadata, template: Metadata, expected: str | None
) -> None:
    made = await create(guarded, DEPLOYMENTS, template, **metadata)
    assert template_of(made)["labels"].get(QUEUE) == expected
    assert GROUP not in template_of(made).get("annotations", {})


async def test_an_owner_moves_its_template_to_another_queue(guarded: GuardedNamespace) -> None:
    await create(guarded, DEPLOYMENTS)
    entered = await change(guarded, DEPLOYMENTS, {"metadata": {"labels": QUEUED}})
    assert template_of(entered)["labels"][QUEUE] == "team-a"
    moved = await change(guarded, DEPLOYMENTS, {"metadata": {"labels": {QUEUE: "team-b"}}})
    assert template_of(moved)["labels"][QUEUE] == "team-b"
    scaled = await change(guarded, DEPLOYMENTS, {"spec": {"replicas": 3}})
    assert scaled["spec"]["template"] == moved["spec"]["template"], "nothing to roll out"


async def test_the_template_names_the_gang_while_its_owner_is_one(guarded: GuardedNamespace) -> None:
    made = await create(guarded, DEPLOYMENTS, labels=QUEUED, annotations={MINIMUM: "3"})
    assert template_of(made)["annotations"] == {GROUP: "podgroup-deployment-web", MINIMUM: "3"}
    smaller = await change(guarded, DEPLOYMENTS, {"metadata": {"annotations": {MINIMUM: "2"}}})
    assert template_of(smaller)["annotations"][MINIMUM] == "2"
    none = await change(guarded, DEPLOYMENTS, {"metadata": {"annotations": {MINIMUM: None}}})
    assert template_of(none).get("annotations", {}) == {}


@pytest.mark.parametrize("said", ["1", "0", "many"])
async def test_less_than_two_pods_are_no_gang(guarded: GuardedNamespace, said: str) -> None:
    made = await create(guarded, DEPLOYMENTS, labels=QUEUED, annotations={MINIMUM: said})
    assert "annotations" not in template_of(made)


@pytest.mark.parametrize("said", ["1", "0", "many"])
async def test_an_owner_is_no_gang_any_more_once_it_says_less_than_two(
    guarded: GuardedNamespace, said: str
) -> None:
    await create(guarded, DEPLOYMENTS, labels=QUEUED, annotations={MINIMUM: "3"})
    none = await change(guarded, DEPLOYMENTS, {"metadata": {"annotations": {MINIMUM: said}}})
    assert template_of(none).get("annotations", {}) == {}
    again = await change(guarded, DEPLOYMENTS, {"spec": {"replicas": 3}})
    assert again["spec"]["template"] == none["spec"]["template"], "nothing to roll out"


@pytest.mark.parametrize(
    ("resource", "running", "change_of_spec", "is_gang"),
    [
        (DEPLOYMENTS, {}, {}, False),
        (DEPLOYMENTS, {}, {"replicas": 0}, True),
        (DEPLOYMENTS, {"strategy": {"type": "Recreate"}}, {}, True),
        (STATEFUL_SETS, {"podManagementPolicy": "Parallel"}, {}, False),
        (STATEFUL_SETS, {"podManagementPolicy": "Parallel"}, {"replicas": 0}, True),
        (STATEFUL_SETS, {}, {"replicas": 0}, False),
    ],
    ids=[
        "a rollout",
        "without pods",
        "all pods anew",
        "a rollout of a StatefulSet",
        "a StatefulSet without pods",
        "a StatefulSet that makes them in turn",
    ],
)
async def test_pods_that_run_become_a_gang_only_if_all_come_again_together(
    guarded: GuardedNamespace, resource: ApiResource, running: Any, change_of_spec: Any, is_gang: bool
) -> None:
    client = await guarded.as_user("alice")
    document = owner(resource, labels=QUEUED)
    document["spec"] |= {"replicas": 4, **running}
    await client.create(resource.path(guarded.namespace), document)
    patch = {"metadata": {"annotations": {MINIMUM: "4"}}, "spec": change_of_spec}
    changed = await change(guarded, resource, patch)
    group = {GROUP: f"podgroup-{resource.kind.lower()}-web", MINIMUM: "4"}
    assert template_of(changed).get("annotations", {}) == (group if is_gang else {})
    if is_gang:
        larger = await change(guarded, resource, {"metadata": {"annotations": {MINIMUM: "5"}}})
        assert template_of(larger)["annotations"][MINIMUM] == "5"
    elif resource is DEPLOYMENTS:
        empty = await change(guarded, resource, {"spec": {"replicas": 0}})
        assert template_of(empty)["annotations"] == group, "any change while it has no pods"


async def test_a_gang_stays_one_when_its_owner_is_written_without_it(guarded: GuardedNamespace) -> None:
    made = await create(guarded, DEPLOYMENTS, labels=QUEUED, annotations={MINIMUM: "3"})
    bare = [{"op": "remove", "path": "/spec/template/metadata/annotations"}]
    client = await guarded.as_user("alice")
    path = DEPLOYMENTS.path(guarded.namespace, "web")
    again = msgspec.json.decode(await client.patch(path, bare, kind="json"))
    assert again["spec"]["template"] == made["spec"]["template"]


async def test_a_gang_with_a_pod_group_of_its_own_keeps_it(guarded: GuardedNamespace) -> None:
    template = {"annotations": {GROUP: "mine"}}
    made = await create(guarded, DEPLOYMENTS, template, labels=QUEUED, annotations={MINIMUM: "3"})
    assert template_of(made)["annotations"] == {GROUP: "mine"}


async def test_pods_of_a_stateful_set_start_together_only_if_they_are_a_gang(
    guarded: GuardedNamespace, gated: GuardedNamespace
) -> None:
    alone = await create(guarded, STATEFUL_SETS, labels=QUEUED)
    assert alone["spec"]["podManagementPolicy"] == "OrderedReady"
    together = await create(gated, STATEFUL_SETS, labels=QUEUED, annotations={MINIMUM: "2"})
    assert together["spec"]["podManagementPolicy"] == "Parallel"
    assert template_of(together)["annotations"][GROUP] == "podgroup-statefulset-web"


async def test_an_owner_that_another_one_controls_is_left_to_that_one(guarded: GuardedNamespace) -> None:
    reference = {"apiVersion": "example.com/v1", "kind": "App", "name": "a", "uid": "1", "controller": True}
    made = await create(guarded, DEPLOYMENTS, labels=QUEUED, ownerReferences=[reference])
    assert QUEUE not in template_of(made)["labels"]


async def test_jobs_of_a_cron_job_name_its_queue(guarded: GuardedNamespace) -> None:
    made = await create(guarded, CRON_JOBS, labels=QUEUED)
    assert made["spec"]["jobTemplate"]["metadata"]["labels"] == QUEUED
