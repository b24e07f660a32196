"""Jobs, Volcano Jobs and PodGroups → what they ask; what cannot be used says why."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts import WorkloadFact, asks
from admission.kube.context import Context, in_context
from admission.kube.objects import Bare, Job, PodGroup, VolcanoJob
from admission.kube.translate_jobs import indexes, job_fact, pod_group_fact
from admission.kube.translate_volcano_jobs import volcano_job_fact
from admission.kube.workload_facts import unreadable_fact
from queues.resources import Resources
from queues.spec import names
from queues.workload import AdmissionId, QueueName, WorkloadKey, WorkloadKind

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 2}}}
TEMPLATE = {"metadata": {}, "spec": {"containers": [CONTAINER]}}
TAKES = Resources({"cpu": 1000, "nvidia.com/gpu": 2000, "pods": 1})


def a_job(
    meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any
) -> WorkloadFact:
    document = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7", **(meta or {})},
        "spec": {"parallelism": 4, "template": TEMPLATE, **spec},
        "status": status or {},
    }
    return job_fact(msgspec.json.decode(msgspec.json.encode(document), type=Job))


def a_volcano_job(
    *tasks: dict[str, Any],
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> WorkloadFact:
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "ns", "uid": "u", "generation": 1, **(meta or {})},
        "spec": {"tasks": list(tasks), **spec},
        "status": status or {},
    }
    raw = msgspec.json.encode(document)
    return volcano_job_fact(msgspec.json.decode(raw, type=VolcanoJob), raw)


def task(name: str = "w", replicas: int = 4, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": TEMPLATE, **fields}


def a_group(meta: dict[str, Any] | None = None, **spec: Any) -> WorkloadFact:
    document = {"metadata": {"name": "g", "namespace": "ns", "uid": "u", **(meta or {})}, "spec": spec}
    return pod_group_fact(msgspec.json.decode(msgspec.json.encode(document), type=PodGroup))


# batch/v1


def test_a_job_asks_for_its_pods_at_once() -> None:
    fact = a_job({"labels": {"muster.dev/queue-name": "q"}}, suspend=True)
    (pods,) = fact.pod_sets
    assert fact.key == WorkloadKey(WorkloadKind.JOB, "u")
    assert (fact.queue, fact.minimum, fact.suspended, fact.obstacle) == ("q", 4, True, None)
    assert (pods.count, pods.takes, pods.done) == (4, TAKES, frozenset())


def test_a_job_without_a_queue_is_not_managed_unless_its_namespace_has_one() -> None:
    assert in_context(a_job(), Context()).queue is None  # type: ignore[union-attr]
    assert in_context(a_job(), Context(queues={"ns": QueueName("team")})).queue == "team"  # type: ignore[union-attr]


def test_an_indexed_jobs_ordinals_are_completion_indexes() -> None:
    fact = a_job(
        status={"succeeded": 3, "completedIndexes": "0-1,3"}, completionMode="Indexed", completions=4
    )
    (pods,) = fact.pod_sets
    assert (fact.indexed, pods.count, pods.wanted()) == (True, 4, (2,))
    assert fact.minimum == 4  # who is done counts as present


def test_failed_indexes_need_no_seat_either() -> None:
    fact = a_job(status={"failedIndexes": "2"}, completionMode="Indexed", completions=4)
    assert fact.pod_sets[0].wanted() == (0, 1, 3)


@pytest.mark.parametrize(
    ("spec", "status", "count"),
    [
        ({"completions": 10}, {"succeeded": 3}, 4),
        ({"completions": 10}, {"succeeded": 8}, 2),
        ({"completions": 2}, {}, 2),
        ({"completions": 10, "completionMode": "Indexed"}, {"succeeded": 9}, 1),
        ({}, {"active": 4}, 4),
        ({}, {"active": 1, "succeeded": 1}, 1),
    ],
)
def test_other_jobs_ask_for_as_many_seats_as_pods_may_still_run(
    spec: dict[str, Any], status: dict[str, Any], count: int
) -> None:
    fact = a_job(status=status, **spec)
    assert (fact.pod_sets[0].count, fact.minimum, fact.indexed) == (count, count, False)


def test_a_jobs_gang_may_be_smaller_than_its_parallelism() -> None:
    assert a_job({"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}).minimum == 2


@pytest.mark.parametrize("least", ["0", "5", "two", "-1", ""])
def test_a_gang_that_cannot_be_says_so(least: str) -> None:
    obstacle = a_job({"annotations": {"scheduling.volcano.sh/group-min-member": least}}).obstacle
    assert obstacle is not None
    assert obstacle[0] == "InvalidSpec"
    assert f"found {least!r}, expected a number from 1 to spec.parallelism (4)" in obstacle[1]


@pytest.mark.parametrize(
    ("condition", "finished"),
    [("Complete", True), ("Failed", True), ("Suspended", False), ("FailureTarget", False)],
)
def test_a_job_is_finished_when_it_says_so(condition: str, finished: bool) -> None:
    assert a_job(status={"conditions": [{"type": condition, "status": "True"}]}).finished is finished


def test_a_released_job_asks_for_what_it_asked_before() -> None:
    """Muster's directions in the template change neither the shape nor the generation."""
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    before = a_job(template=_with_terms(zone))
    released = a_job(
        template=_with_terms(*({**zone, **_pin(node)} for node in "ab"), admission="12"), suspend=False
    )
    assert released.pod_sets == before.pod_sets
    assert released.generation == before.generation
    assert (before.directed, released.directed) == (None, AdmissionId(12))


