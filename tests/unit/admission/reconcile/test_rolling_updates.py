"""A pod that waits for older pods of its own Deployment is told so, and of no expected start."""

from dataclasses import replace
from typing import Any

from admission.engine import reasons
from admission.facts.pods import PodFact, PodPhase
from admission.reconcile.world_status import own_update_words
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from tests.builders.facts import gated, released
from tests.tables import named_rows, with_rows


def pod(name: str, **facts: Any) -> PodFact:
    return released(name, None, "n1", controller="deployment/web", **facts)


NEW = gated("web-6b7-x", controller="deployment/web")


LIMIT, OLD = ReasonCode.QUEUE_LIMIT, pod("web-5a6-a")


@named_rows(
    ("code", "others", "is_told"),
    {
        "full queue": (LIMIT, [OLD, pod("web-5a6-b")], True),
        "full nodes": (ReasonCode.NO_FIT, [OLD], True),
        "paused": (ReasonCode.QUEUE_PAUSED, [OLD], False),
        "it grows": (LIMIT, [pod("web-6b7-a")], False),
        "the old one ends": (LIMIT, [replace(OLD, deleting=True)], False),
        "the old one ended": (LIMIT, [replace(OLD, phase=PodPhase.SUCCEEDED)], False),
        "no old one": (LIMIT, [], False),
    },
)
def test_a_pod_that_waits_for_its_own_deployment_is_told_the_two_ways_out(
    code: ReasonCode, others: list[PodFact], is_told: bool
) -> None:
    expected = (
        "it waits for pods of its own Deployment web:"
        " set maxUnavailable of its strategy to 1 or more, or maxSurge to 0"
    )
    reason = Reason(code=code, message="")
    assert own_update_words(reason, [NEW], [NEW, *others]) == (expected if is_told else "")


@with_rows("rule", "is_told")
def test_the_place_of_an_old_pod_is_offered_only_where_that_is_what_it_lacks(
    rule: str, is_told: bool
) -> None:
    reason = reasons.rules_no_fit(
        pods=1, takes=Resources(), fit=0, nodes=2, excluded={}, by_rules={rule: 2}, domains=None
    )
    assert bool(own_update_words(reason, [NEW], [NEW, OLD])) is is_told
