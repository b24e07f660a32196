"""What other objects say about a fact."""

from dataclasses import replace

import pytest

from admission.facts.pods import PodFact
from admission.workloads.context import Context, in_context
from tests.builders.facts import pod


@pytest.mark.parametrize(
    ("priority_class", "preempts"), [("", True), ("high", True), ("calm", False), ("unknown", True)]
)
def test_others_are_evicted_for_a_pod_if_its_class_says_so(priority_class: str, preempts: bool) -> None:
    context = Context(priorities={"calm": 9, "high": 9}, never_preempting=frozenset({"calm"}))
    found = in_context(replace(pod("a", "n1"), priority_class=priority_class), context)
    assert isinstance(found, PodFact)
    assert found.preempts is preempts
