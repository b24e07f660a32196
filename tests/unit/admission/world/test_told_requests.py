"""Stored reasons tell of requests for nodes, turn by turn, and stop telling when there is none."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from admission.engine.pending.classes import ClassAnswer, ClassAnswers
from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.plan import WhyNot
from admission.provisioning.request_progress import NoRequest, RequestProgress
from admission.world.reasons import StoredReasons, ToldRequests, counts
from queues.plan import NODES_REFUSED, Plan, Reason
from queues.reason_codes import ReasonCode
from queues.slices import run_in_slices
from queues.workload import Workload, WorkloadKey
from tests.builders.decided_work import a_workload
from tests.builders.facts import NOW, TEAM


def workload(number: int) -> Workload:
    return a_workload(f"u{number}", namespace="ns", name=f"w{number}", queue=TEAM, arrival=number, minimum=1)


FIRST, SECOND = workload(1), workload(2)
WAITING = {each.key: each for each in (FIRST, SECOND)}
PROGRESS = RequestProgress(
    request="muster-1",
    class_name="check-capacity",
    attempt=1,
    phase=RequestPhase.OPEN,
    since=NOW,
    until=NOW + 900,
    next_at=None,
    message="",
)


def answer(code: ReasonCode = ReasonCode.NO_FIT, *of: Workload) -> dict[Any, ClassAnswer]:
    members: Any = [SimpleNamespace(workload=each) for each in of or (FIRST, SECOND)]
    need: Any = None
    return {"class": ClassAnswer(TEAM, Reason(code=code, message="no room"), members, need)}


class Turns:
    """Turns that store their reasons, as the ledger has them then."""

    def __init__(self, stored: Mapping[WorkloadKey, Reason] | None = None) -> None:
        self.stored = dict(stored or {})
        self.told = ToldRequests(self.stored)
        self.changes = StoredReasons()
        self.answer = answer()

    async def turn(self, *, with_numbers: bool = True) -> dict[str, str]:
        """The codes that are stored after it, by name."""
        plan = Plan(now=NOW, ledger_seq=0, reasons=ClassAnswers(self.answer, {}))
        plan = self.told.told_in(plan, WAITING, self.stored)
        looking = self.changes.next(plan, WAITING, self.stored, with_numbers=with_numbers)
        found = await run_in_slices(looking)
        self.stored.update(found.changed)
        self.changes = found.stored_after
        by_code = counts(plan.reasons, WAITING)
        assert sum(by_code.values()) == len(plan.reasons) == 2
        codes = {WAITING[key].name: str(reason.code) for key, reason in plan.reasons.items()}
        assert by_code == {
            (TEAM, ReasonCode(code)): list(codes.values()).count(code) for code in codes.values()
        }
        return {WAITING[key].name: str(reason.code) for key, reason in self.stored.items()}


async def test_only_the_gang_with_the_request_is_told_of_it_and_not_for_longer_than_it_is_there() -> None:
    turns = Turns()
    assert await turns.turn() == {"w1": "NoFit", "w2": "NoFit"}
    assert turns.told.put({FIRST.key: PROGRESS})
    assert await turns.turn() == {"w1": "Provisioning", "w2": "NoFit"}
    assert not turns.told.put({FIRST.key: PROGRESS}), "nothing new"
    assert await turns.turn() == {"w1": "Provisioning", "w2": "NoFit"}
    # The answer of the class is the same object all the time.
    assert turns.told.put({})
    assert await turns.turn() == {"w1": "NoFit", "w2": "NoFit"}
    assert "provisioning" not in turns.stored[FIRST.key].facts
    assert await turns.turn() == {"w1": "NoFit", "w2": "NoFit"}


async def test_what_is_told_goes_though_changed_numbers_are_stored_later() -> None:
    turns = Turns()
    turns.told.put({FIRST.key: replace(PROGRESS, next_at=NOW + 60)})
    await turns.turn()
    assert "asked again" in turns.stored[FIRST.key].message
    turns.told.put({})
    await turns.turn(with_numbers=False)
    assert "asked again" in turns.stored[FIRST.key].message
    await turns.turn()
    assert turns.stored[FIRST.key].message == "no room"


async def test_a_gang_that_waits_for_something_else_meanwhile_is_told_that() -> None:
    turns = Turns()
    turns.told.put({FIRST.key: PROGRESS})
    turns.answer = answer(ReasonCode.QUEUE_PAUSED)
    assert await turns.turn() == {"w1": "QueuePaused", "w2": "QueuePaused"}


async def test_a_new_leader_goes_on_telling_until_it_has_looked() -> None:
    before = Reason(code=ReasonCode.PROVISIONING, message="before", facts={"provisioning": {}})
    turns = Turns({FIRST.key: before, SECOND.key: before})
    assert await turns.turn() == {"w1": "Provisioning", "w2": "Provisioning"}
    turns.answer = answer(ReasonCode.QUEUE_PAUSED)
    assert await turns.turn() == {"w1": "QueuePaused", "w2": "QueuePaused"}
    turns = Turns({FIRST.key: before, SECOND.key: before})
    assert turns.told.put({FIRST.key: PROGRESS})
    assert await turns.turn() == {"w1": "Provisioning", "w2": "NoFit"}
    # All requests may be gone.
    turns = Turns({FIRST.key: before, SECOND.key: before})
    assert turns.told.put({})
    assert await turns.turn() == {"w1": "NoFit", "w2": "NoFit"}


async def test_who_was_refused_for_good_stays_so_until_another_answer_comes() -> None:
    refused = replace(PROGRESS, attempt=3, phase=RequestPhase.FAILED, next_at=NOW + 240, refused=True)
    told = ToldRequests({})
    assert told.put({FIRST.key: refused, SECOND.key: PROGRESS})
    assert told.refused == {FIRST.key}
    # The next attempt is open, and nothing else is known.
    asked_again = replace(PROGRESS, attempt=4)
    told.put({FIRST.key: asked_again})
    assert told.refused == {FIRST.key}
    for changed in (
        {FIRST.key: replace(asked_again, phase=RequestPhase.PROVISIONED)},
        {FIRST.key: replace(asked_again, next_at=NOW + 900)},  # no answer
        {FIRST.key: NoRequest(why=WhyNot.SHARE, max_open=1)},
        {},
    ):
        told.put({FIRST.key: refused})
        assert told.put(changed)
        assert told.refused == set()


async def test_a_new_leader_knows_who_was_refused_until_it_has_looked() -> None:
    never = Reason(code=ReasonCode.NEVER_FITS, message="no", facts={"provisioning": {}, NODES_REFUSED: True})
    told = ToldRequests({FIRST.key: never, SECOND.key: replace(never, facts={})})
    assert told.refused == {FIRST.key}
    assert told.put({})
    assert told.refused == set()


@pytest.mark.parametrize("code", [ReasonCode.NO_FIT, ReasonCode.UNKNOWN_RESOURCE])
async def test_without_requests_a_plan_stays_what_it_is(code: ReasonCode) -> None:
    told = ToldRequests({})
    plan = Plan(now=NOW, ledger_seq=0, reasons=ClassAnswers(answer(code), {}))
    assert told.told_in(plan, WAITING, {}) is plan
    assert not told.put({})
    assert told.told_in(plan, WAITING, {}) is plan
