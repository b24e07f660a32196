"""AppWrappers: which pods their components make, and what is written for each set of them."""

from typing import Any

import msgspec
import pytest

from admission.facts.workloads import WorkloadFact
from admission.reconcile.operator_jobs import resumed
from admission.workloads.kinds import support_of
from queues.workload import QueueName, WorkloadKey, WorkloadKind

Document = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
AT = "template.spec.template"


def component(
    kind: str, spec: Document, *, version: str = "v1", metadata: Any = None, **more: Any
) -> Document:
    return {
        "template": {"apiVersion": version, "kind": kind, "metadata": metadata or {}, "spec": spec},
        **more,
    }


def fact(*components: Document, status: Document | None = None) -> WorkloadFact:
    reader = support_of(WorkloadKey(WorkloadKind.APP_WRAPPER, "u")).reader
    assert reader is not None
    metadata = {
        "name": "all",
        "namespace": "ns",
        "uid": "u",
        "generation": 1,
        "labels": {"muster.dev/queue-name": "q"},
    }
    document = {"metadata": metadata, "spec": {"components": components, "suspend": True}}
    raw = msgspec.json.encode({**document, "status": status or {}})
    found = reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
    assert found is not None
    return found


def pods(*components: Document, status: Document | None = None) -> dict[str, int]:
    found = fact(*components, status=status)
    assert found.obstacle is None, found.obstacle
    return {each.name: each.count for each in found.pod_sets}


def replicated(name: str, jobs: int, **job: Any) -> Document:
    return {"name": name, "replicas": jobs, "template": {"spec": {**job, "template": TEMPLATE}}}


RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 3, "template": TEMPLATE}],
}
LWS = {
    "replicas": 2,
    "leaderWorkerTemplate": {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
}
OF_LWS = "template.spec.leaderWorkerTemplate"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (component("Pod", TEMPLATE["spec"]), {"pod-0": 1}),
        (component("Service", {}), {}),
        (component("StatefulSet", {"template": TEMPLATE}, version="apps/v1"), {"statefulset-0": 1}),
        (
            component("Job", {"parallelism": 4, "completions": 2, "template": TEMPLATE}, version="batch/v1"),
            {"job-0": 2},
        ),
        (
            component(
                "JobSet",
                {"replicatedJobs": [replicated("a", 1), replicated("b", 2, parallelism=3)]},
                version="jobset.x-k8s.io/v1alpha2",
            ),
            {"jobset-0-0": 1, "jobset-0-1": 6},
        ),
        (
            component(
                "PyTorchJob",
                {
                    "pytorchReplicaSpecs": {
                        "Worker": {"replicas": 3, "template": TEMPLATE},
                        "Master": {"template": TEMPLATE},
                    }
                },
                version="kubeflow.org/v1",
            ),
            {"pytorchjob-0-0": 1, "pytorchjob-0-1": 3},
        ),
        (component("RayCluster", RAY, version="ray.io/v1"), {"raycluster-0-0": 1, "raycluster-0-1": 6}),
        (
            component("RayJob", {"rayClusterSpec": RAY}, version="ray.io/v1"),
            {"rayjob-0-0": 1, "rayjob-0-1": 6},
        ),
        (
            component("Unknown", {"a": [{"b": TEMPLATE}]}, podSets=[{"path": "template.spec.a[0].b"}]),
            {"unknown-0": 1},
        ),
        (
            component("Unknown", {"a": TEMPLATE}, podSets=[{"path": "template.spec.a", "replicas": 7}]),
            {"unknown-0": 7},
        ),
    ],
    ids=lambda value: value["template"]["kind"] if "template" in value else "",
)
def test_the_pods_of_a_component_follow_from_its_kind_or_from_what_it_declares(
    made: Document, expected: dict[str, int]
) -> None:
    last = component("Pod", TEMPLATE["spec"])
    assert pods(made, last) == {**expected, "pod-1": 1}


def test_more_pods_are_counted_than_declared_where_the_object_makes_more() -> None:
    declared = [
        {"path": f"{OF_LWS}.leaderTemplate", "replicas": 2},
        {"path": f"{OF_LWS}.workerTemplate", "replicas": 3},
    ]
    lws = component("LeaderWorkerSet", LWS, version="leaderworkerset.x-k8s.io/v1", podSets=declared)
    assert pods(lws) == {"leaderworkerset-0-0": 2, "leaderworkerset-0-1": 4}


