"""What the world knows of budgets: when they are used up, as plans are applied, queues change and months turn."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from admission.facts.cluster import QueueFact
from admission.world.world import World
from queues.quota.accounts import Account
from queues.quota.budgets import HoursBudget, HoursUsed, Period
from queues.quota.queue import Limits, Loan
from queues.resources import GPU
from queues.sql.database import Database
from queues.workload import NO_FLAVOR, QueueName
from tests.builders.cycles import Leaders
from tests.builders.decided_work import a_workload, an_admission, gpu_pods, seats_on
from tests.builders.facts import NOW, gone, queue, see, world

TOP, A, B = QueueName("top"), QueueName("a"), QueueName("b")
MONTH = Period.month_of(NOW, UTC)
#: Thousandths of a GPU for an hour.
HOUR = 3_600_000
ONE_GPU = an_admission(7, a_workload("j", gpu_pods(), queue=A), *seats_on("n1", gpu_pods()))


def budgeted(name: str, hours: int, *, holds: bool = True, **about: Any) -> QueueFact:
    return queue(name, budget=HoursBudget(hours={GPU: hours * 1000}, holds=holds), **about)


def read(known: World, used: int = 0, held: int = 0, now: int = NOW) -> None:
    """As the shell does, with what queue a used itself."""
    month = known.budgets.unread(now)
    assert month == Period.month_of(now, UTC)
    known.budgets.begin(month, {A: {GPU: HoursUsed(used, held, now)}}, {}, now)


def spent(known: World, now: int = NOW) -> dict[str, str]:
    """Budgets that are used up, as a decision sees it: the resource and the day."""
    known.refresh(now)
    found = {name: each.spent for name, each in known.freeze(now).queues.items()}
    return {name: f"{each.resource} {each.ends_on}" for name, each in found.items() if each is not None}


def two(**about: Any) -> World:
    return world([budgeted("top", 10), queue("a", parent=TOP, **about)])


def day_after() -> str:
    return f"{GPU} {datetime.fromtimestamp(MONTH.ends, UTC).date()}"


def test_without_a_budget_nothing_is_read_and_nothing_waits() -> None:
    known = world([queue("a")])
    assert known.budgets.unread(NOW) is None
    assert (known.budgets.use, known.budgets.counted_since(NOW)) == (None, None)
    assert spent(known) == {}


def test_a_budget_is_used_up_at_the_second_that_follows_from_what_is_held() -> None:
    known = two()
    read(known, used=9 * HOUR, held=1000)
    assert known.budgets.until(NOW) == NOW + 3600
    assert spent(known, NOW + 3599) == {}
    known.refresh(NOW + 3600)
    assert known.snapshot_is_stale
    assert spent(known, NOW + 3600) == {"top": day_after()}
    assert known.budgets.until(NOW + 3600) == MONTH.ends


def test_what_is_admitted_and_given_back_counts_from_its_second_on() -> None:
    known = two()
    read(known, used=9 * HOUR)
    known.budgets.post([ONE_GPU], {}, NOW + 10)
    assert known.budgets.until(NOW + 10) == NOW + 3610
    known.budgets.post([replace(ONE_GPU, ended=frozenset({0}))], {ONE_GPU.id: ONE_GPU}, NOW + 3600)
    assert known.budgets.use is not None
    assert known.budgets.use.hours[TOP][GPU] == HoursUsed(9 * HOUR + 3590 * 1000, 0, NOW + 3600)
    assert spent(known, NOW + 5000) == {}


def test_one_that_only_reports_is_never_used_up() -> None:
    known = world([budgeted("a", 1, holds=False)])
    read(known, used=2 * HOUR)
    assert (spent(known), known.budgets.until(NOW)) == ({}, MONTH.ends)


def test_a_change_of_the_amount_counts_at_once_and_needs_no_reading() -> None:
    known = two()
    read(known, used=10 * HOUR)
    assert spent(known) == {"top": day_after()}
    see(known, budgeted("top", 11))
    assert known.budgets.unread(NOW) is None
    assert (spent(known), known.snapshot_is_stale) == ({}, False)
    see(known, queue("top"))
    assert (known.budgets.unread(NOW), spent(known), known.budgets.use) == (None, {}, None)


def test_a_queue_that_comes_or_goes_needs_no_reading_unless_it_comes_back_elsewhere() -> None:
    known = two()
    read(known, used=10 * HOUR)
    see(known, gone(queue("a", parent=TOP)), queue("b", parent=TOP))
    assert known.budgets.unread(NOW) is None
    assert spent(known) == {"top": day_after()}
    see(known, queue("a"))
    read(known, used=10 * HOUR)
    assert spent(known) == {}


def test_use_is_read_again_when_a_queue_moves_or_another_has_a_budget() -> None:
    known = two()
    read(known, used=10 * HOUR)
    see(known, queue("a"))
    assert known.budgets.unread(NOW) == MONTH
    read(known, used=10 * HOUR)
    assert spent(known) == {}
    see(known, budgeted("a", 10))
    read(known, used=10 * HOUR)
    assert spent(known) == {"a": day_after()}
    see(known, queue("a", budget=HoursBudget(hours={GPU: 10_000, "cpu": 1000})))
    assert known.budgets.unread(NOW) == MONTH


def test_what_a_queue_used_counts_above_after_it_is_gone() -> None:
    known = world([budgeted("top", 10), queue("b", parent=TOP)])
    month = known.budgets.unread(NOW)
    assert month is not None
    known.budgets.begin(month, {A: {GPU: HoursUsed(10 * HOUR, 0, NOW)}}, {"a": "b", "b": "top"}, NOW)
    assert spent(known) == {"top": day_after()}


def test_a_new_month_begins_with_nothing_used_at_its_first_second() -> None:
    known = two()
    read(known, used=10 * HOUR, held=1000)
    assert spent(known, MONTH.ends - 1) == {"top": day_after()}
    assert known.budgets.until(MONTH.ends - 1) == MONTH.ends
    assert known.budgets.unread(MONTH.ends - 1) is None
    read(known, held=1000, now=MONTH.ends)
    assert spent(known, MONTH.ends) == {}


async def test_a_budget_that_is_given_to_a_queue_with_a_loan_holds_from_that_turn_on(
    muster: Database,
) -> None:
    limits = Limits(deserved={GPU: 4000})
    loan = Loan(to=B, account=Account(NO_FLAVOR, GPU), units=1000, until=NOW + 3600)
    lender = queue("a", limits=limits, loans=(loan,))
    leaders = Leaders(muster, (queue("root"), budgeted("b", 10, limits=limits), lender))
    await leaders.next_one()
    await leaders.turn()
    await leaders.turn(replace(lender, queue=replace(lender.queue, budget=budgeted("a", 0).queue.budget)))
    decided = leaders.cycle.last
    leaders.close()
    assert decided is not None
    assert [name for name, each in decided.snapshot.queues.items() if each.spent is not None] == ["a"]
