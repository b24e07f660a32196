"""The law of rules about other pods can fail: each planted bug breaks it."""

from typing import Any

import numpy as np
import pytest

from admission.engine.placement import gangs, related_pods
from admission.engine.placement.pod_rules import PodSetRules, RuleBoard, _Spread
from tests.laws.pod_rules.clusters import NAMESPACES, ZONE, Case, Drawn, a_node, a_pod
from tests.laws.pod_rules.scheduler_filters import Cluster
from tests.laws.pod_rules.test_pod_rule_laws import ALWAYS, keeps_the_rules

#: minDomains keeps a second pod off each node, because pods are bound to nodes by their affinity. Seldom drawn.
FEW_DOMAINS = Case(
    Cluster([a_node("n0", {ZONE: "a"}, 3), a_node("n1", {ZONE: "b"}, 3)], NAMESPACES),
    [
        (
            "t",
            3,
            a_pod(
                "",
                {"app": "train"},
                topologySpreadConstraints=[
                    {
                        "topologyKey": ZONE,
                        "maxSkew": 1,
                        "minDomains": 2,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "train"}},
                    }
                ],
            ),
        )
    ],
)


def _without(*words: str) -> Any:
    def refusals(self: PodSetRules) -> list[tuple[str, Any]]:
        return [(why, nodes) for why, nodes in _refusals(self) if not any(word in why for word in words)]

    return refusals


_refusals = PodSetRules.refusals

BUGS = {
    "rules about other pods are not read": (gangs, "have_rules", lambda groups: False),
    "spread constraints are not looked at": (PodSetRules, "refusals", _without("maxSkew")),
    "anti-affinity is not looked at": (PodSetRules, "refusals", _without("keeps apart")),
    "anti-affinity keeps nobody else away": (PodSetRules, "refusals", _without("keeps such pods away")),
    "affinity is not looked at": (
        PodSetRules,
        "reached",
        lambda self: np.ones(len(self.near[0].of), np.bool_),
    ),
    "minDomains meets no pinned node": (PodSetRules, "refusals", _without("minDomains")),
    "a domain may have one more than maxSkew": (
        _Spread,
        "allowed",
        lambda self: self.counts.on_nodes(
            self.counts.pods + self.own - self.emptiest() <= self.rule.max_skew + 1
        ).astype(np.bool_),
    ),
    "the first of pods that want to be together has no place": (PodSetRules, "is_first", lambda self: False),
    "all nodes are domains": (
        RuleBoard,
        "_counts_for",
        lambda self, pods, rule, together: np.ones(len(self._every), np.bool_),
    ),
    "pods that were just placed do not count": (RuleBoard, "put", lambda self, index, column, change=1: None),
    "the order in which pods are bound does not matter": (
        RuleBoard,
        "left_waiting",
        lambda self, placed: None,
    ),
    "the first way down is the only one": (related_pods, "MOST_STEPS", -1),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_law_fails(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = BUGS[bug]
    monkeypatch.setattr(owner, attribute, wrong)
    for case in (FEW_DOMAINS, *map(Drawn, ALWAYS)):
        try:
            keeps_the_rules(case)
        except AssertionError:
            return
    pytest.fail("no case shows it")
