"""Kueue's labels and annotations, in namespaces that say where a LocalQueue leads, and in those that do not."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from deploy.local.cluster import LocalCluster
from queues.api.api_resources import DEPLOYMENTS, LEADER_WORKER_SETS, PRIORITY_CLASSES, ApiResource
from queues.errors import ApiError
from tests.builders.operator_resources import JOB_SETS, MPI_JOBS, RAY_CLUSTERS
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, batch_job, becomes, pod
from tests.kube.support.guarded_namespace import GATE, GuardedNamespace, guarded_namespace_in

QUEUE = "muster.dev/queue-name"
KUEUE = "kueue.x-k8s.io"
SWITCH = {"muster.dev/kueue-names": "true"}
LEADS = {"local-queue.muster.dev/gpus": "vision"}
NAMED = {f"{KUEUE}/queue-name": "gpus"}
TOPOLOGY = {
    f"{KUEUE}/podset-required-topology": "example.com/rack",
    f"{KUEUE}/podset-slice-required-topology": "kubernetes.io/hostname",
    f"{KUEUE}/podset-slice-size": "4",
    f"{KUEUE}/podset-group-name": "ring",
}
AS_MUSTERS = {
    "muster.dev/required-topology": "example.com/rack",
    "muster.dev/partitions": "4=kubernetes.io/hostname",
    "muster.dev/together": "ring",
}


@pytest_asyncio.fixture
async def switched(guarded_cluster: LocalCluster) -> AsyncIterator[GuardedNamespace]:
    """A namespace in which Kueue's names count."""
    async for one in guarded_namespace_in(guarded_cluster, {"labels": SWITCH, "annotations": LEADS}):
        await translation_is_in_force(one)
        yield one


async def translation_is_in_force(guarded: GuardedNamespace) -> None:
    """The API server notices new policies, and labels of a namespace, after a moment."""
    admin = await guarded.as_user("admin")
    probes = {"pods": pod("probe", labels=NAMED, annotations=TOPOLOGY), "jobs": kueues_job("probe", TOPOLOGY)}

    async def translated(resource: str) -> bool:
        made = await admin.create(guarded.path(resource), probes[resource], dry_run=True)
        return b"muster.dev/together" in made and b'"vision"' in made

    for resource in probes:
        await becomes(partial(translated, resource))


