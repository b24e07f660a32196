"""What the benchmark of a stream of Jobs makes of what it saw."""

from collections import Counter
from typing import Any

import pytest

from tests.bench.turnover.decision_log import decisions
from tests.bench.turnover.recorded_load import PodRecord, Record, WorkloadRecord
from tests.bench.turnover.recorded_round import RecordedRound, none_failed
from tests.bench.turnover.stream import LARGE, SMALL, TOTAL, QueuedJob, StreamFigures, figures, stream

#: So many large Jobs ask for the whole quota.
MANY = TOTAL // LARGE.cpus


def played(*workloads: WorkloadRecord) -> StreamFigures:
    """The figures of large Jobs."""
    jobs = [QueuedJob(queue="c0-q0", kind=LARGE) for _ in workloads]
    pods = [PodRecord(gang=number, created=0.0) for number in range(len(workloads))]
    record = Record(workloads=list(workloads), pods=pods, cpu_seconds=0.0)
    return figures(jobs, RecordedRound(record=record))


def job(submitted: float, resumed: list[float], finished: float, *evicted: float) -> WorkloadRecord:
    return WorkloadRecord(submitted=submitted, resumed=resumed, evicted=list(evicted), finished=finished)


def test_each_queue_gets_kueues_proportions_in_the_order_of_its_generator(golden: Any) -> None:
    jobs = stream(100)
    assert len(jobs) == 3000
    assert Counter(each.kind.name for each in jobs if each.queue == "c3-q5") == golden
    assert {each.kind for each in jobs[:120]} == {SMALL}
    assert [each.queue for each in jobs[:7]] == [f"c0-q{n}" for n in range(6)] + ["c1-q0"]


def test_use_is_that_of_resumed_jobs_while_the_whole_quota_is_asked_for() -> None:
    """The first half of the quota runs from 1 to 5 while the rest waits until 5, which ends the window."""
    running = [job(0, [1], 5) for _ in range(MANY // 2)]
    waiting = [job(0, [5], 9) for _ in range(MANY)]
    one = played(*running, *waiting)
    assert (one.window.start, one.window.end) == (1, 5)
    assert one.use == pytest.approx(0.5)
    assert one.jobs_per_second == pytest.approx(MANY * 1.5 / 9)


def test_an_evicted_job_uses_nothing_until_it_is_resumed_again() -> None:
    evicted = [job(0, [1, 4], 5, 2) for _ in range(MANY)]
    waiting = [job(0, [5], 9) for _ in range(MANY)]
    one = played(*evicted, *waiting)
    assert one.use == pytest.approx((1 + 1) / 4)
    assert one.evictions == MANY


def test_a_job_that_ends_though_it_was_evicted_is_counted_until_then() -> None:
    evicted = [job(0, [1], 3, 2) for _ in range(MANY)]
    waiting = [job(0, [5], 9) for _ in range(MANY)]
    assert played(*evicted, *waiting).use == pytest.approx(1 / 4)


def test_jobs_that_fail_are_not_passed_over() -> None:
    failed = WorkloadRecord(submitted=0, resumed=[1], finished=2, failed=True)
    with pytest.raises(RuntimeError, match="1 workloads failed, g00000 among them"):
        none_failed(Record(workloads=[failed], pods=[], cpu_seconds=0.0))


def test_the_log_tells_when_gangs_were_admitted_and_freed_also_after_midnight() -> None:
    started = 1_700_006_399.0  # 23:59:59 UTC
    log = decisions(
        (
            "23:59:59.500 INFO    admission.turn_report: admitted  admission=1 seats=1 term=1 workload=bench/g00007",
            "23:59:59.600 INFO    admission.turn_report: evicting  admission=1 term=1 workload=bench/g00007",
            "00:00:01.250 INFO    admission.turn_report: freed  admission=1 seats=1 term=1 workload=bench/g00007",
            "00:00:02.000 INFO    admission.turn_report: freed  admission=2 seats=1 term=1 workload=other/train",
        ),
        started,
    )
    assert log.admitted == {7: [started + 0.5]}
    assert log.freed == {7: [started + 2.25]}
