"""Batch Jobs and PodGroups → what they ask; what cannot be used says why."""

from dataclasses import replace
from typing import Any

import pytest

from admission.decode.workload_facts import asks, pods_generation
from admission.facts.workloads import NO_CONDITION, JobRevision
from admission.workloads.context import Context, in_context
from admission.workloads.job_counts import index_ranges, indexes_in
from admission.workloads.kinds.batch_job import UNSTARTED
from queues import kind_names
from queues.api import names
from queues.quota.queue import QueuePolicy
from queues.resources import Resources
from queues.workload import AdmissionId, QueueName, WorkloadKey
from tests.builders.decoded_workloads import CONTAINER, TAKES, TEMPLATE, a_group, a_job, a_volcano_job, task
from tests.builders.facts import TEAM, state_of, wanted
from tests.tables import named_rows, with_rows


def test_a_job_asks_for_its_pods_at_once() -> None:
    fact = a_job({"labels": {"muster.dev/queue-name": "q"}}, suspend=True)
    (pods,) = fact.pod_sets
    assert fact.key == WorkloadKey(kind_names.JOB, "u")
    assert (fact.queue, fact.minimum, fact.suspended, fact.obstacle) == ("q", 4, True, None)
    assert (pods.count, pods.takes, pods.done) == (4, TAKES, frozenset())


def test_a_job_that_names_no_queue_is_not_managed_unless_its_namespace_is_in_migration_mode() -> None:
    """The admission policies write a queue's name on every Job that they make wait."""
    assert in_context(a_job(), Context()).queue is None
    default = Context(queues={"ns": QueueName("team")})
    assert in_context(a_job(), default).queue is None
    assert in_context(a_job(), replace(default, adopt_until={"ns": 1})).queue == "team"


def test_a_job_tells_what_muster_wrote_on_it_and_changes_by_that_for_nobody() -> None:
    others = [{"type": "Suspended", "status": "True"}]
    waits = {"type": "muster.dev/Admitted", "status": "False", "reason": "QueueLimit", "message": "8 used"}
    before, after = a_job(status={"conditions": others}), a_job(status={"conditions": [*others, waits]})
    assert (before.told, after.told) == (NO_CONDITION, ("False", "QueueLimit"))
    assert before == after


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


@with_rows("spec", "status", "count")
def test_other_jobs_ask_for_as_many_seats_as_pods_may_still_run(
    spec: dict[str, Any], status: dict[str, Any], count: int
) -> None:
    fact = a_job(status=status, **spec)
    assert (fact.pod_sets[0].count, fact.minimum, fact.indexed) == (count, count, False)


