"""Muster dies, or stands still, at every named point of the ring. Nothing is lost, nothing is doubled."""

from typing import Any

import pytest

from admission.failpoints import POINTS
from tests.cluster_faults import continue_muster, kill_muster, leads
from tests.e2e.support.crash_harness import (
    LONG_LEASE,
    CrashHarness,
    WorkloadOfEachKind,
    balances_are_sums_of_open_seats,
    everything_in,
    is_stopped,
    wait_quiet,
    written_in,
)
from tests.waiting import until


def points(*always: str) -> list[Any]:
    """Each named point as a parameter: these always, the others with the long tests. All are tried by make chaos."""
    assert set(always) < set(POINTS)
    return [pytest.param(point, marks=[] if point in always else [pytest.mark.long]) for point in POINTS]


@pytest.mark.parametrize("point", points("one-released"))
def test_killed_at_any_point_and_restarted_nothing_is_lost_or_doubled(
    harness: CrashHarness, point: str
) -> None:
    harness.leave()
    with harness.sandbox(f"killed-{point}") as sandbox:
        workloads = WorkloadOfEachKind.arrive(sandbox)
        harness.dies(harness.start(f"{point}:KILL", wait=False))
        balances_are_sums_of_open_seats(harness.ledger)
        harness.start()
        workloads.wait_over()
        workloads.prove()
        balances_are_sums_of_open_seats(harness.ledger)


@pytest.mark.parametrize("point", points())
def test_a_leader_that_stood_still_at_any_point_writes_nothing_once_another_leads(
    harness: CrashHarness, point: str
) -> None:
    harness.leave()
    with harness.sandbox(f"stopped-{point}") as sandbox:
        workloads = WorkloadOfEachKind.arrive(sandbox)
        old = harness.start(f"{point}:STOP", wait=False)
        until(lambda: is_stopped(old), f"{old.name} to stand still at {point}")
        new = harness.start(**LONG_LEASE)
        harness.leads(new)
        workloads.wait_over()
        workloads.prove()
        # The names of its pods are free again: what the old one still has in hand could be made.
        for pod in sandbox.pods():
            sandbox.delete("Pod", pod["metadata"]["name"])
        before = wait_quiet(sandbox)
        term = int(harness.ledger.ask("SELECT term FROM leases")[0][0])
        rows = [written_in(harness.ledger, number) for number in range(1, term + 1)]

        continue_muster(old)
        until(lambda: old.ready() and not leads(old), f"{old.name} to notice")
        assert rows == [written_in(harness.ledger, number) for number in range(1, term + 1)]
        assert before == everything_in(sandbox)
        assert workloads.is_over()
        assert leads(new)
        kill_muster(old)
        harness.forget(old)
