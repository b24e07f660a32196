"""What a turn promises when something goes wrong in the middle of it."""

import threading
from contextlib import AbstractAsyncContextManager
from datetime import UTC
from typing import Any

import pytest

from admission import intake
from admission.apply import Applied, TurnPlan
from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.cycle import Cycle
from admission.engine.nodes.table import NodeTable
from admission.failpoints import armed
from admission.reconcile.world_status import WorldStatuses
from admission.world.world import World
from queues.admissions import Admission, AdmissionState
from queues.errors import DatabaseUnavailable
from queues.plan import Evict, Plan, Reason
from queues.quota.accounts import Account
from queues.quota.budgets import HoursBudget, HoursUsed, Period
from queues.quota.queue import Limits, Loan
from queues.reason_codes import ADVICE, ReasonCode, with_advice
from queues.sql.leadership import Term
from queues.workload import NO_FLAVOR, AdmissionId, QueueName
from tests.builders.facts import JOB, NOW, job, node, queue, world
from tests.tables import with_rows


class Away:
    """A Postgres that cannot be reached; counts who asks."""

    def __init__(self) -> None:
        self.asked = 0

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        self.asked += 1
        raise DatabaseUnavailable(reason="it is away")

    snapshot = transaction


async def nothing_to_save(*_: object, **__: object) -> bool:
    return False


def cycle_over(known: World, database: Any) -> Cycle:
    return Cycle(
        database,
        Term(holder="me", number=1),
        known,
        awaited=lambda key: {},
        transitions=lambda world, keys, now: (),
        clock=lambda: NOW,
        decider=Decider(DecisionThread(60.0), keep=lambda snapshot: None),
        failpoint=armed(None),
    )


async def test_a_plan_that_could_not_be_stored_is_tried_again_though_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "save", nothing_to_save)
    database = Away()
    known = world([job(1), node("n1"), queue("root"), queue("team", parent="root")], arrivals={JOB: 1})
    cycle = cycle_over(known, database)
    cycle.next_look = NOW + 3600
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await cycle.turn()
    assert database.asked == 2


async def test_all_nodes_are_visited_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    build, threads = NodeTable.build, list[int]()

    def noted(*given: Any) -> NodeTable:
        threads.append(threading.get_ident())
        return build(*given)

    monkeypatch.setattr(NodeTable, "build", noted)
    known = world([job(1), node("n1"), queue("root")], arrivals={JOB: 1})
    with pytest.raises(DatabaseUnavailable):
        await cycle_over(known, Away()).turn()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_what_no_decision_waits_for_puts_no_turn_off_and_its_failures_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = world([job(1)], arrivals={JOB: 1})
    assert known.unsaved.described
    cycle = cycle_over(known, Away())
    for _ in range(3):
        assert not await cycle.store_rest()
    assert known.unsaved.described, "it is tried again"
    told = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert told == ["descriptions and departures not stored"]


def admission(number: int, state: AdmissionState) -> Admission:
    about = {
        "namespace": "ml",
        "name": "group",
        "queue": QueueName("team"),
        "priority": 0,
        "opened_at": NOW,
    }
    return Admission(id=AdmissionId(number), workload=JOB, seats=(), state=state, **about)


async def test_an_eviction_counts_though_other_pods_of_the_workload_got_ready_in_the_same_turn() -> None:
    """As in the ledger, which is told first what got ready."""
    known = world([job(1)], arrivals={JOB: 1})
    evict = Evict(admission=AdmissionId(2), code=ReasonCode.REFUSED, message="refused", not_before=NOW + 60)
    plan = Plan(now=NOW, ledger_seq=0, ready=(AdmissionId(1),), evicts=(evict,))
    applied = Applied(
        ledger_seq=1,
        admissions=(admission(1, AdmissionState.OPEN), admission(2, AdmissionState.EVICTING)),
        evicted=(evict,),
    )

    await cycle_over(known, Away())._update_world(applied, TurnPlan(plan=plan))

    assert known.ledger.setbacks[JOB].rollbacks == 1


@with_rows("code", "told")
async def test_a_workload_that_the_scheduler_refused_waits_with_its_words(
    code: ReasonCode, told: str
) -> None:
    """Why nodes with room refuse it need not be in any books: Muster has no other words for it."""
    words = "the scheduler refuses pod a: 1 node(s) didn't satisfy existing pods anti-affinity rules"
    evict = Evict(admission=AdmissionId(1), code=code, message=words, not_before=NOW + 60)
    known = world([job(1), node("n1"), queue("root"), queue("team", parent="root")], arrivals={JOB: 1})
    known.ledger.put_reasons({JOB: Reason(code=ReasonCode.BACKOFF, message="not tried again yet")}, ())
    applied = Applied(ledger_seq=1, admissions=(admission(1, AdmissionState.EVICTING),), evicted=(evict,))

    await cycle_over(known, Away())._update_world(
        applied, TurnPlan(plan=Plan(now=NOW, ledger_seq=0, evicts=(evict,)))
    )

    reason = WorldStatuses(known, None, {}).why_waiting(JOB)  # type: ignore[arg-type]
    assert reason is not None
    assert reason.message == with_advice(told.format(words), ADVICE[ReasonCode.BACKOFF].owner)


async def test_the_end_of_a_loan_has_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "save", nothing_to_save)
    loan = Loan(to=QueueName("b"), account=Account(NO_FLAVOR, "cpu"), units=1, until=NOW + 7)
    owning = Limits(deserved={"cpu": 8})
    known = world([queue("a", limits=owning, loans=(loan,)), queue("b", limits=owning)])
    cycle = cycle_over(known, Away())
    await cycle.turn()
    assert cycle.next_look == NOW + 7


async def test_the_end_of_a_budget_and_the_begin_of_a_month_have_turns_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "save", nothing_to_save)
    a = QueueName("a")
    known = world([queue("a", budget=HoursBudget(hours={"cpu": 1}, holds=True))])
    month = known.budgets.unread(NOW)
    assert month is not None
    cycle = cycle_over(known, Away())
    for held, then in ((10, NOW + 7), (0, month.ends)):
        known.budgets.begin(month, {a: {"cpu": HoursUsed(3600 - 70, held, NOW)}}, {}, NOW)
        known.snapshot_is_stale = True
        await cycle.turn()
        assert cycle.next_look == then


async def test_a_new_month_is_read_from_the_ledger_and_no_turn_decides_before() -> None:
    known = world([queue("a", budget=HoursBudget(hours={"cpu": 1}))])
    with pytest.raises(DatabaseUnavailable):
        await cycle_over(known, Away()).turn()
    assert known.budgets.unread(NOW) == Period.month_of(NOW, UTC)
