"""What a plan means for the next try of the workloads that it evicts."""

from dataclasses import replace

from queues import kind_names
from queues.admissions import Unready
from queues.plan import Evict, Setback, setbacks_of
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, WorkloadKey

ONE = WorkloadKey(kind_names.JOB, "one")
OTHER = WorkloadKey(kind_names.JOB, "other")


def evict(number: int, *, not_before: int = 0, beneficiary: WorkloadKey | None = None) -> Evict:
    return Evict(
        admission=AdmissionId(number),
        code=ReasonCode.REFUSED,
        message="",
        not_before=not_before,
        beneficiary=beneficiary,
    )


def test_a_workload_is_set_back_once_however_many_admissions_it_loses() -> None:
    lost = [
        (ONE, evict(1, not_before=20)),
        (ONE, evict(2, not_before=30)),
        (ONE, evict(3, beneficiary=OTHER)),
        (OTHER, evict(4)),
    ]
    assert setbacks_of(lost) == {ONE: Setback(not_before=30, displaced=True)}


def test_pods_that_were_not_ready_count_once_however_many_admissions_go_back() -> None:
    lost = [(ONE, replace(evict(number, not_before=20), revision="r")) for number in (1, 2)]
    unready = Unready(revision="r", message="")
    assert setbacks_of([*lost, (ONE, evict(3))]) == {ONE: Setback(not_before=20, unready=unready)}
