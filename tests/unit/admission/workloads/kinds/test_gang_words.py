"""A waiting gang says on its PodGroup what Volcano's would, with Muster's code in the sentence."""

import pytest

from admission.facts.workloads import NO_CONDITION
from admission.wire import WireCondition
from admission.workloads.kinds.gang_words import (
    NOT_ENOUGH_RESOURCES,
    WAITS_FOR_RESOURCES,
    code_in,
    gang_sentence,
    told_of,
    word_of,
)
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from tests.tables import named_rows, with_rows


@with_rows("code", "word")
def test_volcanos_word_stands_where_volcano_has_one(code: ReasonCode, word: str) -> None:
    assert word_of(code) == word


def test_a_gang_says_how_many_of_its_pods_wait_and_for_what() -> None:
    reason = Reason(code=ReasonCode.NO_FIT, message="2 pods with 8 cpu each: room for 1")
    told = gang_sentence(reason, unready=2, pods=3)
    assert told == "2/3 tasks in gang unschedulable: NoFit: 2 pods with 8 cpu each: room for 1"


def test_what_is_no_lack_of_resources_is_told_as_it_is() -> None:
    reason = Reason(code=ReasonCode.QUEUE_CLOSED, message="queue team is closed")
    assert gang_sentence(reason, unready=2, pods=2) == "queue team is closed"


@pytest.mark.parametrize("code", list(ReasonCode))
def test_the_code_can_be_read_again_from_what_is_told(code: ReasonCode) -> None:
    sentence = gang_sentence(Reason(code=code, message="1/2 tasks: x"), unready=10, pods=20)
    assert code_in(word_of(code), sentence) == code
    assert (word_of(code) == NOT_ENOUGH_RESOURCES) == (code in WAITS_FOR_RESOURCES)


def unschedulable(
    message: str = "", reason: str = NOT_ENOUGH_RESOURCES, status: str = "True"
) -> WireCondition:
    return WireCondition(type="Unschedulable", status=status, reason=reason, message=message)


@named_rows(
    ("conditions", "told"),
    {
        "nothing": (None, NO_CONDITION),
        "scheduled": ((WireCondition(type="Scheduled", status="True"),), NO_CONDITION),
        "not any more": ((unschedulable(reason="NoFit", status="False"),), NO_CONDITION),
        "ours": ((unschedulable("2/2 tasks in gang unschedulable: NoFit: no room"),), ("False", "NoFit")),
        "Volcano's": (
            (unschedulable("2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending"),),
            ("False", "NotEnoughResources"),
        ),
        "of an earlier version": ((unschedulable(reason="QueueLimit"),), ("False", "QueueLimit")),
    },
)
def test_the_next_leader_reads_what_was_told(
    conditions: tuple[WireCondition, ...] | None, told: tuple[str, str]
) -> None:
    assert told_of(conditions) == told
