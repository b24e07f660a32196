"""How long space stays promised to a gang for which others were taken back."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from admission.engine.claims import LONGEST_GRACE
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import NodeTable
from admission.engine.preemption.context import CLAIM_SECONDS
from admission.engine.snapshot import Snapshot
from queues.admissions import Seat
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_node, a_workload, an_admission

NOW = 1_000_000
TAKES = Resources({GPU: 4000, "pods": 1})
Q = QueueName("q")


def job(name: str, count: int = 1, *, came: int = 600) -> Workload:
    return a_workload(
        name, PodSet(name="worker", count=count, takes=TAKES), namespace="ml", queue=Q, created=NOW - came
    )


def starved() -> tuple[Snapshot, Plan]:
    """A gang of two that has waited for long, a small job beside it, and the turn in which all who run have to go."""
    running = [job("x0"), job("x1")]
    admissions = {
        AdmissionId(number): an_admission(
            number,
            each,
            Seat(pod_set="worker", ordinal=0, node=NodeName("n"), takes=TAKES),
            namespace="ml",
            queue=Q,
            priority=0,
            opened_at=NOW - 60,
        )
        for number, each in enumerate(running, start=1)
    }
    node = a_node("n", {GPU: 8000, "pods": 110}, used=TAKES * 2)
    snapshot = Snapshot(
        now=NOW,
        queues={Q: Queue(name=Q, limits=Limits(deserved={GPU: 8000}))},
        nodes=NodeTable.build([node]),
        pending={each.key: each for each in (job("gang", 2, came=4000), job("small"))},
        admissions=admissions,
        holders={each.key: each for each in running},
    )
    plan, _ = decide(snapshot, Memo())
    assert len(plan.evicts) == 2
    return snapshot.after(plan), plan


def turn(snapshot: Snapshot, seconds: int, *, gone: Iterable[int] = ()) -> Plan:
    """So long after the evictions, when these admissions have no pods any more."""
    ended = {AdmissionId(number): frozenset({0}) for number in gone}
    return decide(replace(snapshot, now=NOW + seconds, ended=ended), Memo())[0]


@pytest.mark.parametrize("seconds", [30, CLAIM_SECONDS + 1, 3 * CLAIM_SECONDS, LONGEST_GRACE])
def test_a_place_is_kept_until_those_who_leave_it_have_had_their_grace_period(seconds: int) -> None:
    snapshot, _ = starved()

    waits = turn(snapshot, seconds)
    assert not waits.dropped
    assert not waits.evicts
    assert [each.name for each in turn(snapshot, seconds, gone=(1, 2)).admits] == ["gang"]


def test_half_a_place_is_not_given_away_while_the_other_half_is_still_ending() -> None:
    snapshot, _ = starved()

    half = turn(snapshot, 2 * CLAIM_SECONDS, gone=(1,))

    assert not half.admits
    assert not half.dropped


def test_a_place_that_some_never_leave_is_given_up_some_time() -> None:
    snapshot, _ = starved()

    plan = turn(snapshot, CLAIM_SECONDS + LONGEST_GRACE + 1)

    assert [key.uid for key in plan.dropped] == ["gang"]
