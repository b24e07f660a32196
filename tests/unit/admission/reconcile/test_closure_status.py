"""What the status of a tenant's reservation says where it has too little, or is not empty."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from admission.facts.cluster import ClosureFact
from admission.reconcile.closure_status import closure_statuses
from admission.world.world import World
from queues.node_closures import ClosureKind
from queues.quota.budgets import HoursBudget, HoursUsed
from queues.quota.queue import Limits
from queues.resources import GPU, Resources
from queues.text_format import rfc3339
from queues.workload import NodeName, QueueName
from tests.builders.closures.closed_nodes import reservation
from tests.builders.facts import JOB, NOW, TEAM, admission, job, node, queue, released, world
from tests.tables import named_rows

HOLDER, PART = QueueName("holder"), QueueName("holder-part")
DESERVES = Limits(deserved={GPU: 16_000})


def reserved(*nodes: str, of_tenant: bool = True, start: int = NOW, gpus: int = 8) -> ClosureFact:
    closure = reservation(
        lead_from=NOW - 600,
        clear_at=start - 60,
        start=start,
        end=NOW + 3600,
        queue=HOLDER,
        amounts=Resources({GPU: gpus * 1000}),
        of_tenant=of_tenant,
        nodes=tuple(NodeName(each) for each in nodes),
    )
    return ClosureFact(kind=ClosureKind.RESERVATION, name="night", uid="night", closure=closure)


def status_of(fact: ClosureFact, known: World) -> Mapping[str, Any]:
    """Fields of its status in this world."""
    known.node_inventory.closures.put(fact.kind, fact.name, fact)
    (wanted,) = closure_statuses(known, NOW)
    return wanted.fields


@named_rows(
    ("change", "closes_from"),
    {
        "closed now": ({}, rfc3339(NOW - 600)),
        "later": ({"start": NOW + 3000, "lead_from": NOW + 2400}, rfc3339(NOW + 2400)),
        "without lead time": ({"start": NOW + 3000, "lead_from": NOW + 3000}, rfc3339(NOW + 3000)),
        "ended": ({"start": NOW - 600, "end": NOW - 1}, None),
    },
)
def test_the_status_says_from_when_on_nodes_are_closed(
    change: dict[str, int], closes_from: str | None
) -> None:
    fact = reserved("n1", of_tenant=False)
    fact = replace(fact, closure=replace(fact.closure, **change))
    assert status_of(fact, world([queue(HOLDER), node("n1")])).get("closesFrom") == closes_from


def told(fact: ClosureFact, of: QueueName = TEAM) -> tuple[object, object]:
    """Reason and message, where n1 has work of a queue."""
    queues = [queue(TEAM), queue(HOLDER, limits=DESERVES), queue(PART, parent=HOLDER)]
    held = replace(admission(JOB, "n1", started=True), queue=of)
    known = world([*queues, node("n1"), node("n2"), job(1), released("a", "main/0", "n1", owner=JOB)], [held])
    fields = status_of(fact, known)
    return fields.get("reason"), fields.get("message")


def test_too_few_nodes_within_the_right_are_told() -> None:
    reason, message = told(reserved())
    assert reason == "TooFewNodes"
    within = "within what holder deserves beside its work on others"
    assert message == f"too few usable nodes {within}: 0 of 8 nvidia.com/gpu"
    _, message = told(reserved(of_tenant=False))
    assert message == "too few usable nodes: 0 of 8 nvidia.com/gpu"


def test_more_than_its_queue_deserves_is_told() -> None:
    reason, message = told(reserved(gpus=17))
    assert reason == "BeyondDeserved"
    assert "expected at most 16, what it deserves" in str(message)


def test_a_reservation_for_a_queue_whose_budget_is_used_up_keeps_nothing_until_the_month_is_over() -> None:
    budget = HoursBudget(hours={GPU: 1000}, holds=True)
    known = world([queue(HOLDER, budget=budget), queue(PART, parent=HOLDER), node("n1"), node("n2")])
    fact = reserved("n1", of_tenant=False)
    assert status_of(fact, known)["nodes"] == ["n1"]
    known.node_inventory.closures.choose({fact.id: (NodeName("n2"),)})
    month = known.budgets.unread(NOW)
    assert month is not None
    known.budgets.begin(month, {PART: {GPU: HoursUsed(3_600_000, 0, NOW)}}, {}, NOW)
    known.refresh(NOW)
    assert known.freeze(NOW).closures == ()
    closure = replace(fact.closure, queue=PART, end=month.ends + 60, nodes=())
    known.node_inventory.closures.put(fact.kind, fact.name, replace(fact, closure=closure))
    (wanted,) = closure_statuses(known, NOW)
    day = f"{datetime.fromtimestamp(month.ends, UTC):%Y-%m-%d}"
    message = f"it keeps no nodes: the budget of its queue is used up until {day}"
    assert wanted.fields == {"phase": "Active", "reason": "BudgetSpent", "message": message}
    known.refresh(month.ends)
    assert [each.nodes for each in known.freeze(month.ends).closures] == [()], "they are chosen anew"


def test_work_of_others_that_stays_in_the_window_is_told() -> None:
    reason, message = told(reserved("n1"))
    assert reason == "NotEmpty"
    assert "work of other queues is still on 1 of 1 node:" in str(message)


@named_rows(
    ("fact", "of"),
    {
        "its own work": (reserved("n1"), PART),
        "an empty node": (reserved("n2"), TEAM),
        "of a platform administrator": (reserved("n1", of_tenant=False), TEAM),
        "before the window": (reserved("n1", start=NOW + 60), TEAM),
    },
)
def test_otherwise_nothing_is_told(fact: ClosureFact, of: QueueName) -> None:
    assert told(fact, of) == (None, None)


def test_what_of_a_reservation_is_not_read_is_told_with_the_rest() -> None:
    unread = "spec.resources: found 9 entries, expected at most 8"
    reason, message = told(replace(reserved("n1", of_tenant=False), unread=unread))
    assert (reason, message) == ("BeyondBounds", f"what is beyond these bounds is not read: {unread}")
    reason, message = told(replace(reserved("n1"), unread=unread))
    assert reason == "NotEmpty"
    assert str(message).startswith(f"what is beyond these bounds is not read: {unread}; work of other queues")