def test_a_jobs_gang_may_be_smaller_than_its_parallelism() -> None:
    assert a_job({"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}).minimum == 2


@named_rows(
    ("annotations", "spec", "minimum", "in_an_array_queue"),
    {
        "it says nothing": ({}, {}, 4, 1),
        "it says so": ({names.GROUP_MIN_MEMBER: "3"}, {}, 3, 3),
        "its pods have names in a Service": ({}, {"subdomain": "train"}, 4, 4),
    },
)
def test_a_jobs_queue_decides_whether_its_pods_start_together_unless_the_job_says_it(
    annotations: dict[str, str], spec: dict[str, Any], minimum: int, in_an_array_queue: int
) -> None:
    template = {"spec": {**TEMPLATE["spec"], **spec}}
    fact = replace(a_job({"annotations": annotations}, template=template, suspend=True), queue=TEAM)
    usual, array = state_of(fact), state_of(fact, policy=QueuePolicy(jobs="array"))

    assert (usual.workload.minimum, wanted(usual)) == (minimum, 4)
    assert (array.workload.minimum, wanted(array)) == (in_an_array_queue, 4)
    assert usual.follows_policy is array.follows_policy is (in_an_array_queue != minimum)


@pytest.mark.parametrize("least", ["0", "5", "two", "-1", "", "9" * 5000])
def test_a_gang_that_cannot_be_says_so(least: str) -> None:
    obstacle = a_job({"annotations": {"scheduling.volcano.sh/group-min-member": least}}).obstacle
    assert obstacle.code == "InvalidSpec"
    assert f"found '{least[:50]}" in obstacle.message
    assert "expected a number from 1 to spec.parallelism (4)" in obstacle.message


@pytest.mark.parametrize(
    ("condition", "finished"),
    [("Complete", True), ("Failed", True), ("Suspended", False), ("FailureTarget", False)],
)
def test_a_job_is_finished_when_it_says_so(condition: str, finished: bool) -> None:
    assert a_job(status={"conditions": [{"type": condition, "status": "True"}]}).finished is finished


def test_a_job_is_unstarted_when_it_has_succeeded_without_a_start_time() -> None:
    met = [{"type": "SuccessCriteriaMet", "status": "True"}]
    complete = [*met, {"type": "Complete", "status": "True"}]
    assert a_job(status={"conditions": met}).phase == UNSTARTED
    assert a_job(status={"conditions": met, "startTime": "2026-01-01T00:00:05Z"}).phase == ""
    assert a_job(status={"conditions": complete}).phase == ""


@pytest.mark.parametrize(("status", "at"), [("True", 1_767_225_605), ("False", 0)])
def test_a_job_tells_when_its_controller_suspended_it(status: str, at: int) -> None:
    told = {"type": "Suspended", "status": status, "lastTransitionTime": "2026-01-01T00:00:05Z"}
    assert (a_job().suspended_at, a_job(status={"conditions": [told]}).suspended_at) == (0, at)


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
    assert indexes_in(index_ranges(text, below=8)) == found


# PodGroups


def test_a_group_asks_for_its_members() -> None:
    fact = a_group(minMember=4, minTaskMember={"a": 1, "b": 3}, queue="q", priorityClassName="p")
    assert (fact.minimum, fact.queue, fact.priority_class) == (4, "q", "p")
    assert fact.group.task_minimums == {"a": 1, "b": 3}
    assert (fact.pod_sets, fact.stands_for) == ((), None)
    assert a_group(minMember=3, minTaskMember={"a": 1, "b": 3}).group.task_minimums == {}


@named_rows(
    ("written", "asked"),
    {
        "nothing": ({}, None),
        "plain": ({"cpu": "500m", "nvidia.com/gpu": 2}, {"cpu": 500, "nvidia.com/gpu": 2000}),
        "names of a ResourceQuota": (
            {"requests.cpu": "4", "cpu": "2", "requests.memory": "1Gi"},
            {"cpu": 2000, "memory": 2**30},
        ),
        "what is no request": ({"limits.cpu": "9", "count/pods": "3", "pods": "3"}, {"pods": 3}),
    },
)
def test_what_a_group_is_said_to_ask_for_is_read(written: dict[str, Any], asked: Any) -> None:
    found = a_group(minMember=1, minResources=written).group.min_resources
    assert found == (None if asked is None else Resources(asked))


@pytest.mark.parametrize(
    "written", [{"cpu": "lots"}, {str(number): 1 for number in range(65)}], ids=["unreadable", "too many"]
)
def test_what_cannot_be_read_of_it_is_an_obstacle(written: dict[str, Any]) -> None:
    obstacle = a_group(minMember=1, minResources=written).obstacle
    assert obstacle.message.startswith("spec.minResources: ")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h", 3600), ("1h1s", None), ("0s", None), ("soon", None)],
)
def test_for_how_long_quota_is_to_be_held_is_read_or_is_an_obstacle(text: str, seconds: int | None) -> None:
    found = a_group({"annotations": {"muster.dev/hold-min-resources": text}}, minMember=1)
    assert found.group.hold_seconds == (seconds or 0)
    assert (found.obstacle is None) == bool(seconds)
    if not seconds:
        said = f"metadata.annotations[muster.dev/hold-min-resources]: found {text}, expected a duration above 0s "
        assert found.obstacle.message == f"{said}and of at most 1h, such as 10m"


def test_a_group_made_for_a_volcano_job_is_no_workload_of_its_own() -> None:
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "x"}
    assert a_group({"ownerReferences": [reference]}).stands_for == WorkloadKey(kind_names.VOLCANO_JOB, "x")
    foreign = {**reference, "apiVersion": "kubeflow.org/v1"}
    assert a_group({"ownerReferences": [foreign]}).stands_for is None


def test_facts_are_equal_when_nothing_that_matters_changed() -> None:
    fact = a_job()
    assert a_job({"annotations": {"note": "x"}}, status={"ready": 1}) == fact


def test_more_pods_than_any_cluster_runs_are_refused_before_anybody_counts_them() -> None:
    for fact in (a_job(parallelism=2_000_000_000), a_volcano_job(task("w", replicas=2_000_000_000))):
        assert sum(pods.count for pods in fact.pod_sets) == 0
        assert "found 2000000000 pods, expected at most 10000" in fact.obstacle.message