def test_progress_is_not_a_new_generation_but_a_changed_request_is() -> None:
    job = a_job(completions=10)
    assert a_job(status={"succeeded": 9, "active": 1}, completions=10).generation == job.generation
    assert a_job(completions=10, parallelism=5).generation != job.generation
    bigger = {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": 2}}}]}}
    assert a_job(completions=10, template=bigger).generation != job.generation


def test_topology_is_read_from_the_templates_annotations() -> None:
    annotations = {"muster.dev/required-topology": "rack", "muster.dev/preferred-topology": "block"}
    (pods,) = a_job(template={**TEMPLATE, "metadata": {"annotations": annotations}}).pod_sets
    assert (pods.required_topology, pods.preferred_topology) == ("rack", "block")


def _pin(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def _with_terms(*terms: dict[str, Any], admission: str | None = None) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    annotations = {"muster.dev/admission-id": admission} if admission else {}
    return {"metadata": {"annotations": annotations}, "spec": {**TEMPLATE["spec"], "affinity": affinity}}


@pytest.mark.parametrize(
    ("text", "found"),
    [("", set()), (None, set()), ("0-3,7", {0, 1, 2, 3, 7}), ("5-99", {5, 6, 7}), ("x,1-,-2,3", {1, 3})],
)
def test_completed_indexes_are_intervals(text: str | None, found: set[int]) -> None:
    assert indexes(text, below=8) == found


# Volcano


def test_a_volcano_job_asks_for_its_tasks() -> None:
    fact = a_volcano_job(task("m", 1), task("w", 3, minAvailable=2), minAvailable=3, queue="q")
    assert (fact.key.kind, fact.queue, fact.minimum, fact.obstacle) == (
        WorkloadKind.VOLCANO_JOB,
        "q",
        3,
        None,
    )
    assert [(pods.name, pods.count, pods.minimum) for pods in fact.pod_sets] == [("m", 1, 1), ("w", 3, 2)]
    assert fact.pod_sets[0].takes == TAKES


def test_without_min_available_the_gang_is_all_of_it() -> None:
    assert a_volcano_job(task("a", 2), task("b", 3, minAvailable=1)).minimum == 3


def test_task_minimums_above_the_gang_do_not_count() -> None:
    fact = a_volcano_job(task("a", 2), task("b", 3), minAvailable=3)
    assert [pods.minimum for pods in fact.pod_sets] == [0, 0]


def test_the_document_is_kept_without_managed_fields() -> None:
    fact = a_volcano_job(task(), meta={"managedFields": [{"manager": "x"}], "labels": {"a": "b"}})
    document = msgspec.json.decode(fact.document)
    assert document["metadata"]["labels"] == {"a": "b"}
    assert "managedFields" not in document["metadata"]
    assert document["spec"]["tasks"][0]["template"] == TEMPLATE


@pytest.mark.parametrize(
    ("tasks", "spec", "complaint"),
    [
        ([], {}, "spec.tasks: found none"),
        ([task("a"), task("a")], {}, "spec.tasks[1].name: found a a second time"),
        ([task(minAvailable=5)], {}, "spec.tasks[0].minAvailable: found 5, expected 0 to 4"),
        ([task()], {"minAvailable": 5}, "spec.minAvailable: found 5, expected at most the 4 replicas"),
        ([task(replicas=-1, minAvailable=0)], {}, "spec.tasks[0].replicas: found -1"),
        ([task(replicas="2")], {}, "spec.tasks[0].replicas"),
        ([task(template={})], {}, "spec.tasks[0].template.spec.containers: found none"),
        (
            [task(template={"spec": {"containers": "c"}})],
            {},
            "spec.tasks[0].template.spec.containers: found str, expected array",
        ),
        (
            [task(template={"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}})],
            {},
            "'lots' is not a Kubernetes quantity",
        ),
        (
            [
                task(
                    template={
                        "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "0.5"}}}]}
                    }
                )
            ],
            {},
            "found 500m nvidia.com/gpu, expected a whole number",
        ),
        (
            [task(template={"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": -1}}}]}})],
            {},
            "found -1 nvidia.com/gpu, expected 0 or more",
        ),
    ],
)
def test_a_volcano_job_that_cannot_be_says_field_found_and_expected(
    tasks: list[dict[str, Any]], spec: dict[str, Any], complaint: str
) -> None:
    obstacle = a_volcano_job(*tasks, **spec).obstacle
    assert obstacle is not None
    assert obstacle[0] == "InvalidSpec"
    assert complaint in obstacle[1]


