"""The laws can fail: each planted bug breaks the law it is planted for."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from admission.engine.snapshot import Snapshot
from tests.laws import laws
from tests.laws.mutations import MUTATIONS, Mutation
from tests.laws.strategies import snapshots

search = settings(
    max_examples=1500,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.bug)
def test_a_planted_bug_breaks_its_law(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation.owner, mutation.attribute, mutation.wrong)

    @search
    @given(snapshots())
    def law(snapshot: Snapshot) -> None:
        if mutation.law is laws.independent_of_order:
            laws.independent_of_order(snapshot, laws.random.Random(1))
        else:
            mutation.law(snapshot)

    with pytest.raises((AssertionError, ExceptionGroup)):
        law()
