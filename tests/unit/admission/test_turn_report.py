"""What happens is told in the log, a line each."""

import logging

import pytest

from admission.apply import Applied
from admission.turn_report import log_applied
from queues.plan import Admit, Adopt, Evict, Reason
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId
from tests.builders.facts import GROUP, JOB, VOLCANO, admission, evicting

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