def test_who_is_new_or_wants_something_else_is_answered_at_once_and_progress_can_wait() -> None:
    asked = a_group(minMember=4)
    assert asks(None, asked)
    assert asks(asked, replace(asked, generation="another"))
    assert not asks(asked, replace(asked, phase="Running"))
    assert not asks(asked, None)


@with_rows("named", "told")
def test_a_template_that_names_a_node_or_a_class_of_the_system_is_an_obstacle(
    named: dict[str, str], told: str
) -> None:
    template = {"spec": {**TEMPLATE["spec"], **named}}
    for fact in (a_job(template=template), a_volcano_job({**task(), "template": template})):
        assert fact.obstacle.code == "InvalidSpec"
        assert told in fact.obstacle.message


def test_a_template_with_gates_of_others_gets_no_seats_that_its_pods_could_not_use() -> None:
    gates = [{"name": "muster.dev/admission"}, {"name": "example.org/data"}, {"name": "example.org/net"}]
    template = {"spec": {**TEMPLATE["spec"], "schedulingGates": gates}}
    for fact in (a_job(template=template), a_volcano_job({**task(), "template": template})):
        assert fact.obstacle.code == "OtherGates"
        found = "template.spec.schedulingGates: found example.org/data and example.org/net, expected none of other"
        assert found in fact.obstacle.message
    ours = {"spec": {**TEMPLATE["spec"], "schedulingGates": gates[:1]}}
    assert a_job(template=ours).obstacle is None


GENERATED = {"matchLabels": {names.CONTROLLER_UID: "u"}}
COLOURED = {**GENERATED, "matchExpressions": [{"key": "colour", "operator": "DoesNotExist"}]}


@named_rows(
    ("wrong", "right", "told"),
    {
        "its pods lack the label by which they are known": (
            {"manualSelector": True},
            {"manualSelector": False},
            "spec.manualSelector: found true",
        ),
        "it makes more pods than its seats, in place of those that somebody labels so that it lets them go": (
            {"selector": COLOURED},
            {"selector": GENERATED},
            "spec.selector.matchExpressions: found 1, expected none",
        ),
        "the job controller makes no pods of it, so its seats would be held for ever": (
            {"managedBy": "example.com/mine"},
            {"managedBy": "kubernetes.io/job-controller"},
            "spec.managedBy: found 'example.com/mine', expected none or 'kubernetes.io/job-controller'",
        ),
    },
)
def test_a_job_whose_pods_another_rule_makes_or_finds_is_an_obstacle(
    wrong: dict[str, Any], right: dict[str, Any], told: str
) -> None:
    obstacle = a_job(**wrong).obstacle
    assert (obstacle.code, told in obstacle.message) == ("InvalidSpec", True)
    assert a_job(**right).obstacle is None


def test_another_version_of_the_spec_is_news() -> None:
    """The version is what a resume depends on."""
    assert a_job({"generation": 2}) != a_job({"generation": 1})
    revision = a_job({"generation": 2}).revision
    assert revision == JobRevision(2, frozenset({"/metadata"}))


def test_a_job_tells_what_there_is_of_what_muster_writes_into_its_template() -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    meta = {"labels": {"x": "y"}, "annotations": {names.ADMISSION_ID: "7", "other": "z"}}
    template = {"metadata": meta, "spec": {**TEMPLATE["spec"], "affinity": affinity}}
    revision = a_job(template=template).revision
    assert revision.existing == {
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/annotations/muster.dev~1admission-id",
        "/spec/affinity",
        "/spec/affinity/nodeAffinity",
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
    }


def test_a_generation_tells_what_pods_ask_from_how_many_there_are() -> None:
    asked = pods_generation(a_job().generation)
    assert asked == pods_generation(a_job(parallelism=5, completions=9).generation) != ""
    near = {**TEMPLATE, "metadata": {"annotations": {names.REQUIRED_TOPOLOGY: "rack"}}}
    elsewhere = {"spec": {**TEMPLATE["spec"], "nodeSelector": {"zone": "a"}}}
    tolerant = {"spec": {**TEMPLATE["spec"], "tolerations": [{"operator": "Exists"}]}}
    for template in (near, elsewhere, tolerant):
        assert pods_generation(a_job(template=template).generation) != asked
