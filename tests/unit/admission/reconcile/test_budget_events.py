"""That a budget is nearly used up is said by one event in a month, also if another leader comes."""

from admission.facts.cluster import QueueFact
from admission.kube.writers.events import event
from admission.reconcile.events import BudgetEvents
from admission.world.world import World
from queues.quota.budgets import HoursBudget, HoursUsed
from queues.resources import GPU
from queues.workload import QueueName
from tests.builders.facts import NOW, queue, world

TOP, A = QueueName("top"), QueueName("a")
HOUR = 3_600_000


def budgeted() -> QueueFact:
    return queue("top", budget=HoursBudget(hours={GPU: 10_000}))


def with_used(used: int, held: int = 0, now: int = NOW) -> World:
    """A world in which queue a, below top with ten hours, has used so much."""
    found = world([budgeted(), queue("a", parent=TOP)])
    month = found.budgets.unread(now)
    assert month is not None
    found.budgets.begin(month, {A: {GPU: HoursUsed(used, held, now)}}, {}, now)
    return found


def test_a_budget_that_is_nearly_used_up_has_one_event_in_a_month() -> None:
    known, events = with_used(8 * HOUR - 1000, held=1000), BudgetEvents()
    assert list(events.new(known, NOW)) == []
    (note,) = events.new(known, NOW + 1)
    assert (note.ref.name, note.reason, note.warning) == ("top", "BudgetNearlySpent", True)
    assert note.message.startswith(f"80 % of 10 hours of {GPU} until ")
    assert list(events.new(known, NOW + 2)) == []
    next_month = known.budgets.use.period.ends  # type: ignore[union-attr]
    later = with_used(9 * HOUR, now=next_month)
    assert len(list(events.new(later, next_month))) == 1
    assert list(BudgetEvents().new(world([queue("a")]), NOW)) == []


def test_another_leader_writes_it_by_the_same_name_or_leaves_it_to_the_one_before() -> None:
    known = with_used(8 * HOUR, held=1000)
    (first,), (second,) = (BudgetEvents().new(known, NOW + late) for late in (0, 3599))
    written, again = (event(note, at * 10**9, "muster") for note, at in ((first, NOW), (second, NOW + 3599)))
    assert written["metadata"] == again["metadata"]
    assert written["eventTime"] != again["eventTime"]
    assert list(BudgetEvents().new(known, NOW + 3600)) == []
