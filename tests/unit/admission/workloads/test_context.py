"""What other objects say about a fact, and that objects which their owner has suspended hold nothing."""

from dataclasses import replace

import pytest

from admission.facts.pods import PodFact
from admission.workloads.context import Context, in_context
from queues.workload import AdmissionId
from tests.builders.facts import JOB, NOW, admission, evicting, job, pod, released, state_of


@pytest.mark.parametrize(
    ("priority_class", "preempts"), [("", True), ("high", True), ("calm", False), ("unknown", True)]
)
def test_others_are_evicted_for_a_pod_if_its_class_says_so(priority_class: str, preempts: bool) -> None:
    context = Context(priorities={"calm": 9, "high": 9}, never_preempting=frozenset({"calm"}))
    found = in_context(replace(pod("a", "n1"), priority_class=priority_class), context)
    assert isinstance(found, PodFact)
    assert found.preempts is preempts


ONE = AdmissionId(1)


@pytest.mark.parametrize("suspended", [True, False], ids=["by spec.suspend", "by the annotation"])
def test_an_admission_ends_without_a_setback_when_the_owner_suspends_its_job(suspended: bool) -> None:
    fact = job(2, directed=ONE, suspended=suspended, held=True)
    pods = [released("a", None, "n1"), released("b", None, "n1")]
    (rollback,) = state_of(fact, pods, [admission(JOB, "n1 n1", started=True)]).evictable.values()
    assert (rollback.code, rollback.not_before, rollback.revision) == ("OnHold", 0, None)


def test_a_held_job_waits_with_the_way_out_as_its_reason() -> None:
    waiting = state_of(job(2, suspended=True, held=True))
    assert waiting.workload.obstacle.code == "OnHold"
    assert "kubectl muster job resume" in waiting.workload.obstacle.message
    going = state_of(
        job(2, suspended=True, held=True), [], [evicting(admission(JOB, "n1 n1", evicted_at=NOW))]
    )
    assert going.workload.obstacle.code == "Evicting"
    resumed = state_of(replace(job(2, suspended=True)))
    assert resumed.workload.obstacle is None
