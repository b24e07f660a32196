"""Reasons are stored in bounded parts, turn by turn."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from admission.engine.pending.classes import ClassAnswer, ClassAnswers
from admission.world.reasons import StoredReasons
from queues.plan import Plan, Reason
from queues.reason_codes import ReasonCode
from queues.slices import run_in_slices
from queues.workload import Workload, WorkloadKey
from tests.builders.decided_work import a_workload, gpu_pods
from tests.builders.facts import NOW, TEAM

NO_FIT = Reason(code=ReasonCode.NO_FIT, message="no room")


def workload(number: int) -> Workload:
    return a_workload(f"u{number}", namespace="ns", name=f"w{number}", queue=TEAM, arrival=number, minimum=1)


WAITING = {each.key: each for each in map(workload, range(7))}


def plan(*, reasons: bool = True) -> Plan:
    return Plan(now=NOW, ledger_seq=0, reasons=dict.fromkeys(WAITING, NO_FIT) if reasons else {})


@pytest.mark.parametrize("waits", [True, False], ids=["stored", "forgotten"])
async def test_more_reasons_than_one_turn_changes_are_changed_by_the_next_turns(waits: bool) -> None:
    stored = {} if waits else dict.fromkeys(WAITING, NO_FIT)
    known, counts = StoredReasons(), []
    while True:
        waiting = WAITING if waits else {}
        changes = await run_in_slices(
            known.next(plan(reasons=waits), waiting, stored, with_numbers=True, limit=3)
        )
        counts.append(len(changes.changed) + len(changes.gone))
        stored = {key: each for key, each in {**stored, **changes.changed}.items() if key not in changes.gone}
        known = changes.stored_after
        if not changes.postponed:
            break
    assert counts == [3, 3, 1]
    assert stored == (dict.fromkeys(WAITING, NO_FIT) if waits else {})
    changes = await run_in_slices(
        known.next(plan(reasons=waits), waiting, stored, with_numbers=True, limit=3)
    )
    assert not changes.changed


def test_many_workloads_are_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admission.world.reasons.LOOKS", 2)
    stored = dict.fromkeys(WAITING, NO_FIT)
    comparing = StoredReasons().next(plan(), WAITING, {}, with_numbers=True)
    assert len(list(comparing)) == len(WAITING) // 2
    small: dict[Any, ClassAnswer] = {
        number: ClassAnswer(TEAM, NO_FIT, [SimpleNamespace(workload=each)], None)  # type: ignore[list-item, arg-type]
        for number, each in enumerate(WAITING.values())
    }
    answers = Plan(now=NOW, ledger_seq=0, reasons=ClassAnswers(small, {}))
    assert len(list(StoredReasons().next(answers, WAITING, {}, with_numbers=True))) == len(WAITING) // 2
    forgetting = StoredReasons().next(plan(reasons=False), {}, stored, with_numbers=True)
    assert len(list(forgetting)) == len(WAITING) // 2


async def test_a_job_that_says_how_its_pods_start_is_told_so_no_more() -> None:
    job = a_workload("u1", gpu_pods(4), queue=TEAM, whole_by_default=True)
    known, stored, told = StoredReasons(), dict[WorkloadKey, Reason](), []
    for whole_by_default in (True, False):
        pending = {job.key: replace(job, whole_by_default=whole_by_default)}
        members: Any = [SimpleNamespace(workload=pending[job.key])]
        answer: Any = ClassAnswer(TEAM, NO_FIT, members, None)  # type: ignore[arg-type]
        plan = Plan(now=NOW, ledger_seq=0, reasons=ClassAnswers({"class": answer}, {}))  # type: ignore[dict-item]
        changes = await run_in_slices(known.next(plan, pending, stored, with_numbers=True))
        known, stored = changes.stored_after, {**stored, **changes.changed}
        told.append([dict(each.facts) for each in stored.values()])
    assert told == [[{"alone": None, "of": 4}], [{}]]
