"""Laws of how long work may run, on worlds with limits of run times."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.pending.pending import PendingWorkloads
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Queue, RunLimit
from queues.quota.tree import QueueTree
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug, is_broken_in, tried
from tests.laws.worlds.run_limits import run_limited
from tests.laws.worlds.settings import in_worlds

worlds = in_worlds(60)


@worlds
@given(run_limited())
def test_nothing_is_admitted_that_declares_to_run_too_long(snapshot: Snapshot) -> None:
    decision.no_declared_run_time_above_a_limit(snapshot)


@worlds
@given(run_limited())
def test_the_memo_only_saves_time(snapshot: Snapshot) -> None:
    decision.memo_decides_nothing(snapshot)


@worlds
@given(run_limited(), st.integers())
def test_the_order_of_the_input_does_not_matter(snapshot: Snapshot, seed: int) -> None:
    decision.independent_of_order(snapshot, random.Random(seed))


@pytest.mark.parametrize("law", [decision.in_the_plan_or_one_reason, decision.reaches_a_fixed_point])
def test_the_other_laws_hold_beside_it(law: Callable[[Snapshot], None]) -> None:
    @worlds
    @given(run_limited())
    def holds(snapshot: Snapshot) -> None:
        law(snapshot)

    holds()


def _never(*_: Any, **__: Any) -> None:
    return None


def _own_queue_only(self: QueueTree, name: Any) -> RunLimit | None:
    queue: Queue | None = self.queues.get(name)
    if queue is None or queue.max_run_time is None:
        return None
    return RunLimit(queue.max_run_time, queue.name)


LAW = decision.no_declared_run_time_above_a_limit

BUGS = [
    Bug("no run time is refused", PendingWorkloads, "_run_time_refusal", _never, LAW, 6),
    Bug("limits of queues above are not looked at", QueueTree, "run_limit", _own_queue_only, LAW, rare=True),
]


@pytest.mark.parametrize("bug", tried(BUGS))
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    is_broken_in(run_limited(), bug.law, first=bug.first)