def test_what_its_operator_shows_counts_where_nothing_is_declared() -> None:
    other = component("Unknown", {"a": TEMPLATE})
    assert pods(component("Pod", TEMPLATE["spec"]), other) == {"pod-0": 1}
    shown = {"componentStatus": [{}, {"podSets": [{"path": "template.spec.a", "replicas": 2}]}]}
    assert pods(component("Pod", TEMPLATE["spec"]), other, status=shown) == {"pod-0": 1, "unknown-1": 2}
    assert pods(component("Pod", TEMPLATE["spec"]), status={"componentStatus": "?"}) == {"pod-0": 1}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            component("Unknown", {}, podSets=[{"path": "template.spec.a"}]),
            "spec.components.0.template.spec.a: found none, expected a pod template",
        ),
        (
            component("Unknown", {}, podSets=[{"path": "spec.a"}]),
            "spec.components.0.podSets.0.path: found 'spec.a', expected a path such as template.spec.template.",
        ),
        (
            component("Unknown", {"a": TEMPLATE}, podSets=[{"path": "template.spec.a", "replicas": -1}]),
            "spec.components.0.podSets.0.replicas: found -1, expected 0 to 10000.",
        ),
        (
            component("Unknown", {"a": TEMPLATE}, podSets=[{"path": "template.spec.a"}] * 9),
            "spec.components: found 9 pod sets, expected at most 8",
        ),
        (
            component("LeaderWorkerSet", LWS, version="leaderworkerset.x-k8s.io/v1"),
            "spec.components.0.podSets: found none, expected the paths of its leaderTemplate and its workerTemplate.",
        ),
        (component("Service", {}), "spec: found no pod template, expected at least one"),
        (
            component("Pod", TEMPLATE["spec"], metadata={"labels": {"muster.dev/queue-name": "other"}}),
            "spec.components.0.template.metadata.labels[muster.dev/queue-name]: found 'other', expected none: "
            "the queue of the AppWrapper is meant",
        ),
        (
            component(
                "Job",
                {"a": TEMPLATE},
                version="batch.volcano.sh/v1alpha1",
                podSets=[{"path": "template.spec.a"}],
            ),
            "spec.components.0.template.kind: found batch.volcano.sh/v1alpha1 Job, expected another kind: it waits "
            "by itself. Create it beside the AppWrapper",
        ),
        ({"template": []}, "spec.components.0.template: found no object, expected one."),
        ("?", "spec.components.0: found str, expected object."),
    ],
)
def test_what_cannot_be_used_says_field_found_and_expected(made: Any, message: str) -> None:
    obstacle = fact(made).obstacle
    assert obstacle is not None
    assert obstacle.message == message


def test_what_is_written_for_the_sets_of_a_component_is_in_their_order() -> None:
    sets = [{"path": "template.spec.a"}, {"path": "template.spec.b"}]
    found = fact(component("Unknown", {"a": TEMPLATE, "b": TEMPLATE}, podSets=sets))
    [made] = resumed(found, QueueName("q"))["spec"]["components"].values()
    assert [info["annotations"]["muster.dev/member-of"] for info in made["podSetInfos"]] == [
        "appwrapper/all/u/unknown-0-0",
        "appwrapper/all/u/unknown-0-1",
    ]
    assert [info["labels"] for info in made["podSetInfos"]] == [{"muster.dev/queue-name": "q"}] * 2


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("Suspended", False)])
def test_it_has_ended_when_its_phase_says_so(phase: str, ended: bool) -> None:
    assert fact(component("Pod", TEMPLATE["spec"]), status={"phase": phase}).finished is ended


@pytest.mark.parametrize("labels", [{}, {"muster.dev/queue-name": "team"}])
def test_an_object_in_it_waits_with_it_unless_it_names_a_queue(labels: Document) -> None:
    reader = support_of(WorkloadKey(WorkloadKind.JOB_SET, "u")).reader
    assert reader is not None
    owner = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "name": "all",
        "uid": "a",
        "controller": True,
    }
    metadata = {"name": "c", "uid": "u", "labels": labels, "ownerReferences": [owner]}
    raw = msgspec.json.encode({"metadata": metadata, "spec": {"replicatedJobs": [replicated("a", 1)]}})
    found = reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
    assert found is not None
    assert (found.queue is not None) == bool(labels)
