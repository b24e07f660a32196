"""What is left of a trial's answer without queues that the user may not see."""

import pytest

from admission.web.trials.hidden_queues import named_in, without_queues

HIDDEN = frozenset(("att-b", "att-b1", "gpu"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "reclaimed for job/att/mine: queue att-b uses 32 nvidia.com/gpu and deserves 16, "
            "queue att-a uses 0 nvidia.com/gpu and deserves 16",
            "reclaimed for job/att/mine: queue att-a uses 0 nvidia.com/gpu and deserves 16",
        ),
        ("reclaimed for job/att/mine: queue att-b uses 3 gpu", "reclaimed for job/att/mine"),
        (
            "nothing but its turn: alone, 3 of att-b1 and 1 of its own queue are evicted for it",
            "nothing but its turn: alone, 3 of another queue and 1 of its own queue are evicted for it",
        ),
        ("queue att-b1 may use 16 nvidia.com/gpu: 16 used", "it is about a queue that you may not see"),
        ("queue att-b1: deserved nvidia.com/gpu 8 → 4", "it is about a queue that you may not see"),
        ("queue att-b12 uses 3 nvidia.com/gpu", "queue att-b12 uses 3 nvidia.com/gpu"),
        ("queue att-b.x is paused", "queue att-b.x is paused"),
    ],
)
def test_sentences_keep_the_parts_that_name_no_hidden_queue(text: str, left: str) -> None:
    assert without_queues({"message": text}, HIDDEN) == {"message": left}


def test_facts_that_name_a_hidden_queue_are_left_out() -> None:
    reasons = [
        {"queue": "att-b1", "facts": {"above": {"queue": "att-b", "used": 32}}},
        {"queue": "att-a", "facts": {"queue": "att-a", "used": 3}},
    ]
    assert without_queues(reasons, HIDDEN) == [{"queue": None, "facts": {}}, reasons[1]]
    assert without_queues(reasons, frozenset()) is reasons


def test_queues_are_found_wherever_they_are_named() -> None:
    answer = {"message": "3 of att-b1 are evicted, queue att-b.", "items": [{"queue": "att-c"}, 5, None]}
    assert named_in(answer, {"att-b", "att-b1", "att-c", "att"}) == {"att-b", "att-b1", "att-c"}
