"""Kinds of other projects: what their objects ask for, when they have ended, and what resumes them."""

from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from admission.facts.workloads import ChildCluster, JobRevision
from admission.reconcile.release import Verb, json_patch, orders_for
from admission.wire import WirePod
from admission.workloads.context import Context, in_context
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds import OPERATOR_KINDS, known_kinds, read_pod, support_of
from admission.workloads.seats import seat_maps_of, vacant_and_due
from admission.world.nodes import NodeInventory
from queues import kind_names
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, WorkloadKey
from tests.builders.facts import TEAM, admission, evicting, released, state_of
from tests.builders.operator_jobs import (
    RAY,
    SPECS,
    Document,
    child_cluster,
    fact,
    replicated,
    roles,
    template,
)
from tests.tables import with_rows

each_kind = pytest.mark.parametrize("kind", SPECS)


@each_kind
def test_every_template_is_a_pod_set_and_all_pods_are_one_gang(kind: KindName) -> None:
    found = fact(kind)
    assert found.obstacle is None
    assert {pods.name: pods.count for pods in found.pod_sets} == SPECS[kind][1]
    assert found.minimum == sum(SPECS[kind][1].values())
    assert found.queue == "team"
    assert {pods.takes["nvidia.com/gpu"] for pods in found.pod_sets} == {1000}


@each_kind
def test_without_a_queue_it_is_nobodys_business(kind: KindName) -> None:
    assert fact(kind, labels={}).queue is None


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (KindName("jobset"), {"replicatedJobs": [replicated("driver", 0), replicated("workers", 0)]}),
        (KindName("pytorchjob"), {"pytorchReplicaSpecs": roles(Worker=0)}),
    ],
)
def test_one_without_any_pod_says_what_it_waits_for(kind: KindName, spec: Document) -> None:
    state = state_of(fact(kind, spec, suspended=True))
    told = "spec: found pod sets of 0 pods, expected at least one pod"
    assert state.workload.obstacle == Obstacle(ReasonCode.NOT_ENOUGH_PODS, told)
    assert state.needs_seats, "what needs none has no reason"
    assert fact(kind, spec, suspended=False).obstacle is None, "what runs may be scaled to nothing"


@each_kind
def test_it_is_suspended_by_its_own_field(kind: KindName) -> None:
    assert [fact(kind, suspended=said).suspended for said in (True, False, None)] == [True, False, False]


