"""Room that comes back in pieces, beside what is promised of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admission.engine import claims
from admission.engine.backfill.coming_room import LEAVING_SECONDS, ComingRoom
from admission.engine.decide import decide
from admission.engine.memo import EngineState, Memo
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.resources import GPU
from queues.workload import NO_FLAVOR, QueueName
from tests.laws.worlds.plan_effects import apply
from tests.scenarios.test_scenarios import changed, started

GPUS = Account(NO_FLAVOR, GPU)
#: ``a`` gets back the place of one of the two, which is evicted; the other one is over.
STORY: dict[str, Any] = {
    "nodes": ["2 × 4 GPUs in rack r1"],
    "queues": {"a": {"deserved": 4}, "b": {"deserved": 4}},
    "running": {"b/one": "1 × 4 GPUs", "b/two": "1 × 4 GPUs"},
    "arrives": {"a/mine": "1 × 4 GPUs"},
}


@pytest.fixture
def promised() -> Snapshot:
    """One of them is evicted, and its place is promised."""
    snapshot = changed(started(STORY), STORY)
    plan, _ = decide(snapshot, Memo())
    assert len(plan.claims) == 1
    return apply(snapshot, plan)


def coming(snapshot: Snapshot) -> tuple[ComingRoom | None, claims.HeldClaims, Trial]:
    state = EngineState.of(snapshot)
    trial = Trial.open(snapshot.nodes, state.usage.copy())
    evicting = state.open_admissions.evicting
    held = claims.hold(snapshot, trial, evicting)
    return ComingRoom.of(snapshot, evicting, held), held, trial


def test_what_is_promised_does_not_come_for_others(promised: Snapshot) -> None:
    room, held, trial = coming(promised)
    later, drained = room.after(trial), held.after_draining(trial)
    assert (later.free == drained.free).all()
    assert later.free[later.table.resources.index(GPU)].sum() == 0
    used = [later.usage.used(QueueName(name), GPUS) for name in "ab"]
    assert used == [drained.usage.used(QueueName(name), GPUS) for name in "ab"] == [4000, 4000]


def test_what_is_over_comes_beside_what_is_promised(promised: Snapshot) -> None:
    (other,) = (number for number, each in promised.admissions.items() if not each.evicted_at)
    room, _, trial = coming(replace(promised, leaving={other: promised.now}))
    free = room.after(trial).free
    assert free[trial.table.resources.index(GPU)].sum() == 4000
    assert len(room.seats) == 2


def test_after_a_minute_nothing_comes_of_an_eviction_that_its_claim_waits_for(promised: Snapshot) -> None:
    room, _, _ = coming(replace(promised, now=promised.now + LEAVING_SECONDS - 1))
    assert room.until == promised.now + LEAVING_SECONDS
    (other,) = (number for number, each in promised.admissions.items() if not each.evicted_at)
    later = promised.now + LEAVING_SECONDS
    assert coming(replace(promised, now=later))[0] is None
    room, _, trial = coming(replace(promised, now=later, leaving={other: later}))
    before, after = trial.free, room.after(trial).free
    (row,) = (trial.table.resources.index(GPU),)
    assert sorted(np.subtract(after[row], before[row]).tolist()) == [0, 4000]
