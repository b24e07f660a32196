"""Laws of budgets, on worlds in which some are used up."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.snapshot import Snapshot
from queues.quota.budgets import HoursBudget, SpentBudget
from queues.quota.tree import QueueTree
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import GPU, snapshots

worlds = in_worlds(60)
BUDGET = HoursBudget(hours={GPU: 1000}, holds=True)
SPENT = SpentBudget(resource=GPU, ends_on="2026-12-01")


@st.composite
def budgeted(draw: st.DrawFn) -> Snapshot:
    """A world in which budgets of some queues are used up."""
    snapshot = draw(snapshots())
    queues = {
        name: replace(queue, budget=BUDGET, spent=draw(st.sampled_from([None, None, SPENT])))
        for name, queue in snapshot.queues.items()
    }
    return replace(snapshot, queues=queues)


@pytest.mark.parametrize(
    "law",
    [
        decision.stopped_queues_admit_nothing,
        decision.memo_decides_nothing,
        decision.in_the_plan_or_one_reason,
        decision.reaches_a_fixed_point,
    ],
)
def test_the_laws_hold_with_budgets_that_are_used_up(law: Callable[[Snapshot], None]) -> None:
    @worlds
    @given(budgeted())
    def holds(snapshot: Snapshot) -> None:
        law(snapshot)

    holds()


BUGS = [
    Bug(
        "budgets are passed over",
        QueueTree,
        "budget_spent",
        lambda *_: None,
        decision.stopped_queues_admit_nothing,
    )
]

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, budgeted())
