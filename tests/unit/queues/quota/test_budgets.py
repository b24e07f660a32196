"""Budgets of queues: the months that they are for, and what is used of them, exact to the second."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from queues.quota.budgets import (
    HoursBudget,
    HoursUsed,
    Period,
    SpentBudget,
    hours_text,
    hundredths,
    sum_upwards,
)
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.resources import GPU
from queues.workload import QueueName
from tests.tables import with_rows

A, B, C = QueueName("a"), QueueName("b"), QueueName("c")
HOUR = 3600


def second(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@with_rows("zone", "moment", "begins", "ends", "day")
def test_a_month_is_that_of_the_calendar_in_its_zone(
    zone: str, moment: str, begins: str, ends: str, day: str
) -> None:
    month = Period.month_of(second(moment), ZoneInfo(zone))
    assert month == (second(begins), second(ends))
    assert month.next_day(ZoneInfo(zone)) == day
    assert Period.month_of(month.ends - 1, ZoneInfo(zone)) == month
    assert Period.month_of(month.ends, ZoneInfo(zone)).begins == month.ends


def test_use_goes_on_with_what_is_held_and_the_second_is_known_at_which_a_budget_is_used_up() -> None:
    used = HoursUsed(used=0, held=2000, at=100).posted(1000, 110).posted(-3000, 120)
    assert (used.until(120), used.until(9999)) == (50_000, 50_000)
    growing = used.posted(3000, 130)
    assert growing.until(140) == 80_000
    assert [growing.reaches(amount) for amount in (50_000, 50_001, 53_000, 53_001)] == [130, 131, 131, 132]
    assert used.reaches(50_001) is None


def test_a_queue_below_counts_in_all_above_wherever_it_is() -> None:
    one = {GPU: HoursUsed(10, 1, 100)}
    own = {A: one, B: one, C: {GPU: HoursUsed(5, 2, 90)}}
    parents = {A: None, B: A, C: B, "of a cycle": "of a cycle"}
    found = sum_upwards([*own.items(), (QueueName("of a cycle"), one)], [A, B], parents, 110)
    # At 110: a and b have used 20 each, c 45.
    assert found == {A: {GPU: HoursUsed(85, 4, 110)}, B: {GPU: HoursUsed(65, 3, 110)}}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        (GPU, 1000 * HOUR * 1000, "1000"),
        (GPU, 2 * HOUR, "0.002"),
        (GPU, 0, "0"),
        ("memory", 2**30 * HOUR, "1Gi"),
    ],
)
def test_hours_are_written_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert hours_text(resource, amount) == text


def test_a_budget_is_all_used_at_a_hundred_and_not_before() -> None:
    assert [hundredths(used, 1000) for used in (0, 799, 800, 999, 1000, 1500)] == [0, 79, 80, 99, 100, 150]


def test_the_nearest_budget_that_is_used_up_stops_a_queue_and_those_below_it() -> None:
    budget, spent = HoursBudget(hours={GPU: 1}, holds=True), SpentBudget(resource=GPU, ends_on="2026-12-01")
    queues = (
        Queue(name=A, budget=budget, spent=spent),
        Queue(name=B, parent=A, budget=budget, spent=spent),
        Queue(name=C, budget=budget),
    )
    tree = QueueTree.build({each.name: each for each in queues}, None)
    found = {name: tree.budget_spent(name) for name in (A, B, C)}
    assert {name: each and each.queue for name, each in found.items()} == {A: A, B: B, C: None}