@each_kind
def test_another_number_of_pods_is_another_generation_of_the_same_pods(kind: KindName) -> None:
    written = msgspec.json.encode(SPECS[kind][0])
    for count in (b"1", b"2", b"3", b"4"):
        for field in (b'"replicas":', b'"instances":'):
            written = written.replace(field + count, field + b"5")
    grown, before = fact(kind, msgspec.json.decode(written)), fact(kind)
    assert grown.generation != before.generation
    assert grown.generation.partition(".")[0] == before.generation.partition(".")[0]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (KindName("jobset"), {"conditions": [{"type": "Completed", "status": "True"}]}),
        (KindName("jobset"), {"conditions": [{"type": "Failed", "status": "True"}]}),
        (KindName("mpijob"), {"conditions": [{"type": "Succeeded", "status": "True"}]}),
        (KindName("pytorchjob"), {"conditions": [{"type": "Failed", "status": "True"}]}),
        (KindName("tfjob"), {"conditions": [{"type": "Succeeded", "status": "True"}]}),
        (KindName("rayjob"), {"jobDeploymentStatus": "Complete"}),
        (KindName("rayjob"), {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}),
        (KindName("sparkapplication"), {"applicationState": {"state": "COMPLETED"}}),
    ],
)
def test_it_has_ended_when_its_status_says_so(kind: KindName, status: Document) -> None:
    ended = fact(kind, status=status)
    assert (ended.finished, ended.failed) == (True, "Failed" in str(status))
    running = [{"type": "Running", "status": "True"}]
    # KubeRay tries a RayJob again that has failed.
    other = {"conditions": running, "jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}
    assert not fact(kind, status=other).finished


@with_rows("told", "left")
def test_pods_that_succeeded_need_no_seat(told: Any, left: dict[str, int]) -> None:
    found = fact(KindName("pytorchjob"), status={"replicaStatuses": told})
    assert {pods.name: pods.count for pods in found.pod_sets} == left
    assert found.minimum == sum(left.values())
    assert found.generation == fact(KindName("pytorchjob")).generation, "it asks for nothing else"


JOB_SET, PYTORCH_JOB, RAY_JOB = KindName("jobset"), KindName("pytorchjob"), KindName("rayjob")
#: What a RayJob is refused for.
WAITS = "a RayJob is suspended while it waits, which KubeRay refuses"
SHUTS_DOWN = {"shutdownAfterJobFinishes": True}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (JOB_SET, {"replicatedJobs": "many"}, "spec.replicatedJobs: found str, expected array."),
        (JOB_SET, {}, "spec.replicatedJobs: found no pod template, expected at least one"),
        (JOB_SET, {"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]},
         "spec.replicatedJobs.0.template.spec.template: found none, expected a pod template"),
        (JOB_SET, {"replicatedJobs": [replicated("a"), replicated("a")]},
         "spec.replicatedJobs.1: found a a second time, expected different names"),
        (JOB_SET, {"replicatedJobs": [replicated("Not a name")]},
         "spec.replicatedJobs.0 as a name of pods: found 'Not a name', expected a DNS label: lower case letters, "
         "digits and -, at most 63 characters"),
        (PYTORCH_JOB, {"pytorchReplicaSpecs": roles(Worker=-1)},
         "spec.pytorchReplicaSpecs.Worker.replicas: found -1, expected 0 to 10000"),
        (RAY_JOB, {"rayClusterSpec": RAY, "shutdownAfterJobFinishes": False},
         f"spec.shutdownAfterJobFinishes: found false, expected true: {WAITS} without it"),
        (RAY_JOB, {"clusterSelector": {"ray.io/cluster": "a"}, **SHUTS_DOWN},
         f"spec.clusterSelector: found a selector, expected none: {WAITS} for the cluster of another object. Put the "
         "queue on the RayCluster, and none on the RayJob"),
        (RAY_JOB, {"rayClusterSpec": RAY, "deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf"}]}},
         f"spec.deletionStrategy.deletionRules: found rules, expected none: {WAITS} without "
         "shutdownAfterJobFinishes, and that it refuses with rules"),
        (RAY_JOB, {"rayClusterSpec": RAY, "shutdownAfterJobFinishes": "yes"},
         "spec.shutdownAfterJobFinishes: found str, expected bool."),
        (KindName("raycluster"), {"headGroupSpec": None},
         "spec.headGroupSpec.template: found none, expected a pod template"),
        (KindName("raycluster"), {"headGroupSpec": {"template": {"spec": {"containers": []}}}},
         "spec.headGroupSpec.template.spec.containers: found none, expected at least one"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_says_field_found_and_expected(
    kind: KindName, spec: Document, message: str
) -> None:
    assert fact(kind, spec).obstacle.message == message


@with_rows("policy", "minimum", "of_sets")
def test_an_elastic_job_starts_with_its_least_workers(
    policy: Document, minimum: int, of_sets: dict[str, int]
) -> None:
    """The operator has elastic jobs train on from ``minReplicas`` workers; without it from all of them."""
    spec = {"pytorchReplicaSpecs": roles(Master=1, Worker=4), "elasticPolicy": policy}
    found = fact(PYTORCH_JOB, spec)
    assert found.minimum == minimum
    assert {pods.name: pods.minimum for pods in found.pod_sets} == of_sets
    assert {pods.name: pods.count for pods in found.pod_sets} == {"master": 1, "worker": 4}


def test_a_least_number_of_workers_that_is_none_is_refused() -> None:
    spec = {"pytorchReplicaSpecs": roles(Worker=4), "elasticPolicy": {"minReplicas": 0}}
    message = "spec.elasticPolicy.minReplicas: found 0, expected 1 to 10000"
    assert fact(PYTORCH_JOB, spec).obstacle.message == message


def test_what_a_policy_fills_in_is_not_asked_for() -> None:
    found = fact(RAY_JOB, {"rayClusterSpec": RAY})
    assert found.obstacle is None
    assert found.pod_sets


SPARK_ROLE: Document = {"coreRequest": "500m", "memory": "2g"}


@pytest.mark.parametrize(
    ("role", "more", "cpu", "mebibytes"),
    [
        ({}, {}, 1000, 1024 + 384),
        ({"cores": 2, "memory": "512m"}, {}, 2000, 512 + 384),
        (SPARK_ROLE, {}, 500, 2048 + 384),
        ({"memory": "10G"}, {}, 1000, 10240 + 1024),
        ({"memory": "10gb"}, {"type": "Python"}, 1000, 10240 + 4096),
        ({"memory": "2g"}, {"memoryOverheadFactor": "0.5"}, 1000, 2048 + 1024),
        ({"memory": "2g"}, {"memoryOverheadFactor": "0"}, 1000, 2048),
        ({"memory": "2g", "memoryOverhead": "1g"}, {}, 1000, 3072),
    ],
)
def test_pods_of_spark_ask_for_their_memory_with_the_overhead(
    role: Document, more: Document, cpu: int, mebibytes: int
) -> None:
    found = fact(KindName("sparkapplication"), {"driver": role, "executor": role, **more})
    assert found.obstacle is None
    asks = [(pods.takes["cpu"], pods.takes["memory"]) for pods in found.pod_sets]
    assert asks == [(cpu, mebibytes * 2**20)] * 2


@with_rows("more", "message")
def test_what_spark_cannot_be_seated_with_is_told(more: Document, message: str) -> None:
    found = fact(KindName("sparkapplication"), {"driver": {}, "executor": {}, **more})
    assert found.obstacle.message == message


def test_more_pods_than_can_be_considered_are_an_obstacle() -> None:
    found = fact(KindName("jobset"), {"replicatedJobs": [replicated("a", 10_000, parallelism=10_000)]})
    assert found.obstacle is not None
    assert sum(pods.count for pods in found.pod_sets) == 0


def test_a_ray_cluster_of_a_ray_job_waits_with_it() -> None:
    found = child_cluster(fact(KindName("rayjob")), RAY)
    assert isinstance(found, ChildCluster)
    assert found.workload == WorkloadKey(KindName("rayjob"), "u")
    assert found.pods == {"head": 1, "small": 3, "tpu": 8}


# ── what is written ─────────────────────────────────────────────────────────────────────────────────────────────


@each_kind
def test_it_is_resumed_with_its_queue_in_every_template_if_it_is_still_the_same(kind: KindName) -> None:
    found = fact(kind, suspended=True)
    [(first, count), *_] = SPECS[kind][1].items()
    taken = admission(found.key, "n1 " * count, pod_set=first)
    seats = tuple(replace(seat, takes=found.pod_sets[0].takes) for seat in taken.seats)
    state = state_of(found, (), [replace(taken, seats=seats)])
    [order] = orders_for(state, found, NodeInventory(), Timeouts())
    steps = json_patch(order)
    assert order.verb is Verb.PATCH_JOB
    assert order.resource is support_of(found.key).resource
    assert steps[:2] == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/generation", "value": 7},
    ]
    member = f"{kind}/train/u/{first}"
    written = {"labels": {"muster.dev/queue-name": "team"}, "annotations": {"muster.dev/member-of": member}}
    place = SPECS[kind][2]
    at_first = {step["path"]: step["value"] for step in steps if step["path"].startswith(place + "/")}
    if kind == KindName("sparkapplication"):
        assert at_first == {f"{place}/{field}": value for field, value in written.items()}
    else:
        assert at_first == {f"{place}/metadata": written}
    assert sum("member-of" in str(step) for step in steps) == len(SPECS[kind][1])
    [resumes] = [step for step in steps if step["path"].endswith("/suspend")]
    assert resumes["value"] is False


