"""Gangs whose pods have rules about other pods: placed where kube-scheduler's filters allow all of them, or not at all.

Each case is a small random cluster, read from manifests and decided by the engine; an evaluator of its own says what
the filters allow (``scheduler_filters``).
"""

import pytest

from tests.laws.pod_rules.clusters import Case, Drawn, placed_by_muster
from tests.laws.pod_rules.scheduler_filters import all_placed, found_wrong

#: The first of them are run always.
ALWAYS, EVERY = range(300), range(300, 6000)


def keeps_the_rules(drawn: Case) -> bool:
    """Places of a gang meet every rule; a gang without places has none. Returns whether it has."""
    answer = placed_by_muster(drawn)
    if isinstance(answer, list):
        assert found_wrong(drawn.pods, answer, drawn.cluster) == [], answer
        return True
    assert all_placed(drawn.pods, drawn.cluster, stable=True) is None, answer
    assert answer.code in ("NoFit", "NeverFits"), answer
    return False


def test_a_gang_is_admitted_exactly_if_the_rules_of_all_its_pods_can_be_met() -> None:
    admitted = sum(keeps_the_rules(Drawn(seed)) for seed in ALWAYS)
    assert 60 < admitted < 240, "cases of both kinds"


@pytest.mark.long
def test_the_same_in_many_more_clusters() -> None:
    for seed in EVERY:
        keeps_the_rules(Drawn(seed))