def test_a_document_without_the_form_of_a_job_becomes_a_fact_that_says_so() -> None:
    raw = b'{"metadata":{"name":"v","namespace":"ns","uid":"u"},"spec":{"queue":{"a":1}}}'
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(raw, type=VolcanoJob)
    bare = msgspec.json.decode(raw, type=Bare)
    fact = unreadable_fact(WorkloadKind.VOLCANO_JOB, bare, raised.value)
    assert (fact.key.uid, fact.name) == ("u", "v")
    assert fact.obstacle == ("InvalidSpec", "spec.queue: found object, expected str | null")


@pytest.mark.parametrize(
    ("phase", "finished"),
    [
        ("", False),
        ("Pending", False),
        ("Running", False),
        ("Completed", True),
        ("Failed", True),
        ("Terminated", True),
    ],
)
def test_a_volcano_job_is_finished_in_its_last_phases(phase: str, finished: bool) -> None:
    fact = a_volcano_job(task(), status={"state": {"phase": phase}})
    assert (fact.phase, fact.finished) == (phase, finished)


def test_a_status_is_no_new_generation_but_any_change_of_the_spec_is() -> None:
    fact = a_volcano_job(task())
    assert a_volcano_job(task(), status={"running": 3}) == fact
    assert a_volcano_job(task(), maxRetry=5).generation != fact.generation


@pytest.mark.parametrize(
    ("spec", "meta", "queue"),
    [
        ({}, {}, "team"),
        ({"queue": "default"}, {}, "team"),
        ({"queue": "q"}, {}, "q"),
        ({"queue": "q"}, {"labels": {"muster.dev/queue-name": "other"}}, "other"),
        ({}, {"labels": {"muster.dev/queue-name": "default"}}, "default"),
        ({}, {"annotations": {"scheduling.volcano.sh/queue-name": "noted"}}, "noted"),
    ],
)
def test_the_namespaces_queue_counts_when_none_is_named(
    spec: dict[str, Any], meta: dict[str, Any], queue: str
) -> None:
    context = Context(queues={"ns": QueueName("team")})
    assert in_context(a_volcano_job(task(), meta=meta, **spec), context).queue == queue  # type: ignore[union-attr]
    assert in_context(a_group(meta, **spec), context).queue == queue  # type: ignore[union-attr]