_TRAINER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
TRAIN_JOB = {**_TRAINER, "name": "tune", "uid": "t", "controller": True}


def test_a_train_job_is_resumed_and_suspended_before_its_job_set() -> None:
    def before(*, suspended: bool, evicted: bool, **reference: Any) -> Any:
        made = fact(KindName("jobset"), suspended=suspended, ownerReferences=[{**TRAIN_JOB, **reference}])
        taken = admission(made.key, "n1 n1", pod_set="driver")
        state = state_of(made, (), [evicting(taken) if evicted else taken])
        [order] = orders_for(state, made, NodeInventory(), Timeouts())
        return order.before

    resumed = before(suspended=True, evicted=False)
    place = (resumed.resource.kind, resumed.namespace, resumed.name, resumed.uid)
    assert place == ("TrainJob", "ns", "tune", "t")
    assert resumed.body == {"metadata": {"uid": "t"}, "spec": {"suspend": False}}
    assert before(suspended=False, evicted=True).body["spec"] == {"suspend": True}
    assert before(suspended=True, evicted=False, kind="Other") is None
    assert before(suspended=True, evicted=False, controller=False) is None


@pytest.mark.parametrize("evicted", [False, True])
def test_a_train_job_waits_with_its_job_set_also_if_only_it_was_resumed(evicted: bool) -> None:
    made = fact(KindName("jobset"), suspended=True, ownerReferences=[TRAIN_JOB])
    taken = [evicting(admission(made.key, "n1 n1", pod_set="driver"))] if evicted else []
    [order] = orders_for(state_of(made, (), taken), made, NodeInventory(), Timeouts())
    assert (order.resource.kind, order.name, order.uid) == ("TrainJob", "tune", "t")
    assert order.body == {"metadata": {"uid": "t"}, "spec": {"suspend": True}}


