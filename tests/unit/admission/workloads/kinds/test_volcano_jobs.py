"""Volcano Jobs → what they ask; what cannot be used says why."""

from typing import Any

import msgspec
import pytest

from admission.decode.topology_requests import Tiers
from admission.decode.workload_facts import unreadable_fact
from admission.wire import Bare
from admission.workloads.context import Context, ContextChange, in_context
from admission.workloads.kinds.volcano_job import WireVolcanoJob
from queues import kind_names
from queues.resources import GPU
from queues.workload import QueueName
from tests.builders.decoded_workloads import TAKES, TEMPLATE, a_group, a_job, a_volcano_job, task
from tests.tables import with_rows


def test_a_volcano_job_asks_for_its_tasks() -> None:
    fact = a_volcano_job(task("m", 1), task("w", 3, minAvailable=2), minAvailable=3, queue="q")
    assert fact.key.kind == kind_names.VOLCANO_JOB
    assert (fact.queue, fact.minimum, fact.obstacle) == ("q", 3, None)
    assert [(pods.name, pods.count, pods.minimum) for pods in fact.pod_sets] == [("m", 1, 1), ("w", 3, 2)]
    assert fact.pod_sets[0].takes == TAKES


def test_without_min_available_the_gang_is_all_of_it() -> None:
    assert a_volcano_job(task("a", 2), task("b", 3, minAvailable=1)).minimum == 3


def test_task_minimums_above_the_gang_do_not_count() -> None:
    fact = a_volcano_job(task("a", 2), task("b", 3), minAvailable=3)
    assert [pods.minimum for pods in fact.pod_sets] == [0, 0]


def test_what_pods_are_made_from_is_kept() -> None:
    job = a_volcano_job(task(), meta={"labels": {"a": "b"}}).job
    assert job is not None
    assert (job.labels, msgspec.json.decode(job.tasks[0].template)) == ({"a": "b"}, TEMPLATE)


def asking(**requests: Any) -> dict[str, Any]:
    """A task whose container requests this."""
    return task(template={"spec": {"containers": [{"resources": {"requests": requests}}]}})


CONTAINERS = "spec.tasks[0].template.spec.containers"


@pytest.mark.parametrize(
    ("tasks", "spec", "complaint"),
    [
        ([], {}, "spec.tasks: found none"),
        ([task("a"), task("a")], {}, "spec.tasks[1].name: found a a second time"),
        ([task(minAvailable=5)], {}, "spec.tasks[0].minAvailable: found 5, expected 0 to 4"),
        ([task()], {"minAvailable": 5}, "spec.minAvailable: found 5, expected at most the 4 replicas"),
        ([task(replicas=-1, minAvailable=0)], {}, "spec.tasks[0].replicas: found -1"),
        ([task(replicas="2")], {}, "spec.tasks[0].replicas"),
        ([task(template={})], {}, f"{CONTAINERS}: found none"),
        ([task(template={"spec": {"containers": "c"}})], {}, f"{CONTAINERS}: found str, expected array"),
        ([asking(cpu="lots")], {}, "found 'lots', expected a quantity"),
        ([asking(**{GPU: "0.5"})], {}, "found 500m nvidia.com/gpu, expected a whole number"),
        ([asking(**{GPU: -1})], {}, "found -1 nvidia.com/gpu, expected 0 or more"),
    ],
)
def test_a_volcano_job_that_cannot_be_says_field_found_and_expected(
    tasks: list[dict[str, Any]], spec: dict[str, Any], complaint: str
) -> None:
    obstacle = a_volcano_job(*tasks, **spec).obstacle
    assert obstacle.code == "InvalidSpec"
    assert complaint in obstacle.message


def test_a_document_without_the_form_of_a_job_becomes_a_fact_that_says_so() -> None:
    raw = b'{"metadata":{"name":"v","namespace":"ns","uid":"u"},"spec":{"queue":{"a":1}}}'
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(raw, type=WireVolcanoJob)
    bare = msgspec.json.decode(raw, type=Bare)
    fact = unreadable_fact(kind_names.VOLCANO_JOB, bare, raised.value)
    assert (fact.key.uid, fact.name) == ("u", "v")
    assert fact.obstacle == ("InvalidSpec", "spec.queue: found object, expected str | null")


