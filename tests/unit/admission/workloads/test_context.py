"""What other objects say about a fact, and that objects which their owner has suspended hold nothing."""

from dataclasses import replace

import pytest

from admission.facts.pods import Conduct, Hold, PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.context import Context, in_context
from queues.kind_names import POD as POD_KIND
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    JOB,
    NOW,
    admission,
    evicting,
    gated,
    group,
    job,
    pod,
    released,
    state_of,
    volcano_job,
)


@pytest.mark.parametrize(
    ("priority_class", "preempts"), [("", True), ("high", True), ("calm", False), ("unknown", True)]
)
def test_others_are_evicted_for_a_pod_if_its_class_says_so(priority_class: str, preempts: bool) -> None:
    context = Context(priorities={"calm": 9, "high": 9}, never_preempting=frozenset({"calm"}))
    found = in_context(replace(pod("a", "n1"), priority_class=priority_class), context)
    assert isinstance(found, PodFact)
    assert found.preempts is preempts


ONE = AdmissionId(1)
POD = WorkloadKey(POD_KIND, "p0")


HELD, SUSPENDED = Conduct(hold=Hold.ADMISSION), Conduct(hold=Hold.SUSPENDED)


@pytest.mark.parametrize(
    ("suspended", "conduct"),
    [(True, SUSPENDED), (False, SUSPENDED), (True, HELD)],
    ids=["by spec.suspend", "by the annotation", "by a hold before it is resumed"],
)
def test_an_admission_ends_without_a_setback_when_the_owner_suspends_its_job(
    suspended: bool, conduct: Conduct
) -> None:
    fact = job(2, directed=ONE, suspended=suspended, conduct=conduct)
    pods = [released("a", None, "n1"), released("b", None, "n1")]
    (rollback,) = state_of(fact, pods, [admission(JOB, "n1 n1", started=True)]).evictable.values()
    assert (rollback.code, rollback.not_before, rollback.revision) == ("OnHold", 0, None)


def test_a_held_job_waits_with_the_way_out_as_its_reason() -> None:
    held = job(2, suspended=True, conduct=SUSPENDED)
    waiting = state_of(held)
    assert waiting.workload.obstacle.code == "OnHold"
    assert "kubectl muster resume job/train -n " in waiting.workload.obstacle.message
    going = state_of(held, [], [evicting(admission(JOB, "n1 n1", evicted_at=NOW))])
    assert going.workload.obstacle.code == "Evicting"
    resumed = state_of(replace(job(2, suspended=True)))
    assert resumed.workload.obstacle is None


@pytest.mark.parametrize(
    ("waits", "runs"),
    [
        (job(2, suspended=True, conduct=HELD), job(2, directed=ONE, conduct=HELD)),
        (volcano_job(2, conduct=HELD), volcano_job(2, conduct=HELD)),
        (group(2, conduct=HELD), group(2, conduct=HELD)),
        (None, None),
    ],
    ids=["Job", "Volcano Job", "PodGroup", "pod"],
)
def test_what_is_held_back_is_not_admitted_and_keeps_the_seats_that_it_has(
    waits: WorkloadFact | None, runs: WorkloadFact | None
) -> None:
    key = POD if waits is None else waits.key
    conduct = HELD if waits is None else Conduct()
    count = 1 if waits is None else 2
    gates = [gated(f"p{each}", conduct=conduct) for each in range(count)]
    nodes = " ".join(["n1"] * count)
    bound = [released(f"p{each}", f"main/{each}", "n1", conduct=conduct) for each in range(count)]

    waiting = state_of(waits, [] if waits and waits.key.kind == JOB.kind else gates, key=key)
    assert waiting.workload.obstacle.code == "OnHold"
    assert f"unhold {key.kind}/" in waiting.workload.obstacle.message

    running = state_of(runs, bound, [admission(key, nodes, pod_set="main", started=True)], key=key)
    assert (running.workload.obstacle, dict(running.evictable)) == (None, {})

    evicted = state_of(runs, bound, [evicting(admission(key, nodes, pod_set="main"))], key=key)
    assert evicted.workload.obstacle is not None