def test_labels_and_annotations_of_a_template_stay_beside_those_of_muster() -> None:
    own = {"labels": {"app": "a"}, "annotations": {"note": "b"}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {**template(), "metadata": own}}}}
    found = fact(KindName("pytorchjob"), spec, suspended=True)
    taken = admission(found.key, "n1", pod_set="worker")
    [order] = orders_for(state_of(found, (), [taken]), found, NodeInventory(), Timeouts())
    written = {step["path"].rpartition("/metadata/")[2] for step in json_patch(order) or ()}
    assert {"labels/muster.dev~1queue-name", "annotations/muster.dev~1member-of"} <= written


@each_kind
def test_it_is_suspended_again_when_it_is_evicted_and_runs_without_an_admission(kind: KindName) -> None:
    found = fact(kind, suspended=False)
    first = next(iter(SPECS[kind][1]))
    taken = admission(found.key, "n1", pod_set=first)
    by_muster = replace(found, revision=JobRevision(7, resumed=True))
    for now, admissions in ((found, [evicting(taken)]), (by_muster, [])):
        [order] = orders_for(state_of(now, (), admissions), now, NodeInventory(), Timeouts())
        assert order.intent == "suspend"
        assert "'suspend': True" in str(order.body)
        assert ("runPolicy" in str(order.body)) == (SPECS[kind][2].count("ReplicaSpecs") == 1)


@each_kind
def test_what_ran_before_it_was_in_a_queue_runs_on_and_says_so(kind: KindName) -> None:
    found = fact(kind, suspended=False)
    state = state_of(found, (), [])
    assert orders_for(state, found, NodeInventory(), Timeouts()) == []
    assert state.workload.obstacle.code == "NotGated"
    in_migration = Context(queues={"team-a": TEAM}, adopt_until={"team-a": 2_000_000_000})
    nameless = replace(found, queue=None, namespace="team-a")
    assert in_context(nameless, in_migration).queue is None, "its pods are adopted one by one"


@each_kind
def test_what_ran_before_runs_on_also_if_it_cannot_be_read(kind: KindName) -> None:
    unreadable = Obstacle(ReasonCode.INVALID_SPEC, "…")
    found = replace(fact(kind, suspended=False), revision=None, obstacle=unreadable)
    assert orders_for(state_of(found, (), []), found, NodeInventory(), Timeouts()) == []


def test_a_template_says_that_muster_resumed_its_object() -> None:
    marks = {"annotations": {"muster.dev/member-of": "pytorchjob/train/u/worker"}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {**template(), "metadata": marks}}}}
    assert fact(KindName("pytorchjob"), spec).revision == JobRevision(
        7,
        existing=ANY,
        templates=(("spec", "pytorchReplicaSpecs", "Worker", "template", "metadata"),),
        resumed=True,
    )
    marks["annotations"]["muster.dev/member-of"] = "pytorchjob/train/another/worker"
    assert not fact(KindName("pytorchjob"), spec).revision.resumed


