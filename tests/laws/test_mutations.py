"""The laws can fail: each planted bug breaks the law it is planted for."""

import pytest

from admission.engine.snapshot import Snapshot
from tests.laws import laws
from tests.laws.mutations import MUTATIONS
from tests.laws.planted import Bug, is_broken_in
from tests.laws.strategies import snapshots


@pytest.mark.parametrize("bug", MUTATIONS, ids=str)
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    def law(snapshot: Snapshot) -> None:
        if bug.law is laws.independent_of_order:
            laws.independent_of_order(snapshot, laws.random.Random(1))
        else:
            bug.law(snapshot)

    is_broken_in(snapshots(), law)
