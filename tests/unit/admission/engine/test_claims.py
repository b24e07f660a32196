"""How long space stays promised to a gang for which others were taken back."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from admission.engine.claims import LONGEST_GRACE
from admission.engine.preemption.context import CLAIM_SECONDS
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.resources import GPU
from queues.workload import AdmissionId, QueueName, Workload
from tests.builders.decided_work import (
    a_snapshot,
    a_workload,
    admitted,
    an_admission,
    gpu_node,
    gpu_pods,
    plan_of,
    seats_on,
)

NOW = 1_000_000


def job(name: str, count: int = 1, *, came: int = 600) -> Workload:
    return a_workload(name, gpu_pods(count, 4), created=NOW - came)


def starved() -> Snapshot:
    """A gang of two that has waited for long, a small job beside it, and the turn in which all who run have to go."""
    running = [job("x0"), job("x1")]
    admissions = [
        an_admission(number, each, *seats_on("n", *each.pod_sets), opened_at=NOW - 60, started=False)
        for number, each in enumerate(running, start=1)
    ]
    snapshot = a_snapshot(
        *(job("gang", 2, came=4000), job("small")),
        queues=[Queue(name=QueueName("q"), limits=Limits(deserved={GPU: 8000}))],
        nodes=[gpu_node("n", used=running[0].asks() * 2)],
        admissions=admissions,
        now=NOW,
        holders={each.key: each for each in running},
    )
    plan = plan_of(snapshot)
    assert len(plan.evicts) == 2
    return snapshot.after(plan)


def turn(snapshot: Snapshot, seconds: int, *, gone: Iterable[int] = ()) -> Plan:
    """So long after the evictions, when these admissions have no pods any more."""
    ended = {AdmissionId(number): frozenset({0}) for number in gone}
    return plan_of(replace(snapshot, now=NOW + seconds, ended=ended))


@pytest.mark.parametrize("seconds", [30, CLAIM_SECONDS + 1, 3 * CLAIM_SECONDS, LONGEST_GRACE])
def test_a_place_is_kept_until_those_who_leave_it_have_had_their_grace_period(seconds: int) -> None:
    snapshot = starved()

    for gone, gets_in in (((), set()), ((1,), set()), ((1, 2), {"gang"})):
        plan = turn(snapshot, seconds, gone=gone)
        assert (admitted(plan), plan.evicts) == (gets_in, ())
        assert bool(plan.dropped) is bool(gets_in), "a half is not given away while the other is still ending"


def test_a_place_that_some_never_leave_is_given_up_some_time() -> None:
    plan = turn(starved(), CLAIM_SECONDS + LONGEST_GRACE + 1)

    assert [key.uid for key in plan.dropped] == ["gang"]