def test_a_job_set_that_places_its_pods_itself_says_what_to_write_instead(golden: Any) -> None:
    own = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/pool"}
    assert fact(KindName("jobset"), annotations=own).obstacle.message == golden


def test_pods_of_kubeflow_that_succeeded_run_again_after_an_eviction() -> None:
    status = {"replicaStatuses": {"Worker": {"succeeded": 2}}}
    assert fact(KindName("pytorchjob"), status=status, suspended=False).minimum == 2
    assert fact(KindName("pytorchjob"), status=status, suspended=True).minimum == 4


@with_rows("group", "pods")
def test_a_group_of_ray_has_as_many_pods_as_kuberay_makes(group: Document, pods: int) -> None:
    spec = {**RAY, "workerGroupSpecs": [{"groupName": "g", "template": template(), **group}]}
    _, workers = fact(KindName("raycluster"), spec).pod_sets
    assert workers.count == pods


@with_rows("status", "told", "due")
def test_pods_that_wait_for_others_are_not_missed(status: str, told: Document, due: bool) -> None:
    first = replicated("prepare")
    then = {**replicated("train", parallelism=2), "dependsOn": [{"name": "prepare", "status": status}]}
    told_of = {"replicatedJobsStatus": [{"name": "prepare", **told}]}
    found = fact(KindName("jobset"), {"replicatedJobs": [first, then]}, told_of, suspended=False)
    taken = admission(found.key, "n1 n1", pod_set="train", started=True)
    prepared = admission(found.key, "n1", pod_set="prepare", number=2, started=True)
    places = seat_maps_of([taken, prepared], [])
    assert len(vacant_and_due(places[0], found, places)) == (2 if due else 0)


def test_pods_that_wait_for_others_without_seats_are_missed() -> None:
    """A JobSet that starts again after its first set had succeeded, and given back its seat."""
    then = {**replicated("train", parallelism=2), "dependsOn": [{"name": "prepare", "status": "Complete"}]}
    found = fact(KindName("jobset"), {"replicatedJobs": [replicated("prepare"), then]}, suspended=False)
    taken = admission(found.key, "n1 n1", pod_set="train", started=True, ready=True)
    [missing] = state_of(found, (), [taken]).remembered.missing_since.values()
    assert missing.needed


def test_seats_of_each_pod_set_are_kept_for_its_own_pods() -> None:
    found = fact(KindName("pytorchjob"), suspended=False)
    master = admission(found.key, "n1", pod_set="master", number=1, started=True)
    workers = admission(found.key, "n1 n2 n2 n2", pod_set="worker", number=2, started=True)
    state = state_of(found, [released("m", "master/0", "n1")], [master, workers])
    assert {id_: sorted(seats) for id_, seats in state.ended.items() if seats} == {workers.id: [3]}


def test_a_pod_says_which_pod_set_it_is_of() -> None:
    def read(said: str, **metadata: Any) -> tuple[WorkloadKey | None, str, str]:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "j", "controller": True}
        meta = {
            "name": "p",
            "uid": "p",
            "labels": {"muster.dev/released": "false"},
            "annotations": {"muster.dev/member-of": said},
            "ownerReferences": [owner],
        }
        raw = msgspec.json.encode({"metadata": {**meta, **metadata}, "spec": template()["spec"]})
        found = read_pod(msgspec.json.decode(raw, type=WirePod))
        return found.owner, found.owner_name, found.task

    job = WorkloadKey(kind_names.JOB, "j")
    assert read("jobset/train/u/workers") == (WorkloadKey(KindName("jobset"), "u"), "train", "workers")
    assert read("job/train/u/workers")[0] == job
    assert read("jobset/train/u")[0] == job
    assert read("nothing")[0] == job
    by_hand = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "j"}
    assert read("jobset/train/u/workers", ownerReferences=[by_hand])[0] is None
    assert read("jobset/train/u/workers", labels={"muster.dev/released": "true"})[1] == "train"
    assert read("jobset/train/u/workers", labels={})[0] == job, "no policy made it wait: others wrote that"


def test_every_kind_has_a_spec_here() -> None:
    assert SPECS.keys() == {each.kind for each in OPERATOR_KINDS}
    assert {each.kind for each in OPERATOR_KINDS} < {each.kind for each in known_kinds().supports}
