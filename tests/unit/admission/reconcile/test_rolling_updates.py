"""A pod that waits for older pods of its own Deployment is told so, and of no expected start."""

import pytest

from admission.engine import reasons
from admission.facts.pods import PodFact, PodPhase, PodShape
from admission.reconcile.world_status import own_update_words
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import AdmissionId
from tests.tables import with_rows


def pod(
    name: str, *, gated: bool = False, deleting: bool = False, phase: PodPhase = PodPhase.RUNNING
) -> PodFact:
    return PodFact(
        uid=name,
        namespace="team",
        name=name,
        phase=PodPhase.PENDING if gated else phase,
        gated=gated,
        deleting=deleting,
        shape=PodShape(takes=Resources()),
        controller="deployment/web",
        admission=None if gated else AdmissionId(1),
    )


NEW = pod("web-6b7-x", gated=True)


@pytest.mark.parametrize(
    ("code", "others", "is_told"),
    [
        (ReasonCode.QUEUE_LIMIT, [pod("web-5a6-a"), pod("web-5a6-b")], True),
        (ReasonCode.NO_FIT, [pod("web-5a6-a")], True),
        (ReasonCode.QUEUE_PAUSED, [pod("web-5a6-a")], False),
        (ReasonCode.QUEUE_LIMIT, [pod("web-6b7-a")], False),
        (ReasonCode.QUEUE_LIMIT, [pod("web-5a6-a", deleting=True)], False),
        (ReasonCode.QUEUE_LIMIT, [pod("web-5a6-a", phase=PodPhase.SUCCEEDED)], False),
        (ReasonCode.QUEUE_LIMIT, [], False),
    ],
    ids=[
        "full queue",
        "full nodes",
        "paused",
        "it grows",
        "the old one ends",
        "the old one ended",
        "no old one",
    ],
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
    assert bool(own_update_words(reason, [NEW], [NEW, pod("web-5a6-a")])) is is_told
