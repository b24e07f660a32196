"""What the benchmark of a mix of gangs makes of what it saw."""

from collections import Counter

import pytest

from tests.bench.turnover import mix
from tests.bench.turnover.decision_log import DecisionLog
from tests.bench.turnover.mix import NODES, figures, sizes, turnovers
from tests.bench.turnover.recorded_load import PodRecord, Record, WorkloadRecord
from tests.bench.turnover.recorded_round import RecordedRound
from tests.bench.turnover.timeline import Window


def test_there_are_as_many_gangs_of_each_size_and_enough_for_the_time() -> None:
    gangs = sizes(120)
    assert len(set(Counter(gangs).values())) == 1
    assert sum(gangs) == pytest.approx((120 / mix.RUNS + 1) * NODES, rel=0.01)
    assert gangs == sizes(120)


def pod(gang: int, node: str, created: float, ended: float) -> PodRecord:
    """It is bound and runs a second after the other."""
    return PodRecord(
        gang=gang, created=created, node=node, bound=created + 1, running=created + 2, ended=ended
    )


def test_utilisation_counts_pods_that_run_until_too_little_waits() -> None:
    """Gangs of a node each: all nodes run from 2 to 6, and again from 10; what waits then asks for all until 8."""
    first = [pod(gang, f"n{gang}", 0, 6) for gang in range(NODES)]
    second = [pod(NODES + gang, f"n{gang}", 8, 20) for gang in range(NODES)]
    workloads = [WorkloadRecord(submitted=0, resumed=[0], finished=20) for _ in range(2 * NODES)]
    record = Record(workloads=workloads, pods=[*first, *second], cpu_seconds=0.0)
    one = figures([1] * (2 * NODES), RecordedRound(record=record))
    assert (one.window.start, one.window.end) == (2, 8)
    assert one.utilisation == pytest.approx(4 / 6)


def test_a_turnover_is_told_in_stages_that_add_up() -> None:
    pods = [pod(0, "n1", 0, 5.0), pod(0, "n2", 0, 5.5), pod(1, "n1", 6, 20)]
    log = DecisionLog(admitted={0: [0], 1: [5.75]}, freed={0: [5.625], 1: [21]})
    found = turnovers(pods, log, Window(start=1, end=10))
    assert found["the pod's end, its gang's"] == [0.5]
    assert found["the gang's end, seats given back"] == [0.125]
    assert found["seats given back, next admitted"] == [0.125]
    assert found["admitted, pod made"] == [0.25]
    assert found["all: the pod's end, next running"] == [3.0]
    assert turnovers(pods, log, Window(start=1, end=7)) == {}
