"""What happens is told in the log, a line each."""

import logging
from dataclasses import replace

import pytest

from admission.apply import Applied
from admission.turn_report import EvictionCost, evictions_of, log_applied
from queues.admissions import AdmissionState
from queues.plan import Admit, Adopt, Evict, Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId
from tests.builders.decided_work import a_snapshot
from tests.builders.facts import GROUP, JOB, NOW, VOLCANO, admission, evicting, state_of, volcano_job

RUNS = admission(JOB, "n1 n1", number=1)
SEATS = Admit(
    workload=VOLCANO,
    namespace="ns",
    name="train",
    queue=RUNS.queue,
    priority=0,
    generation="1",
    seats=RUNS.seats,
)


async def test_adoptions_evictions_and_refusals_of_the_ledger_are_a_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "admission.turn_report")
    adopt = Adopt(admit=SEATS, pods={})
    evict = Evict(admission=RUNS.id, code=ReasonCode.RECLAIMED, message="for job/ns/other")
    full = Reason(code=ReasonCode.NODE_FULL, message="node n1 is full")
    applied = Applied(
        ledger_seq=2,
        admissions=(evicting(RUNS),),
        adopted=((AdmissionId(2), adopt),),
        evicted=(evict,),
        dropped={GROUP: full},
    )
    await log_applied(applied, {RUNS.id: RUNS})
    told = [(each.message, vars(each)["workload"], vars(each).get("code")) for each in caplog.records]
    assert told == [
        ("adopted", "ns/train", None),
        ("evicting", "ns/train", "Reclaimed"),
        ("not admitted by the ledger", str(GROUP), "NodeFull"),
    ]


async def test_a_gang_with_elastic_parts_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "admission.turn_report")
    parts = [replace(SEATS, seats=SEATS.seats[:1], elastic=True) for _ in range(3)]
    opened = tuple((AdmissionId(number), each) for number, each in enumerate([SEATS, *parts], 1))
    held = {number: admission(JOB, "n1 n1", number=number) for number in (1, 2)}
    evicts = [
        Evict(admission=each.id, code=ReasonCode.RECLAIMED, message="for job/ns/other", elastic=True)
        for each in held.values()
    ]
    closed = tuple(replace(each, state=AdmissionState.CLOSED) for each in held.values())
    applied = Applied(ledger_seq=2, admitted=opened, evicted=tuple(evicts), admissions=closed)
    await log_applied(applied, {each.id: each for each in held.values()})

    told = [(each.message, vars(each)["admission"], vars(each).get("seats")) for each in caplog.records]
    assert told == [("admitted", 1, 5), ("evicting", 1, None), ("freed", 1, 4)]


def test_what_evictions_cost_is_counted_from_the_start_or_the_last_checkpoint() -> None:
    held = replace(admission(VOLCANO, "n1 n1"), opened_at=NOW - 100)
    other = replace(admission(JOB, "n1", number=2), opened_at=NOW - 100)
    waits = state_of(volcano_job(2), (), [held], key=VOLCANO).workload
    snapshot = a_snapshot(
        queues=[],
        nodes=(),
        admissions=(held, other),
        now=NOW,
        holders={VOLCANO: replace(waits, checkpoint_interval=30)},
    )
    evicts = [Evict(admission=each.id, code=ReasonCode.GPU_UNHEALTHY, message="") for each in (held, other)]

    found = evictions_of(evicts, snapshot)

    assert found == {ReasonCode.GPU_UNHEALTHY: EvictionCost(2, 2 * (100 % 30) + 100)}
    assert (
        evictions_of([Evict(admission=AdmissionId(9), code=ReasonCode.CLEARED, message="")], snapshot) == {}
    )