@with_rows("phase", "finished")
def test_a_volcano_job_is_finished_in_its_last_phases(phase: str, finished: bool) -> None:
    fact = a_volcano_job(task(), status={"state": {"phase": phase}})
    assert (fact.phase, fact.finished) == (phase, finished)


def test_a_status_is_no_new_generation_but_any_change_of_the_spec_is() -> None:
    fact = a_volcano_job(task())
    assert a_volcano_job(task(), status={"running": 3}) == fact
    assert a_volcano_job(task(), maxRetry=5).generation != fact.generation


@with_rows("spec", "meta", "queue")
def test_the_namespaces_queue_counts_when_none_is_named(
    spec: dict[str, Any], meta: dict[str, Any], queue: str
) -> None:
    context = Context(queues={"ns": QueueName("team")})
    assert in_context(a_volcano_job(task(), meta=meta, **spec), context).queue == queue
    assert in_context(a_group(meta, **spec), context).queue == queue


def test_without_any_queue_it_is_the_default_one() -> None:
    assert in_context(a_volcano_job(task()), Context()).queue == "default"


def test_priority_is_the_value_of_the_class() -> None:
    context = Context(priorities={"high": 1000}, default_priority=5)
    high = in_context(a_volcano_job(task(), priorityClassName="high"), context)
    plain = in_context(a_volcano_job(task()), context)
    assert (high.priority, plain.priority) == (1000, 5)
    templated = {"spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}
    assert in_context(a_job(template=templated), context).priority == 1000


def test_a_class_that_never_preempts_is_that_of_its_workload() -> None:
    context = Context(priorities={"calm": 9, "high": 9}, never_preempting=frozenset({"calm"}))
    calm, high, plain = (
        in_context(a_volcano_job(task(), **spec), context)
        for spec in ({"priorityClassName": "calm"}, {"priorityClassName": "high"}, {})
    )
    assert (calm.preempts, high.preempts, plain.preempts) == (False, True, True)
    calm_by_default = in_context(a_volcano_job(task()), Context(default_preempts=False))
    assert not calm_by_default.preempts


def test_a_class_that_does_not_exist_is_an_obstacle_until_it_does() -> None:
    fact = a_volcano_job(task(), priorityClassName="high")
    told = "priority class high does not exist"
    none = f"{told}: leave it out, as there is none"
    assert in_context(fact, Context()).obstacle == ("UnknownPriorityClass", none)
    others = Context(priorities={"highest": 3, "low": 1, "system-node-critical": 9})
    told += "; did you mean highest? There are highest and low. Name one of these"
    assert in_context(fact, others).obstacle == ("UnknownPriorityClass", told)
    assert ContextChange.between(Context(), others).is_about(fact)
    assert in_context(fact, Context(priorities={"high": 1})).obstacle is None


def test_a_tier_becomes_a_level_of_the_topology() -> None:
    levels = ("block", "rack", "host")
    hard = a_volcano_job(task(), networkTopology={"mode": "hard", "highestTierAllowed": 1})
    assert hard.job is not None
    assert hard.job.unsupported == ()
    (pods,) = in_context(hard, Context(tiers=Tiers(levels))).pod_sets
    assert (pods.required_topology, pods.preferred_topology) == ("rack", None)
    soft = a_volcano_job(task(), networkTopology={"mode": "soft", "highestTierAllowed": 2})
    (pods,) = in_context(soft, Context(tiers=Tiers(levels))).pod_sets
    assert (pods.required_topology, pods.preferred_topology) == (None, "block")


def test_what_is_not_acted_on_is_named() -> None:
    restarts = [{"event": "JobUpdated", "action": "RestartJob"}]
    fact = a_volcano_job(task(policies=restarts), plugins={"jax": [], "svc": []})
    assert fact.job is not None
    assert fact.job.unsupported == ("spec.tasks[0].policies[0].event JobUpdated", "spec.plugins.jax")


@with_rows("estimate", "annotations", "seconds")
def test_the_running_estimate_is_the_run_time_unless_an_annotation_says_another(
    estimate: str | None, annotations: dict[str, str], seconds: int | None
) -> None:
    fact = a_volcano_job(task(), meta={"annotations": annotations}, runningEstimate=estimate)
    assert fact.conduct.run_time == seconds