def test_without_any_queue_it_is_the_default_one() -> None:
    assert in_context(a_volcano_job(task()), Context()).queue == "default"  # type: ignore[union-attr]


def test_priority_is_the_value_of_the_class() -> None:
    context = Context(priorities={"high": 1000}, default_priority=5)
    high = in_context(a_volcano_job(task(), priorityClassName="high"), context)
    plain = in_context(a_volcano_job(task()), context)
    assert (high.priority, plain.priority) == (1000, 5)  # type: ignore[union-attr]
    templated = {"spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}
    assert in_context(a_job(template=templated), context).priority == 1000  # type: ignore[union-attr]


def test_a_class_that_does_not_exist_is_an_obstacle_until_it_does() -> None:
    fact = a_volcano_job(task(), priorityClassName="high")
    missing = in_context(fact, Context())
    assert missing.obstacle == (  # type: ignore[union-attr]
        "UnknownPriorityClass",
        "priority class high does not exist; create it or name another",
    )
    assert in_context(fact, Context(priorities={"high": 1})).obstacle is None  # type: ignore[union-attr]


def test_a_tier_becomes_a_level_of_the_topology() -> None:
    levels = ("block", "rack", "host")
    hard = a_volcano_job(task(), networkTopology={"mode": "hard", "highestTierAllowed": 1})
    assert hard.unsupported == ()
    (pods,) = in_context(hard, Context(levels=levels)).pod_sets  # type: ignore[union-attr]
    assert (pods.required_topology, pods.preferred_topology) == ("rack", None)
    soft = a_volcano_job(task(), networkTopology={"mode": "soft", "highestTierAllowed": 2})
    (pods,) = in_context(soft, Context(levels=levels)).pod_sets  # type: ignore[union-attr]
    assert (pods.required_topology, pods.preferred_topology) == (None, "block")


def test_what_is_not_acted_on_is_named() -> None:
    fact = a_volcano_job(
        task(policies=[{"event": "PodFailed", "action": "RestartJob"}]), plugins={"mpi": [], "svc": []}
    )
    assert fact.unsupported == ("spec.tasks[0].policies", "spec.plugins.mpi")


# PodGroups


def test_a_group_asks_for_its_members() -> None:
    fact = a_group(minMember=4, minTaskMember={"a": 1, "b": 3}, queue="q", priorityClassName="p")
    assert (fact.minimum, fact.task_minimums, fact.queue, fact.priority_class) == (
        4,
        {"a": 1, "b": 3},
        "q",
        "p",
    )
    assert (fact.pod_sets, fact.owned_by_job) == ((), False)
    assert a_group(minMember=3, minTaskMember={"a": 1, "b": 3}).task_minimums == {}


def test_a_group_made_for_a_volcano_job_is_no_workload_of_its_own() -> None:
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "x"}
    assert a_group({"ownerReferences": [reference]}).owned_by_job
    foreign = {**reference, "apiVersion": "kubeflow.org/v1"}
    assert not a_group({"ownerReferences": [foreign]}).owned_by_job


def test_facts_are_equal_when_nothing_that_matters_changed() -> None:
    fact = a_job()
    assert replace(fact, resource_version="8") == fact
    assert a_job({"annotations": {"note": "x"}}, status={"ready": 1}) == fact


def test_more_pods_than_any_cluster_runs_are_refused_before_anybody_counts_them() -> None:
    for fact in (a_job(parallelism=2_000_000_000), a_volcano_job(task("w", replicas=2_000_000_000))):
        assert sum(pods.count for pods in fact.pod_sets) == 0
        assert fact.obstacle is not None
        assert "found 2000000000 pods, expected at most 100000" in fact.obstacle[1]


def test_who_is_new_or_wants_something_else_is_answered_at_once_and_progress_can_wait() -> None:
    asked = a_group(minMember=4)
    assert asks(None, asked)
    assert asks(asked, replace(asked, generation="another"))
    assert not asks(asked, replace(asked, phase="Running"))
    assert not asks(asked, None)


def test_a_minimum_of_five_thousand_digits_is_an_obstacle() -> None:
    fact = a_job({"annotations": {names.GROUP_MIN_MEMBER: "9" * 5000}})
    assert fact.obstacle is not None