def kueues_job(name: str = "train", annotations: dict[str, str] | None = None, **labels: str) -> Any:
    job = batch_job(name, labels={**NAMED, **labels})
    job["spec"]["suspend"] = True
    job["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    return job


def template_of(job: Any) -> Any:
    return job["spec"]["template"]


async def test_a_job_waits_in_the_queue_that_its_local_queue_leads_to(switched: GuardedNamespace) -> None:
    made = await switched.create(
        "jobs", kueues_job(annotations=TOPOLOGY, **{f"{KUEUE}/priority-class": "high"})
    )

    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"][QUEUE] == "vision"
    assert template_of(made)["metadata"]["labels"][QUEUE] == "vision"
    annotations = template_of(made)["metadata"]["annotations"]
    assert {key: annotations.get(key) for key in AS_MUSTERS} == AS_MUSTERS
    assert template_of(made)["spec"]["priorityClassName"] == "high"
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_job_that_may_start_with_fewer_pods_or_grow_may_do_so(switched: GuardedNamespace) -> None:
    job = kueues_job(annotations=TOPOLOGY)
    said = {f"{KUEUE}/job-min-parallelism": "2", f"{KUEUE}/elastic-job": "true"}
    job["metadata"]["annotations"] = said
    made = await switched.create("jobs", job)
    job["metadata"] |= {"name": "own", "annotations": {**said, "muster.dev/may-grow": "false"}}
    own = await switched.create("jobs", job)

    annotations = made["metadata"]["annotations"]
    assert annotations["scheduling.volcano.sh/group-min-member"] == "2"
    assert annotations["muster.dev/may-grow"] == "true"
    assert own["metadata"]["annotations"]["muster.dev/may-grow"] == "false"


async def test_a_job_that_is_not_suspended_is(switched: GuardedNamespace) -> None:
    job = kueues_job()
    del job["spec"]["suspend"]
    made = await switched.create("jobs", job)
    assert made["spec"]["suspend"] is True
    changed = await switched.patch("jobs", "train", {"spec": {"suspend": False}})
    assert changed["spec"]["suspend"] is True


async def test_a_pod_waits_in_the_queue_that_its_local_queue_leads_to(switched: GuardedNamespace) -> None:
    made = await switched.create("pods", pod("a", labels=NAMED, annotations=TOPOLOGY))

    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"][QUEUE] == "vision"
    assert AS_MUSTERS.items() <= made["metadata"]["annotations"].items()


async def test_pods_of_a_group_name_a_podgroup_and_its_size(switched: GuardedNamespace) -> None:
    labels = {**NAMED, f"{KUEUE}/pod-group-name": "ring"}
    size = f"{KUEUE}/pod-group-total-count"
    made = await switched.create("pods", pod("a", labels=labels, annotations={size: "3"}))
    wrong = await switched.create("pods", pod("b", labels=labels, annotations={size: "three"}))

    group, minimum = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"
    assert made["metadata"]["annotations"][group] == "podgroup-pods-ring"
    assert made["metadata"]["annotations"][minimum] == "3"
    assert made["metadata"]["labels"][QUEUE] == "vision"
    assert made["spec"]["schedulingGates"] == GATE
    assert wrong["metadata"]["annotations"][group] == "podgroup-pods-ring"
    assert minimum not in wrong["metadata"]["annotations"], "it waits, and its group is told to be missing"


async def test_without_the_switch_kueues_objects_are_passed_over(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", labels=NAMED, annotations=TOPOLOGY))
    job = await guarded.create(
        "jobs", kueues_job(annotations=TOPOLOGY, **{f"{KUEUE}/priority-class": "high"})
    )

    assert made["metadata"] | {"labels": NAMED, "annotations": TOPOLOGY} == made["metadata"]
    assert "schedulingGates" not in made["spec"]
    assert QUEUE not in job["metadata"]["labels"]
    assert template_of(job)["metadata"]["annotations"] == TOPOLOGY
    assert "priorityClassName" not in template_of(job)["spec"]
    await guarded.patch("jobs", "train", {"spec": {"suspend": False}})


async def test_a_local_queue_that_leads_nowhere_is_a_queue_of_its_name(switched: GuardedNamespace) -> None:
    made = await switched.create("pods", pod("a", labels={f"{KUEUE}/queue-name": "other"}))
    assert made["metadata"]["labels"][QUEUE] == "other"
    assert made["spec"]["schedulingGates"] == GATE


async def test_what_names_no_queue_runs_at_once(switched: GuardedNamespace) -> None:
    made = await switched.create("pods", pod("a", annotations=TOPOLOGY))
    assert "schedulingGates" not in made["spec"]


async def test_musters_own_names_come_first(switched: GuardedNamespace) -> None:
    own = {"muster.dev/required-topology": "example.com/block"}
    labels = {QUEUE: "speech", **NAMED}
    made = await switched.create("pods", pod("a", labels=labels, annotations={**TOPOLOGY, **own}))

    assert made["metadata"]["labels"][QUEUE] == "speech"
    assert made["metadata"]["annotations"]["muster.dev/required-topology"] == "example.com/block"
    assert made["metadata"]["annotations"]["muster.dev/together"] == "ring"


async def test_a_namespace_with_a_default_queue_counts_kueues_annotations_of_what_names_none(
    guarded_cluster: LocalCluster,
) -> None:
    annotations = {**LEADS, QUEUE: "shared"}
    async for both in guarded_namespace_in(guarded_cluster, {"labels": SWITCH, "annotations": annotations}):
        made = await both.create("pods", pod("a", annotations=TOPOLOGY))
        assert made["metadata"]["labels"][QUEUE] == "shared"
        assert AS_MUSTERS.items() <= made["metadata"]["annotations"].items()
        named = await both.create("pods", pod("b", labels=NAMED))
        assert named["metadata"]["labels"][QUEUE] == "vision"


async def test_kueues_label_counts_where_it_stands_at_creation(switched: GuardedNamespace) -> None:
    job = kueues_job()
    del job["metadata"]["labels"]
    await switched.create("jobs", job)
    later = await switched.patch("jobs", "train", {"metadata": {"labels": NAMED}})
    assert later["metadata"]["labels"].items() >= NAMED.items()
    assert QUEUE not in later["metadata"]["labels"]
    named = await switched.patch("jobs", "train", {"metadata": {"labels": {QUEUE: "vision"}}})
    assert named["metadata"]["labels"][QUEUE] == "vision"


async def test_a_pod_that_waits_in_no_queue_is_in_no_group(switched: GuardedNamespace) -> None:
    made = await switched.create("pods", pod("a", labels={f"{KUEUE}/pod-group-name": "ring"}))
    assert "annotations" not in made["metadata"]
    assert "schedulingGates" not in made["spec"]


async def test_a_deployment_has_its_queue_and_its_class_in_its_template(switched: GuardedNamespace) -> None:
    made = await deployment(switched, {**NAMED, f"{KUEUE}/priority-class": "high"})
    assert template_of(made)["metadata"]["labels"][QUEUE] == "vision"
    assert template_of(made)["spec"]["priorityClassName"] == "high"


async def test_what_was_there_before_kueues_names_counted_is_not_rolled_out_again(
    guarded: GuardedNamespace,
) -> None:
    before = await deployment(guarded, NAMED)
    admin = await guarded.as_user("admin")
    change = {"metadata": {"labels": SWITCH, "annotations": LEADS}}
    await admin.patch(f"/api/v1/namespaces/{guarded.namespace}", change)

    await translation_is_in_force(guarded)
    path = DEPLOYMENTS.path(guarded.namespace, "web")
    annotated = {"metadata": {"annotations": {"example.com/revision": "2"}}}
    after = msgspec.json.decode(await (await guarded.as_user("alice")).patch(path, annotated))
    assert after["spec"]["template"] == before["spec"]["template"]


async def deployment(switched: GuardedNamespace, labels: dict[str, str]) -> Any:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    return await created(switched, DEPLOYMENTS, document)


async def created(switched: GuardedNamespace, resource: ApiResource, document: Any) -> Any:
    client = await switched.as_user("alice")
    return msgspec.json.decode(await client.create(resource.path(switched.namespace), document))


@pytest.mark.parametrize("own", [None, "preempting", "never-preempting"])
async def test_a_pod_gets_the_class_of_its_label_and_preempts_nobody(
    switched: GuardedNamespace, own: str | None
) -> None:
    admin = await switched.as_user("admin")
    high = f"{switched.namespace}-high"
    await admin.create(PRIORITY_CLASSES.path(), priority_class(high))
    of_pod = {} if own is None else {"priorityClassName": f"{switched.namespace}-{own}"}
    if own is not None:
        policy = {"never-preempting": "Never", "preempting": "PreemptLowerPriority"}[own]
        other = {**priority_class(of_pod["priorityClassName"]), "value": 5, "preemptionPolicy": policy}
        await admin.create(PRIORITY_CLASSES.path(), other)

    async def spec() -> Any:
        labels = {**NAMED, f"{KUEUE}/priority-class": high}
        alice = await switched.as_user("alice")
        path = switched.path("pods")
        document = pod("a", labels=labels, **of_pod)
        return msgspec.json.decode(await alice.create(path, document, dry_run=True))["spec"]

    async def has_class() -> bool:  # the API server notices the classes after a moment
        return bool((await spec()).get("priorityClassName") == high)

    await becomes(has_class, despite=ApiError)
    made = await spec()
    assert (made["priorityClassName"], made["priority"], made["preemptionPolicy"]) == (high, 1000, "Never")


def priority_class(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": name, **metadata},
        "value": 1000,
    }


def pod_template(annotations: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "spec": pod("x")["spec"]}


def specs(annotations: dict[str, str]) -> dict[ApiResource, tuple[dict[str, Any], list[str]]]:
    """Specs of operators' kinds, with the paths of their templates."""
    template, plain = pod_template(annotations), {"spec": pod("x")["spec"]}
    job = {"spec": {"template": template}}
    return {
        JOB_SETS: (
            {"replicatedJobs": [{"name": "a", "template": job}, {"name": "b", "template": job}]},
            ["replicatedJobs.0.template.spec.template", "replicatedJobs.1.template.spec.template"],
        ),
        MPI_JOBS: (
            {"mpiReplicaSpecs": {"Launcher": {"template": plain}, "Worker": {"template": template}}},
            ["mpiReplicaSpecs.Worker.template"],
        ),
        RAY_CLUSTERS: (
            {"headGroupSpec": {"template": template}, "workerGroupSpecs": [{"template": template}]},
            ["headGroupSpec.template", "workerGroupSpecs.0.template"],
        ),
        LEADER_WORKER_SETS: (
            {"leaderWorkerTemplate": {"workerTemplate": template}},
            ["leaderWorkerTemplate.workerTemplate"],
        ),
    }


def at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part) if part.isdecimal() else part]
    return value


async def test_operators_kinds_wait_in_the_queue_and_their_templates_are_translated(
    switched: GuardedNamespace,
) -> None:
    admin = await switched.as_user("admin")
    for resource, (spec, paths) in specs(TOPOLOGY).items():
        await applied(admin, definition(resource))
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "train", "labels": {**NAMED, f"{KUEUE}/priority-class": "high"}},
            "spec": spec,
        }

        async def accepted(resource: ApiResource = resource, document: Any = document) -> bool:
            try:
                await created(switched, resource, document)
            except ApiError as error:
                if error.facts["status"] not in (404, 503):
                    raise
                return False
            return True

        await becomes(accepted)
        made = msgspec.json.decode(await admin.get(resource.path(switched.namespace, "train")))
        if resource is not LEADER_WORKER_SETS:
            assert made["metadata"]["labels"][QUEUE] == "vision", resource.kind
        for path in paths:
            found = at(made["spec"], path)
            assert AS_MUSTERS.items() <= found["metadata"]["annotations"].items(), (resource.kind, path)
            assert found["spec"]["priorityClassName"] == "high", (resource.kind, path)
            if resource is LEADER_WORKER_SETS:
                assert found["metadata"]["labels"][QUEUE] == "vision"
