"""The laws can fail: each planted bug breaks the law it is planted for."""

import pytest

from admission.engine.snapshot import Snapshot
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug, is_broken_in, tried
from tests.laws.planted.decision_bugs import MUTATIONS
from tests.laws.worlds.snapshots import snapshots


@pytest.mark.parametrize("bug", tried(MUTATIONS))
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    def law(snapshot: Snapshot) -> None:
        if bug.law is decision.independent_of_order:
            decision.independent_of_order(snapshot, decision.random.Random(1))
        else:
            bug.law(snapshot)

    is_broken_in(snapshots(), law, first=bug.first)
