"""Budgets of queues on a real Postgres: the leader and the other replicas know the same use of them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from admission.cycle import read_budgets
from admission.web.sql_reader import SqlReader
from queues.quota.budgets import HoursBudget
from queues.quota.queue import ROOT
from queues.sql.database import Database
from queues.sql.observed.rows import QueueVersion
from queues.workload import QueueName
from tests.builders.facts import queue as queue_fact
from tests.builders.facts import world
from tests.sql.ledger_harness import GPU, LedgerHarness, gang, queue
from tests.sql.read.test_queue_versions import record, version

HOUR = 3600
#: Two hours before a month ends, in Berlin one.
LATE = int(datetime(2026, 10, 31, 22, tzinfo=UTC).timestamp())
TOP = QueueName("top")


def with_budget(hours: str, when_spent: str) -> QueueVersion:
    """Queue top with a budget of thousandths of a GPU, as the harness has them."""
    return version("top", 2, {"budget": {"hours": {GPU: hours}, "whenSpent": when_spent}})


async def test_use_of_a_budget_is_that_of_all_below_in_this_month_also_of_queues_that_are_gone(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(
        muster,
        [queue(ROOT, None), queue("top"), queue("a", "top"), queue("b", "top")],
        {"n1": 8},
        ["j1", "j2"],
    )
    await record(harness, 0, with_budget("0.020", "hold"), version("b", 2, {"parent": "top"}))
    [first] = (await harness.admit(gang("j1", "a", "n1 n1"), at=LATE - HOUR)).accepted.values()
    [second] = (await harness.admit(gang("j2", "b", "n1"), at=LATE)).accepted.values()
    await harness.free(second, 0, at=LATE + HOUR)
    await record(harness, 1, removed="b")

    async def told(now: int) -> tuple[str, str | None, int | None, str, str]:
        reader = SqlReader(muster, clock=lambda: float(now))
        [budget] = [each.budget for each in (await reader.queues()).items if each.budget is not None]
        [line] = budget.resources
        return line.hours, line.used, line.percent, budget.begins, budget.ends

    month = ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    assert await told(LATE + HOUR) == ("0.02", "0.005", 25, *month)
    assert (await told(LATE + 2 * HOUR - 1))[1:3] == ("0.007", 34)
    assert (await told(LATE + 3 * HOUR))[1:3] == ("0.002", 10)

    budget = HoursBudget(hours={GPU: 20}, holds=True)
    known = world([queue_fact("top", budget=budget), queue_fact("a", parent=TOP)])
    await read_budgets(muster, known, LATE + HOUR)
    assert known.budgets.use is not None
    assert known.budgets.use.hours[TOP][GPU].until(LATE + 2 * HOUR - 1) == 5 * HOUR + 2 * (HOUR - 1)
    await harness.free(first, 0, at=LATE + 4 * HOUR)


async def test_days_that_are_over_count_with_the_day_that_lasts(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue(ROOT, None), queue("top")], {"n1": 8}, ["j1", "j2", "j3"]
    )
    await record(harness, 0, with_budget("1", "report"))
    [first] = (await harness.admit(gang("j1", "top", "n1"), at=LATE - 72 * HOUR)).accepted.values()
    await harness.admit(gang("j2", "top", "n1"), at=LATE - 50 * HOUR)
    await harness.free(first, 0, at=LATE - 48 * HOUR)
    await harness.admit(gang("j3", "top", "n1"), at=LATE)
    for now, used in ((LATE + HOUR, 24 + 51 + 1), (LATE + 2 * HOUR - 1, 24 + 51 + 1 + 2)):
        reader = SqlReader(muster, clock=lambda now=now: float(now))
        [budget] = [each.budget for each in (await reader.queues()).items if each.budget is not None]
        assert budget.resources[0].used == f"{used / 1000:g}"


async def test_a_queue_says_when_most_of_its_budget_is_used(muster: Database) -> None:
    harness = await LedgerHarness.begin(
        muster, [queue(ROOT, None), queue("top"), queue("a", "top")], {"n1": 8}, ["j1"]
    )
    await harness.admit(gang("j1", "a", "n1"), at=LATE)
    for hours, when_spent, words in (
        ("0.002", "report", ""),
        (
            "0.001",
            "report",
            f"100 % of the budget of 0.001 hours of {GPU} until 2026-11-01T00:00:00Z is used",
        ),
        (
            "0.001",
            "hold",
            f"100 % of the budget of 0.001 hours of {GPU} until 2026-11-01T00:00:00Z is used; nothing more is admitted",
        ),
    ):
        await record(harness, 0, with_budget(hours, when_spent))
        queues = (await SqlReader(muster, clock=lambda: LATE + float(HOUR)).queues()).items
        below = f"{words}, by way of top" if words else ""
        assert {each.name: each.message for each in queues} == {ROOT: "", "top": words, "a": below}


async def test_months_are_those_of_the_configured_zone(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue(ROOT, None), queue("top")], {"n1": 8}, ["j1"])
    await record(harness, 0, with_budget("1", "report"))
    await harness.admit(gang("j1", "top", "n1"), at=LATE)
    reader = SqlReader(muster, clock=lambda: LATE + 2.0 * HOUR, budget_zone=ZoneInfo("Europe/Berlin"))
    [budget] = [each.budget for each in (await reader.queues()).items if each.budget is not None]
    assert (budget.begins, budget.resources[0].used) == ("2026-10-31T23:00:00Z", "0.001")
